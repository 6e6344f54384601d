"""What a reply changes, decided against what is known now. Pure: rows in, `operations` out.

The rules, in the order in which they are applied:

- A new statement that is known already updates the known memory (`dedupe`, `merge`); one that was
  forgotten stays forgotten unless the user says it again later.
- An update rewrites what is known, if its evidence is at least as trusted and not older.
- A contradiction closes the older statement at the time the newer one begins to hold. Evidence
  that arrives late never closes what was said after it: then the late statement is the closed one.
- An achieved goal keeps half its importance.
- A reply that would bring its job above the cap of status changes makes none of them (`caps`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

import numpy as np

from recollect_extraction.pipeline.answer import Answer, ClosedItem, NewItem, UpdatedItem
from recollect_extraction.pipeline.caps import allowed_status_changes
from recollect_extraction.pipeline.dedupe import Neighbour, find_duplicate
from recollect_extraction.pipeline.evidence import Evidence, Witnesses
from recollect_extraction.pipeline.merge import (
    HIGHER_ORIGINS,
    MAX_LABELS,
    KnownMemory,
    NewMemory,
    merge_update,
)
from recollect_extraction.pipeline.operations import Closure, Creation, Plan, Rewrite
from recollect_extraction.storage.memories import Known
from recollect_shared.embeddings.protocol import Vector
from recollect_shared.identifiers import uuid7
from recollect_shared.models import CURRENT_STATUSES

ACHIEVED_IMPORTANCE = 0.5
"""What an achieved goal keeps of its importance."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What a plan is made from.

    Attributes:
        answer: The checked reply.
        witnesses: The batch's messages as evidence.
        local_memories: Memory ids by the local ids of the prompt.
        known: Current rows of every memory named above or near a new statement.
        neighbours: For each new item's index, the known memories near it.
        vectors: For each new item's index its vector, where there is one.
        threshold: The embedder's cosine for duplicates.
        active_count: The user's active memories before this reply.
        status_changes: How many memories earlier replies of the same job closed.
    """

    answer: Answer
    witnesses: Witnesses
    local_memories: Mapping[str, UUID]
    known: Mapping[UUID, Known]
    neighbours: Mapping[int, Sequence[Neighbour]]
    vectors: Mapping[int, Vector]
    threshold: float
    active_count: int
    status_changes: int = 0


def make_plan(situation: Situation) -> Plan:
    """Decide what to write."""
    return _Planner(situation).plan()


class _Planner:
    """Works through one reply, keeping what each memory has become so far."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._now = dict(situation.known)
        self._stated_by: dict[int, UUID] = {}
        self._plan = Plan()

    def plan(self) -> Plan:
        answer = self._situation.answer
        for item in answer.new:
            self._add(item)
        for position, update in enumerate(answer.updated):
            self._update(position, update)
        self._close_all()
        return self._plan

    # --- new statements -------------------------------------------------------------------------

    def _add(self, item: NewItem) -> None:
        evidence = self._situation.witnesses.for_new(item.source_ids, item.origin)
        duplicate = find_duplicate(
            item.type, item.content, self._near(item), self._situation.threshold
        )
        if duplicate is None:
            self._create(item, evidence)
        elif (twin := self._creation_of(duplicate.memory_id)) is not None:
            if evidence.trusted and not twin.evidence.trusted:
                # What the user says is the user's, also if the assistant's words came first.
                twin = self._take_over(twin, item, evidence)
            self._stated_by[item.index] = twin.memory_id
            self._note_sources(twin.memory_id, evidence, item)
        elif duplicate.status == "forgotten":
            self._say_again(item, evidence, self._now[duplicate.memory_id])
        else:
            self._merge(item, evidence, self._now[duplicate.memory_id])

    def _near(self, item: NewItem) -> list[Neighbour]:
        """Known memories near an item, and those this reply has just created."""
        situation = self._situation
        found = list(situation.neighbours.get(item.index, ()))
        vector = situation.vectors.get(item.index)
        for made in self._plan.creations:
            other = situation.vectors.get(made.position)
            both = vector is not None and other is not None
            found.append(
                Neighbour(
                    memory_id=made.memory_id,
                    type=made.item.type,
                    content=made.item.content,
                    status="active",
                    origin=made.evidence.origin,
                    cosine=float(np.dot(vector, other)) if both else None,  # type: ignore[arg-type]
                    valid_from=made.valid_from,
                    updated_at=made.evidence.said_at,
                )
            )
        return found

    def _create(self, item: NewItem, evidence: Evidence) -> None:
        made = Creation(uuid7(), item.index, item, evidence, _begins(item, evidence))
        self._plan.creations.append(made)
        self._stated_by[item.index] = made.memory_id
        self._note_sources(made.memory_id, evidence, item)

    def _take_over(self, twin: Creation, item: NewItem, evidence: Evidence) -> Creation:
        made = Creation(twin.memory_id, item.index, item, evidence, _begins(item, evidence))
        self._plan.creations[self._plan.creations.index(twin)] = made
        return made

    def _say_again(self, item: NewItem, evidence: Evidence, known: Known) -> None:
        if not evidence.trusted or evidence.said_at <= known.updated_at:
            self._plan.forgotten_again += 1
            return
        after = replace(
            known,
            version=known.version + 1,
            status="active",
            content=item.content,
            detail=item.detail,
            importance=item.importance,
            confidence=item.confidence,
            origin=evidence.origin,
            said_at=evidence.said_at,
            tags=item.tags,
            keywords=item.keywords,
        )
        self._rewrite(
            known, after, "restored", "the user said it again", ("new", item.index), evidence
        )
        self._stated_by[item.index] = known.memory_id
        self._note_sources(known.memory_id, evidence, item)

    def _merge(self, item: NewItem, evidence: Evidence, known: Known) -> None:
        self._stated_by[item.index] = known.memory_id
        merged = merge_update(
            KnownMemory(
                memory_id=known.memory_id,
                content=known.content,
                importance=known.importance,
                confidence=known.confidence,
                origin=known.origin,
                said_at=known.said_at,
                detail=known.detail,
                tags=known.tags,
                keywords=known.keywords,
            ),
            NewMemory(
                content=item.content,
                importance=item.importance,
                confidence=item.confidence,
                origin=evidence.origin,
                said_at=evidence.said_at,
                detail=item.detail,
                tags=item.tags,
                keywords=item.keywords,
                sources=evidence.sources,
            ),
        )
        if merged is None:
            return
        self._note_sources(known.memory_id, evidence, item)
        if not merged.versioned:
            self._plan.confirmed[known.memory_id] = merged.said_at
            return
        after = replace(
            known,
            version=known.version + 1,
            content=merged.content,
            detail=merged.detail,
            importance=merged.importance,
            confidence=merged.confidence,
            origin=merged.origin,
            said_at=merged.said_at,
            tags=merged.tags,
            keywords=merged.keywords,
        )
        vector_of = ("new", item.index) if after.content != known.content else None
        self._rewrite(known, after, "merged", "said again", vector_of, evidence)

    # --- changes of what is known ---------------------------------------------------------------

    def _update(self, position: int, update: UpdatedItem) -> None:
        known = self._current(update.memory)
        evidence = self._situation.witnesses.for_change(update.source_ids)
        if known is None or not self._may_change(evidence, known):
            self._plan.dropped += 1
            return
        for source in evidence.sources:
            self._plan.sources.append((known.memory_id, source))
        if evidence.said_at < known.said_at:
            return
        content = update.content or known.content
        after = replace(
            known,
            version=known.version + 1,
            content=content,
            importance=known.importance if update.importance is None else update.importance,
            confidence=update.confidence or known.confidence,
            tags=tuple(dict.fromkeys([*known.tags, *update.tags]))[:MAX_LABELS],
            said_at=evidence.said_at,
        )
        if replace(after, version=known.version, said_at=known.said_at) == replace(
            known, tags=tuple(known.tags)
        ):
            self._plan.confirmed[known.memory_id] = evidence.said_at
            return
        vector_of = ("updated", position) if content != known.content else None
        self._rewrite(known, after, "updated", "made more precise", vector_of, evidence)

    def _close_all(self) -> None:
        """Contradictions and achieved goals, unless there are too many of them."""
        answer = self._situation.answer
        wanted = len(answer.contradicted) + len(answer.achieved)
        before = self._situation.status_changes
        if before + wanted > allowed_status_changes(self._situation.active_count + before):
            self._plan.dropped += wanted
            return
        for item in answer.contradicted:
            self._contradict(item)
        for item in answer.achieved:
            self._achieve(item)

    def _contradict(self, item: ClosedItem) -> None:
        known = self._current(item.memory)
        successor = self._successor(item)
        evidence = self._situation.witnesses.for_change(item.source_ids)
        if (
            known is None
            or (item.by is not None and successor is None)
            or successor == known.memory_id
            or not self._holds(successor)
            or not self._may_change(evidence, known)
        ):
            self._plan.dropped += 1
            return
        made = self._creation_of(successor)
        if made is not None and not self._may_change(made.evidence, known):
            self._plan.dropped += 1
            return
        said_at = made.evidence.said_at if made is not None else evidence.said_at
        if said_at < known.said_at:
            self._close_late(made, known)
            return
        begins = made.valid_from if made is not None else said_at
        self._close(
            Closure(
                before=known,
                status="contradicted",
                importance=known.importance,
                valid_to=max(begins, known.valid_from),
                superseded_by=successor,
                reason=item.reason or "contradicted",
            )
        )

    def _close_late(self, made: Creation | None, known: Known) -> None:
        """A statement older than what it contradicts: it held until then, and is closed itself."""
        if made is None or made.status != "active" or not self._may_close(known, made):
            self._plan.dropped += 1
            return
        place = self._plan.creations.index(made)
        self._plan.creations[place] = replace(
            made,
            status="contradicted",
            valid_to=max(known.valid_from, made.valid_from),
            superseded_by=known.memory_id,
        )

    def _achieve(self, item: ClosedItem) -> None:
        known = self._current(item.memory)
        successor = self._successor(item)
        evidence = self._situation.witnesses.for_change(item.source_ids)
        if (
            known is None
            or known.type != "goal"
            or known.status != "active"
            or successor == known.memory_id
            or not self._holds(successor)
            or not self._may_change(evidence, known)
            or evidence.said_at < known.said_at
        ):
            self._plan.dropped += 1
            return
        self._close(
            Closure(
                before=known,
                status="achieved",
                importance=known.importance * ACHIEVED_IMPORTANCE,
                valid_to=max(evidence.said_at, known.valid_from),
                superseded_by=successor,
                reason=item.reason or "achieved",
            )
        )

    # --- shared steps ---------------------------------------------------------------------------

    def _current(self, local_id: str) -> Known | None:
        """The current memory behind a local id, if it still is one."""
        memory_id = self._situation.local_memories.get(local_id)
        known = self._now.get(memory_id) if memory_id is not None else None
        return known if known is not None and known.status in CURRENT_STATUSES else None

    def _successor(self, item: ClosedItem) -> UUID | None:
        return None if item.by is None else self._stated_by.get(item.by)

    def _creation_of(self, memory_id: UUID | None) -> Creation | None:
        return next((c for c in self._plan.creations if c.memory_id == memory_id), None)

    def _holds(self, successor: UUID | None) -> bool:
        """Whether a successor has not been closed itself: two memories never replace each other."""
        known = self._now.get(successor) if successor is not None else None
        return known is None or known.status in CURRENT_STATUSES

    @staticmethod
    def _may_change(evidence: Evidence, known: Known) -> bool:
        return evidence.trusted or known.origin not in HIGHER_ORIGINS

    @staticmethod
    def _may_close(known: Known, made: Creation) -> bool:
        return known.origin in HIGHER_ORIGINS or not made.evidence.trusted

    def _rewrite(
        self,
        before: Known,
        after: Known,
        action: str,
        reason: str,
        vector_of: tuple[str, int] | None,
        evidence: Evidence,
    ) -> None:
        self._plan.rewrites.append(Rewrite(before, after, action, reason, vector_of, evidence.text))
        self._now[before.memory_id] = after

    def _close(self, closure: Closure) -> None:
        self._plan.closures.append(closure)
        known = closure.before
        self._now[known.memory_id] = replace(
            known, status=closure.status, importance=closure.importance, version=known.version + 1
        )

    def _note_sources(self, memory_id: UUID, evidence: Evidence, item: NewItem) -> None:
        self._plan.sources.extend((memory_id, source) for source in evidence.sources)
        self._plan.mentions.append((memory_id, item))


def _begins(item: NewItem, evidence: Evidence) -> datetime:
    # A model's date counts only for the past: what is planned does not hold yet.
    said = item.valid_from
    return said if said is not None and said < evidence.said_at else evidence.said_at
