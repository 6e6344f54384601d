"""The operations of a plan, which `plan` decides and `write` carries out, and their occasion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from hitherto_extraction.pipeline.answer import NewItem
from hitherto_extraction.pipeline.evidence import Evidence
from hitherto_extraction.pipeline.sealed_memories import is_sensitive
from hitherto_extraction.storage import ledger
from hitherto_extraction.storage.known_memories import CurrentMemory
from hitherto_shared.models import Scope, SourceRef


@dataclass(frozen=True, slots=True)
class Creation:
    """A new memory.

    `position` is its item's position in the reply, where its vectors are found; `list_name` is
    "new", or "updated" for a refused update that waits for review. `challenges` are the memories
    that a quarantined one would contradict if it were approved.
    """

    memory_id: UUID
    position: int
    item: NewItem
    evidence: Evidence
    valid_from: datetime
    status: str = "active"
    valid_to: datetime | None = None
    superseded_by: UUID | None = None
    challenges: tuple[UUID, ...] = ()
    list_name: str = "new"

    @property
    def vector_of(self) -> tuple[str, int]:
        """The key of its content's vector."""
        return self.list_name, self.position


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The next version of a known memory.

    `vector_of` is the key of the vectors for the new words: ("new", position), ("updated",
    position), or None if the words stay. `source_text` holds the words of the evidence for the
    change.
    """

    before: CurrentMemory
    after: CurrentMemory
    action: str  # "merged", "updated", "restored" or "quarantined"
    reason: str
    vector_of: tuple[str, int] | None
    source_text: str


@dataclass(frozen=True, slots=True)
class Closure:
    """A known memory that ends, or a goal that is achieved."""

    before: CurrentMemory
    status: str  # "contradicted" or "achieved"
    importance: float
    valid_to: datetime
    superseded_by: UUID | None
    reason: str


@dataclass(frozen=True, slots=True)
class ItemStatement:
    """What an item of the reply says about a known memory, whether or not that changes it.

    `action` is "said" or "updated", `version` is the memory's version afterwards, and
    `made_version` says whether the item created it. `words` are JSON.
    """

    memory_id: UUID
    action: str
    version: int
    made_version: bool
    evidence: Evidence
    words: Mapping[str, Any]


@dataclass(slots=True)
class Plan:
    """Operations in the order in which they must be written.

    `challenges` are pairs of a known memory in quarantine and one that it would contradict.
    `sealed` are known memories that are stored sealed, to which `write_plan` adds those that it
    seals, and `sensitive` those that a user with encryption on wants sealed. `refused` counts, by
    reason, well-formed changes that were not made, and `repeated` the statements that another
    statement of the same reply already makes.
    """

    creations: list[Creation] = field(default_factory=list)
    rewrites: list[Rewrite] = field(default_factory=list)
    closures: list[Closure] = field(default_factory=list)
    sources: list[tuple[UUID, SourceRef]] = field(default_factory=list)
    confirmed: dict[UUID, datetime] = field(default_factory=dict)
    mentions: list[tuple[UUID, NewItem]] = field(default_factory=list)
    challenges: list[tuple[UUID, UUID]] = field(default_factory=list)
    said: list[ItemStatement] = field(default_factory=list)
    stated: dict[int, UUID] = field(default_factory=dict)
    sealed: frozenset[UUID] = frozenset()
    sensitive: frozenset[UUID] = frozenset()
    refused: Counter[str] = field(default_factory=Counter)
    dropped: int = 0
    forgotten_again: int = 0
    repeated: int = 0

    def refuse(self, reason: str, items: int = 1) -> None:
        """Drop items of the reply, and count the reason."""
        self.dropped += items
        self.refused[reason] += items


@dataclass(frozen=True, slots=True)
class Occasion:
    """The context of a write: user, charged account, job, conversation and time.

    `kept` are columns of a new memory that only a caller can provide: metadata, expires_at,
    sensitive; `joined` are such columns of the only memory that gets a new version, before and
    after. `encrypts` is whether the user has encryption on, as read under the lock.
    """

    scope: Scope
    job_id: UUID | None
    conversation_id: str | None
    at: datetime
    actor: str = ledger.ACTOR
    source: str = "conversation"
    reason: str = "learnt from a conversation"
    kept: Mapping[str, Any] = field(default_factory=dict)
    joined: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {})
    encrypts: bool = False

    @property
    def marked(self) -> bool:
        """Whether the caller marks a new memory as sensitive."""
        return bool(self.kept.get("sensitive", False))

    def seals(self, kind: str, marked: bool) -> bool:
        """Whether a memory of this type, marked as sensitive or not, is to be sealed now."""
        return self.encrypts and is_sensitive(kind, marked)
