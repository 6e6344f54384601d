"""The input of a plan, the plan in progress, and its operations with their occasion.

`plan` decides the operations, and `write` carries them out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from hitherto_extraction.pipeline.answer import Answer, NewItem
from hitherto_extraction.pipeline.caps import ChangeAllowance
from hitherto_extraction.pipeline.dedupe import Neighbour
from hitherto_extraction.pipeline.evidence import Evidence, Witnesses
from hitherto_extraction.pipeline.sealed_memories import is_sensitive
from hitherto_extraction.pipeline.trust import outranks
from hitherto_extraction.storage import ledger
from hitherto_extraction.storage.known_memories import CurrentMemory
from hitherto_extraction.storage.statements import NewStatement
from hitherto_shared.database.arrays import Texts
from hitherto_shared.embeddings.protocol import Vector
from hitherto_shared.models import CURRENT_STATUSES, SourceRef


@dataclass(frozen=True, slots=True)
class Creation:
    """A new memory.

    `position` is its item's position in the reply, where its vectors are found; `list_name` is
    "new", or "updated" for a refused update that waits for review. `ended_by` are the memories that
    end one that came late, each with the moment; the first moment counts. `challenges` are the
    memories that a quarantined one would contradict if it were approved.
    """

    memory_id: UUID
    position: int
    item: NewItem
    evidence: Evidence
    valid_from: datetime
    status: str = "active"
    ended_by: tuple[tuple[UUID, datetime], ...] = ()
    challenges: tuple[UUID, ...] = ()
    list_name: str = "new"

    @property
    def vector_of(self) -> tuple[str, int]:
        """The key of its content's vector."""
        return self.list_name, self.position

    @property
    def valid_to(self) -> datetime | None:
        """When it ended."""
        return min((at for _, at in self.ended_by), default=None)

    @property
    def superseded_by(self) -> UUID | None:
        """The memory that ended it."""
        return next((by for by, at in self.ended_by if at == self.valid_to), None)


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
    """A known memory that ends, or a goal that is achieved.

    One that had ended already ends earlier: `instead_of` is the successor that it named before. No
    limit counts it, because nothing that holds is changed.
    """

    before: CurrentMemory
    status: str  # "contradicted" or "achieved"
    importance: float
    valid_to: datetime
    superseded_by: UUID | None
    reason: str
    instead_of: UUID | None = None


@dataclass(slots=True)
class Plan:
    """Operations in the order in which they must be written.

    `challenges` are pairs of a known memory in quarantine and one that it would contradict. `said`
    is what items of the reply say about known memories, whether or not that changes them. `sealed`
    are known memories that are stored sealed, to which `write_plan` adds those that it seals, and
    `sensitive` those that a user with encryption on wants sealed. `refused` counts, by reason,
    well-formed changes that were not made, and `repeated` the statements that another statement of
    the same reply already makes.
    """

    creations: list[Creation] = field(default_factory=list)
    rewrites: list[Rewrite] = field(default_factory=list)
    closures: list[Closure] = field(default_factory=list)
    sources: list[tuple[UUID, SourceRef]] = field(default_factory=list)
    confirmed: dict[UUID, datetime] = field(default_factory=dict)
    mentions: list[tuple[UUID, NewItem]] = field(default_factory=list)
    challenges: list[tuple[UUID, UUID]] = field(default_factory=list)
    said: list[NewStatement] = field(default_factory=list)
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
    """The context of a write: charged account, job, conversation and time.

    Only a caller can provide `metadata`, `expires_at`, and whether a new memory is `marked` as
    sensitive; `joined` are such columns of the only memory that gets a new version, before and
    after. `encrypts` is whether the user has encryption on, as read under the lock.
    """

    job_id: UUID | None
    conversation_id: str | None
    at: datetime
    actor: str = ledger.ACTOR
    source: str = "conversation"
    reason: str = "learnt from a conversation"
    metadata: Mapping[str, Any] = field(default_factory=dict)
    expires_at: datetime | None = None
    marked: bool = False
    joined: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {})
    encrypts: bool = False

    def columns_of(self, made: Creation) -> dict[str, Any]:
        """The columns of a new memory, without its index entries."""
        item = made.item
        return {
            "memory_id": made.memory_id,
            "type": item.type,
            "content": item.content,
            "detail": item.detail,
            "importance": item.importance,
            "confidence": item.confidence,
            "source": self.source,
            "origin": made.evidence.origin,
            "status": made.status,
            "tags": Texts(item.tags),
            "keywords": Texts(item.keywords),
            "questions": Texts(item.questions),
            "context": dict(item.context),
            "conversation_id": self.conversation_id,
            "valid_from": made.valid_from,
            "valid_to": made.valid_to,
            "said_at": made.evidence.said_at,
            "superseded_by": made.superseded_by,
            "supersedes": [],
            "challenges": list(made.challenges),
            "at": self.at,
            "job_id": self.job_id,
            "metadata": dict(self.metadata),
            "expires_at": self.expires_at,
            "sensitive": is_sensitive(item.type, self.marked),
        }

    def seals(self, kind: str, marked: bool) -> bool:
        """Whether a memory of this type, marked as sensitive or not, is to be sealed now."""
        return self.encrypts and is_sensitive(kind, marked)


@dataclass(frozen=True, slots=True)
class Situation:
    """The input of a plan.

    Attributes:
        answer: The checked reply.
        witnesses: The batch's messages as evidence.
        local_memories: Memory ids by the local ids of the prompt.
        known: Current rows of every memory named above or near a new statement.
        neighbours: For each new item's index, the known memories near it.
        vectors: For each new item's index its vector, if there is one.
        threshold: The embedder's cosine for duplicates.
        room: How much the reply may change.
        importance_before: The importance before the job of memories that it has already changed.
        reviewed: Positions of updates whose exact words wait for review or were rejected.
        stated: Known memories that an item of the reply repeats, by the item's index, if that was
            determined before the reply.
        ended_by: For a memory that the reply contradicts by something said earlier, the known
            memories that it has replaced, each with the one that it names as its replacement.
    """

    answer: Answer
    witnesses: Witnesses
    local_memories: Mapping[str, UUID]
    known: Mapping[UUID, CurrentMemory]
    neighbours: Mapping[int, Sequence[Neighbour]]
    vectors: Mapping[int, Vector]
    threshold: float
    room: ChangeAllowance
    importance_before: Mapping[UUID, float] = field(default_factory=dict)
    reviewed: Collection[int] = ()
    stated: Mapping[int, UUID] = field(default_factory=dict)
    ended_by: Mapping[UUID, Mapping[UUID, UUID]] = field(default_factory=dict)


class Draft:
    """A plan in progress: the state of each memory so far, and which one an item stated.

    Attributes:
        situation: The input.
        now: Every known memory in the state that the plan has reached.
        stated_by: For each new item's index, the memory that now states it.
        plan: The operations so far.
    """

    def __init__(self, situation: Situation) -> None:
        self.situation = situation
        self.now = dict(situation.known)
        self.stated_by = dict(situation.stated)
        self.plan = Plan()

    def current(self, local_id: str) -> CurrentMemory | None:
        """The current memory behind a local id, if it is still current."""
        memory_id = self.situation.local_memories.get(local_id)
        known = self.now.get(memory_id) if memory_id is not None else None
        return known if known is not None and known.status in CURRENT_STATUSES else None

    def creation_of(self, memory_id: UUID | None) -> Creation | None:
        """The creation of a memory, or None for a known one."""
        return next((c for c in self.plan.creations if c.memory_id == memory_id), None)

    def replace_creation(self, made: Creation, by: Creation) -> None:
        """Replace a creation by another."""
        self.plan.creations[self.plan.creations.index(made)] = by

    def rewrite(
        self,
        before: CurrentMemory,
        after: CurrentMemory,
        action: str,
        reason: str,
        vector_of: tuple[str, int] | None = None,
        source_text: str = "",
    ) -> None:
        """Plan the next version of a known memory."""
        self.plan.rewrites.append(Rewrite(before, after, action, reason, vector_of, source_text))
        self.now[before.memory_id] = after

    def close(self, closure: Closure) -> None:
        """Plan the end of a known memory."""
        self.plan.closures.append(closure)
        known = closure.before
        self.now[known.memory_id] = replace(
            known,
            status=closure.status,
            importance=closure.importance,
            valid_to=closure.valid_to,
            version=known.version + 1,
        )

    def note_sources(self, memory_id: UUID, evidence: Evidence) -> None:
        """Record the source messages of a memory."""
        self.plan.sources.extend((memory_id, source) for source in evidence.sources)

    def note_said(
        self, before: CurrentMemory, action: str, evidence: Evidence, words: Mapping[str, Any]
    ) -> None:
        """Record what was said about a known memory, once the plan holds the consequences."""
        after = self.now[before.memory_id]
        self.plan.said.append(
            NewStatement(
                action,
                after.version,
                after.version != before.version,
                evidence.origin,
                evidence.said_at,
                words,
                before.memory_id,
            )
        )


def may_change(evidence: Evidence, known: CurrentMemory) -> bool:
    """Whether the origin of evidence permits it to change a known memory."""
    return not outranks(known.origin, evidence.origin)


def whole(known: CurrentMemory) -> str:
    """The full text of a memory, even if its content was cut."""
    return known.detail if known.detail and known.content.endswith("…") else known.content
