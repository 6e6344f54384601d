"""The input of a plan, and the plan in progress."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from hitherto_extraction.pipeline.answer import Answer
from hitherto_extraction.pipeline.caps import ChangeAllowance
from hitherto_extraction.pipeline.dedupe import Neighbour
from hitherto_extraction.pipeline.evidence import Evidence, Witnesses
from hitherto_extraction.pipeline.operations import Creation, Plan, Refused, Rewrite
from hitherto_extraction.pipeline.trust import outranks
from hitherto_extraction.storage.known_memories import CurrentMemory
from hitherto_extraction.storage.sealed_rows import is_sensitive
from hitherto_extraction.storage.statements import NewStatement
from hitherto_shared.embeddings.protocol import Vector
from hitherto_shared.models import CURRENT_STATUSES


@dataclass(frozen=True, slots=True)
class Situation:
    """The input of a plan.

    Attributes:
        local_memories: Memory ids by the local ids of the prompt.
        known: Current rows of every memory named above or near a new statement.
        neighbours: For each new item's index, the known memories near it.
        vectors: For each new item's index its vector, if there is one.
        threshold: The embedder's cosine for duplicates.
        importance_before: The importance before the job of memories that it has already changed.
        reviewed: Positions of updates whose exact words a memory has already, whatever its status.
        own_names: The names that nothing mentions but what the reply asks to forget.
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
    own_names: Collection[str] = ()


class Draft:
    """A plan in progress: the state of each memory so far, and which one an item stated.

    Attributes:
        now: Every known memory in the state that the plan has reached.
        stated_by: For each new item's index, the memory that now states it.
    """

    def __init__(self, situation: Situation) -> None:
        self.situation = situation
        self.now = dict(situation.known)
        self.stated_by: dict[int, UUID] = {}
        self.plan = Plan()

    def current(self, local_id: str, stated: UUID | None = None) -> CurrentMemory | None:
        """The current memory behind a local id, or the `stated` one, if it is still current."""
        memory_id = stated or self.situation.local_memories.get(local_id)
        known = self.now.get(memory_id) if memory_id is not None else None
        return known if known is not None and known.status in CURRENT_STATUSES else None

    def creation_of(self, memory_id: UUID | None) -> Creation | None:
        """The creation of a memory, or None for a known one."""
        return next((c for c in self.plan.creations if c.memory_id == memory_id), None)

    def replace_creation(self, made: Creation, by: Creation) -> None:
        """Replace a creation by another."""
        self.plan.creations[self.plan.creations.index(made)] = by

    def leave_unmentioned(self, memory_id: UUID) -> None:
        """Learn no entities from a statement that nobody is told."""
        self.plan.mentions = [pair for pair in self.plan.mentions if pair[0] != memory_id]

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

    def close(
        self,
        before: CurrentMemory,
        status: str,
        at: datetime,
        reason: str,
        *,
        weight: float = 1.0,
        superseded_by: UUID | None = None,
    ) -> None:
        """Plan the end of a known memory, which keeps this share of its importance."""
        after = replace(
            before,
            version=before.version + 1,
            status=status,
            importance=before.importance * weight,
            valid_to=max(at, before.valid_from),
        )
        ended = Rewrite(before, after, status, reason or status, superseded_by=superseded_by)
        self.plan.closures.append(ended)
        self.now[before.memory_id] = after

    def note_sources(self, memory_id: UUID, evidence: Evidence) -> None:
        """Record the source messages of a memory, and the words by which one changed it."""
        self.plan.sources.extend((memory_id, source) for source in evidence.sources)
        if evidence.quoted is not None:
            self.plan.sources.append((memory_id, evidence.quoted))
            self.plan.quotes[memory_id, evidence.quoted] = evidence.quote

    def refuse(
        self, item: str, reason: str, known: CurrentMemory | None, became: str = "nothing changes"
    ) -> None:
        """Record that a change of the reply is not made."""
        memory_id = known.memory_id if known is not None else None
        self.plan.refusals.append(Refused.of(item, reason, became, memory_id))

    def link(self, newer: UUID | None, older: CurrentMemory) -> bool:
        """Let a memory name an older one that it probably replaces; whether it could."""
        if newer is None or newer == older.memory_id:
            return False
        made = self.creation_of(newer)
        if made is None:
            self.plan.may_replace.append((newer, older.memory_id))
            return True
        if made.status != "active":
            return False
        names = tuple(dict.fromkeys([*made.may_replace, older.memory_id]))
        self.replace_creation(made, replace(made, may_replace=names))
        return True

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


def hides(known: CurrentMemory | Creation) -> bool:
    """Whether the words of a memory must not stand outside of it."""
    return known.sealed or is_sensitive(known.type, known.sensitive)


def may_change(evidence: Evidence, known: CurrentMemory) -> bool:
    """Whether the origin of evidence permits it to change a known memory."""
    return not outranks(known.origin, evidence.origin)


def whole(known: CurrentMemory) -> str:
    """The full text of a memory, even if its content was cut."""
    return whole_words(known.content, known.detail)


def whole_words(content: str, detail: str) -> str:
    """The full text of a wording; the detail has it if the content was cut."""
    return detail if detail and content.endswith("…") else content
