"""The operations of a plan, with their occasion.

`plan` decides the operations, and `write` carries them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from hitherto_extraction.pipeline.answer import NewItem
from hitherto_extraction.pipeline.evidence import Evidence
from hitherto_extraction.storage import ledger
from hitherto_extraction.storage.known_memories import CurrentMemory
from hitherto_extraction.storage.sealed_rows import is_sensitive
from hitherto_extraction.storage.statements import NewStatement
from hitherto_shared.models import CURRENT_STATUSES, HIDDEN_STATUSES, Memory, SourceRef


@dataclass(frozen=True, slots=True)
class Creation:
    """A new memory.

    `position` is its item's position in the reply, where its vectors are found; `list_name` is
    "new", or "updated" for a refused update that waits for review. `ended_by` are the memories that
    end one that came late, each with the moment; the first moment counts. `challenges` are the
    memories that a quarantined one would contradict if it were approved; `may_replace` those that
    an active one probably replaces, although nothing confirms it. One that is said instead of a
    forgotten memory is `sensitive` as that one was, and stays `sealed`.
    """

    memory_id: UUID
    position: int
    item: NewItem
    evidence: Evidence
    valid_from: datetime
    status: str = "active"
    ended_by: tuple[tuple[UUID, datetime], ...] = ()
    challenges: tuple[UUID, ...] = ()
    may_replace: tuple[UUID, ...] = ()
    list_name: str = "new"
    sensitive: bool = False
    sealed: bool = False

    @property
    def type(self) -> str:
        """The type of its item."""
        return self.item.type

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
    change. `superseded_by` is the memory that replaces one that ends.
    """

    before: CurrentMemory
    after: CurrentMemory
    action: str  # "merged", "updated", "restored", or the status that it gets
    reason: str
    vector_of: tuple[str, int] | None = None
    source_text: str = ""
    superseded_by: UUID | None = None


_WHY: Mapping[str, str] = {
    "refused_unknown": "the memory is not current any more",
    "refused_without_source": "none of the cited messages was in the conversation",
    "refused_without_quote": "no words were copied that say so",
    "refused_quote": "the copied words stand in none of the cited messages",
    "refused_digits": "it holds a number that nobody said",
    "refused_by_trust": "somebody more trusted said the opposite",
    "refused_instruction": "it reads as an instruction to the assistant",
    "refused_late": "something later is known",
    "refused_same": "what replaces it says the same",
    "refused_no_goal": "it is no open goal",
    "refused_over_cap": "too many changes at once",
    "refused_over_daily_cap": "too many changes within a day",
    "kept_forgotten": "it was to be forgotten",
    "refused_sensitive": "one of the two is to be kept secret, and the other is not",
    "refused_expiry": "the memory that would stay expires earlier",
    "refused_expired": "it would have expired before it was said",
    "refused_unanswered": "the model has no usable reply about it",
    "refused_content": "a content filter refuses to answer about it",
    "refused_undone": "somebody has undone it before",
    "refused_past": "it is told as past, and stays true",
    "refused_unchanged": "it is so already",
    "refused_speaker": "somebody else in the conversation said it",
    "refused_form": "a profile does not take such a value there",
    "refused_limit": "the profile has no room for all of it",
    "refused_shape": "it lacks what such an item needs",
    "refused_id": "no memory was shown under its id",
    "refused_repeated": "the reply changes the memory more than once",
}


@dataclass(frozen=True, slots=True)
class Refused:
    """A change of a reply that is not made.

    Attributes:
        item: Its position in the reply, such as `contradicted_memories[0]`.
        reason: Why, as the key of a count.
        subject: Why, and what became of it, in words for people. Without contents: a job's result
            outlives what it speaks of.
    """

    item: str
    reason: str
    subject: str
    memory_id: UUID | None = None

    @classmethod
    def of(
        cls, item: str, reason: str, became: str = "nothing changes", memory_id: UUID | None = None
    ) -> Refused:
        """A refusal for one of the known reasons."""
        return cls(item, reason, f"{_WHY[reason]}; {became}", memory_id)


@dataclass(slots=True)
class Plan:
    """Operations in the order in which they must be written.

    Attributes:
        closures: Known memories that end, and goals that are achieved.
        challenges: Pairs of a known memory in quarantine and one that it would contradict.
        may_replace: Pairs of a known memory and an older one that it probably replaces.
        reached: Goals that were reached, beyond the limit on changes.
        quotes: The words by which a source changed a memory.
        after: The status and the words that each known or new memory then has.
        said: What items of the reply say about known memories, whether or not that changes them.
        sealed: Known memories that are stored sealed, to which `write_plan` adds those it seals.
        sensitive: Those that a user with encryption on wants sealed.
        refusals: Well-formed changes that are not made.
        repeated: The number of statements that another statement of the same reply already makes.
    """

    creations: list[Creation] = field(default_factory=list)
    rewrites: list[Rewrite] = field(default_factory=list)
    closures: list[Rewrite] = field(default_factory=list)
    sources: list[tuple[UUID, SourceRef]] = field(default_factory=list)
    quotes: dict[tuple[UUID, SourceRef], str] = field(default_factory=dict)
    confirmed: dict[UUID, datetime] = field(default_factory=dict)
    mentions: list[tuple[UUID, NewItem]] = field(default_factory=list)
    challenges: list[tuple[UUID, UUID]] = field(default_factory=list)
    may_replace: list[tuple[UUID, UUID]] = field(default_factory=list)
    reached: list[UUID] = field(default_factory=list)
    said: list[NewStatement] = field(default_factory=list)
    stated: dict[int, UUID] = field(default_factory=dict)
    sealed: frozenset[UUID] = frozenset()
    sensitive: frozenset[UUID] = frozenset()
    refusals: list[Refused] = field(default_factory=list)
    bounded: int = 0
    after: dict[UUID, tuple[str, str]] = field(default_factory=dict)
    repeated: int = 0

    def says(self, memory_id: UUID) -> str | None:
        """What a memory of the plan says once that is carried out; None if it is not current."""
        status, words = self.after[memory_id]
        return words if status in CURRENT_STATUSES else None

    def told(self, memory_id: UUID) -> str | None:
        """The same, also of what is over: None if it is hidden."""
        status, words = self.after[memory_id]
        return words if status not in HIDDEN_STATUSES else None

    def successor_of(self, memory_id: UUID) -> UUID | None:
        """The memory by which the plan replaces one."""
        found = (each.superseded_by for each in self.closures if each.before.memory_id == memory_id)
        return next(found, None)


@dataclass(frozen=True, slots=True)
class Occasion:
    """The context of a write: charged account, job, conversation and time.

    Only a caller can provide `metadata`, `expires_at`, and whether a new memory is `marked` as
    sensitive; `joined` is the only memory that gets a new version, before and after such columns
    were added to it.
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
    joined: tuple[Memory, Memory] | None = None

    def memory_of(self, made: Creation) -> Memory:
        """A new memory as it is stored."""
        item = made.item
        return Memory(
            memory_id=made.memory_id,
            user_id="",
            type=item.type,
            content=item.content,
            importance=item.importance,
            confidence=item.confidence,
            source=self.source,
            origin=made.evidence.origin,
            status=made.status,
            valid_from=made.valid_from,
            created_at=self.at,
            updated_at=self.at,
            detail=item.detail,
            tags=item.tags,
            keywords=item.keywords,
            context=item.context,
            metadata=self.metadata,
            sensitive=is_sensitive(item.type, self.marked or made.sensitive),
            conversation_id=self.conversation_id,
            valid_to=made.valid_to,
            expires_at=item.expires_at or self.expires_at,
            superseded_by=made.superseded_by,
            job_id=self.job_id,
            may_replace=made.may_replace,
        )
