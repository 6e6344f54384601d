"""Contradictions and achieved goals of a reply: which memories end, when, and by what.

- What one person says or does contradicts nothing known about another.
- A contradiction ends the validity of the older statement when the newer one begins to hold.
  Evidence that arrives late never ends a later statement: then the late statement is the one that
  ended, when the next one began. The one before it, if it was thought to hold longer, ends
  earlier, when the late statement begins; no limit counts that.
- A less trusted statement never ends a more trusted one: it goes into quarantine and names the
  memory it challenges, and nothing ends. The same applies to statements that read as instructions.
- The messages behind it must concern the memory: they deny, end or oppose what it says, or replace
  it (`guards.relevance`). Otherwise nothing ends, and both memories stand.
- An achieved goal keeps half its importance.
- If a reply exceeds the limit of its job or its day, it makes no change at all (`caps`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from hitherto_extraction.pipeline.answer import ClosedItem
from hitherto_extraction.pipeline.evidence import Evidence
from hitherto_extraction.pipeline.guards import relevance
from hitherto_extraction.pipeline.guards.subjects import speaks_of_another
from hitherto_extraction.pipeline.operations import Closure, Creation, Draft, may_change, whole
from hitherto_extraction.pipeline.trust import is_higher, outranks
from hitherto_extraction.storage.known_memories import CurrentMemory
from hitherto_shared.models import CURRENT_STATUSES
from hitherto_shared.offloading import end_if_given_up

ACHIEVED_IMPORTANCE = 0.5
"""The share of its importance that an achieved goal keeps."""

CHALLENGES = "contradicts what somebody more trusted said"


@dataclass(frozen=True, slots=True)
class ReportedEnd:
    """The reported end of a known memory: contradicted, or an achieved goal."""

    item: ClosedItem
    achieved: bool
    evidence: Evidence


def permitted(draft: Draft) -> list[ReportedEnd]:
    """The endings of a reply, without those that have no support or only challenge."""
    answer = draft.situation.answer
    open_items = [item for item in answer.contradicted if _same_person(draft, item)]
    draft.plan.refuse("refused_by_guard", len(answer.contradicted) - len(open_items))
    open_items = [item for item in open_items if not _challenges(draft, item)]
    # Repeated, so that an item sent into quarantine for one ending causes no other.
    open_items = [item for item in open_items if not _challenges(draft, item)]
    endings = [
        *_witnessed(draft, open_items, achieved=False),
        *_witnessed(draft, answer.achieved, achieved=True),
    ]
    draft.plan.refuse(
        "refused_without_source", len(open_items) + len(answer.achieved) - len(endings)
    )
    return endings


def close(draft: Draft, ending: ReportedEnd) -> None:
    """Close one memory, as far as permitted."""
    if not _borne_out(draft, ending):
        draft.plan.refuse("refused_without_support")
        return
    closed = _achieve if ending.achieved else _contradict
    if not closed(draft, ending.item, ending.evidence):
        draft.plan.refuse("refused_by_trust_or_time")


def _witnessed(draft: Draft, items: Sequence[ClosedItem], *, achieved: bool) -> list[ReportedEnd]:
    """The endings that existing messages support."""
    found = ((item, draft.situation.witnesses.for_change(item.source_ids)) for item in items)
    return [
        ReportedEnd(item, achieved, evidence) for item, evidence in found if evidence is not None
    ]


def _borne_out(draft: Draft, ending: ReportedEnd) -> bool:
    """Whether the messages behind an ending concern it.

    Messages that are gone are judged elsewhere.
    """
    known = draft.current(ending.item.memory)
    if known is None:
        return True
    words = _words_of(draft, _successor(draft, ending.item))
    bears = relevance.reaches if ending.achieved else relevance.ends
    return _concern(draft, bears, whole(known), ending.evidence, words)


def _concern(
    draft: Draft,
    bears: Callable[..., bool],
    old: str,
    evidence: Evidence,
    successor: str | None,
) -> bool:
    witnesses = draft.situation.witnesses
    around = [each.content for each in witnesses.messages]
    return bears(old, evidence.words, witnesses.heard(evidence), successor, around)


def _words_of(draft: Draft, memory_id: UUID | None) -> str | None:
    """The words of a successor, new or known."""
    made = draft.creation_of(memory_id)
    older = draft.now.get(memory_id) if memory_id is not None else None
    return made.item.content if made is not None else older.content if older is not None else None


def _same_person(draft: Draft, item: ClosedItem) -> bool:
    """Whether a contradiction is not between statements about two people."""
    known, words = draft.current(item.memory), _words_of(draft, _successor(draft, item))
    return known is None or words is None or not speaks_of_another(known.content, words)


def _challenges(draft: Draft, item: ClosedItem) -> bool:
    """Whether the item's statement may not close the memory and therefore waits for review."""
    known = draft.current(item.memory)
    successor = _successor(draft, item)
    if known is None or successor is None or successor == known.memory_id:
        return False
    made = draft.creation_of(successor)
    if made is not None:
        return _new_one_challenges(draft, made, known)
    older = draft.now.get(successor)
    if older is None or older.status not in ("active", "quarantined"):
        return False
    if older.status == "active":
        if not outranks(known.origin, older.origin):
            return False
        draft.rewrite(
            older,
            replace(older, version=older.version + 1, status="quarantined"),
            "quarantined",
            CHALLENGES,
        )
    draft.plan.challenges.append((successor, known.memory_id))
    return True


def _new_one_challenges(draft: Draft, made: Creation, known: CurrentMemory) -> bool:
    if made.status != "quarantined" and not outranks(known.origin, made.evidence.origin):
        return False
    draft.replace_creation(
        made,
        replace(
            made,
            status="quarantined",
            challenges=tuple(dict.fromkeys([*made.challenges, known.memory_id])),
        ),
    )
    # Entities are not taken from a statement that is not trusted yet.
    draft.plan.mentions = [pair for pair in draft.plan.mentions if pair[0] != made.memory_id]
    return True


def _contradict(draft: Draft, item: ClosedItem, evidence: Evidence) -> bool:
    known = draft.current(item.memory)
    successor = _successor(draft, item)
    if (
        known is None
        or (item.by is not None and successor is None)
        or successor == known.memory_id
        or not _holds(draft, successor)
        or not may_change(evidence, known)
        or (successor is not None and not _worthy(draft, successor, known))
    ):
        return False
    made = draft.creation_of(successor)
    said_at = made.evidence.said_at if made is not None else evidence.said_at
    if said_at < known.said_at:
        return made is not None and _close_late(draft, made, known, evidence)
    begins = made.valid_from if made is not None else said_at
    draft.close(
        Closure(
            before=known,
            status="contradicted",
            importance=known.importance,
            valid_to=max(begins, known.valid_from),
            superseded_by=successor,
            reason=item.reason or "contradicted",
        )
    )
    return True


def _close_late(draft: Draft, made: Creation, known: CurrentMemory, evidence: Evidence) -> bool:
    """Close a statement older than the one it contradicts: it held until the next one began.

    It may contradict several, all of which end it.
    """
    if made.status == "quarantined" or outranks(made.evidence.origin, known.origin):
        return False
    ended_by = [*made.ended_by, (known.memory_id, max(known.valid_from, made.valid_from))]
    previous: CurrentMemory | Creation | None = None
    for other in _replaced_by(draft, known, beside=made):
        end_if_given_up()
        if not _excludes(draft, made, other, evidence):
            continue
        if _began(made) < _began(other):
            if not outranks(made.evidence.origin, _origin(other)):
                ended_by.append((other.memory_id, other.valid_from))
        elif (
            _began(other) < _began(made)
            and not outranks(_origin(other), made.evidence.origin)
            and (previous is None or _began(previous) < _began(other))
        ):
            previous = other
    if previous is not None:
        # Those before it ended when the next one began.
        _end_earlier(draft, previous, known, made)
    ended_by = list(dict.fromkeys(ended_by))
    draft.replace_creation(made, replace(made, status="contradicted", ended_by=tuple(ended_by)))
    return True


def _replaced_by(
    draft: Draft, known: CurrentMemory, *, beside: Creation
) -> list[CurrentMemory | Creation]:
    """The statements that a memory has replaced, those of the reply included."""
    ended = draft.situation.ended_by.get(known.memory_id, {})
    return [
        *(draft.now[memory_id] for memory_id in ended if memory_id in draft.now),
        *(
            each
            for each in draft.plan.creations
            if each is not beside and any(by == known.memory_id for by, _ in each.ended_by)
        ),
    ]


def _excludes(
    draft: Draft, made: Creation, other: CurrentMemory | Creation, evidence: Evidence
) -> bool:
    """Whether a late statement and one that ended cannot have held at the same time."""
    said = whole(other) if isinstance(other, CurrentMemory) else other.item.content
    words = made.item.content
    return not speaks_of_another(said, words) and _concern(
        draft, relevance.ends, said, evidence, words
    )


def _began(said: CurrentMemory | Creation) -> tuple[datetime, datetime]:
    """When it began to hold. Of two that began together, the one said last replaced the other."""
    said_at = said.said_at if isinstance(said, CurrentMemory) else said.evidence.said_at
    return said.valid_from, said_at


def _origin(said: CurrentMemory | Creation) -> str:
    return said.origin if isinstance(said, CurrentMemory) else said.evidence.origin


def _end_earlier(
    draft: Draft, ended: CurrentMemory | Creation, known: CurrentMemory, late: Creation
) -> None:
    """Let a statement that a known memory has replaced end when a late statement began.

    It names the late statement, whose source is then the only one on which this depends.
    """
    at = late.valid_from
    if ended.valid_to is not None and ended.valid_to <= at:
        return
    if isinstance(ended, Creation):
        ended_by = (*ended.ended_by, (late.memory_id, at))
        draft.replace_creation(ended, replace(ended, ended_by=ended_by))
        return
    draft.close(
        Closure(
            before=ended,
            status="contradicted",
            importance=ended.importance,
            valid_to=at,
            superseded_by=late.memory_id,
            reason="something else held afterwards",
            instead_of=_named_by(draft, ended, known),
        )
    )


def _named_by(draft: Draft, ended: CurrentMemory, known: CurrentMemory) -> UUID | None:
    """The successor that a memory names so far."""
    for closure in reversed(draft.plan.closures):
        if closure.before.memory_id == ended.memory_id:
            return closure.superseded_by
    return draft.situation.ended_by[known.memory_id][ended.memory_id]


def _achieve(draft: Draft, item: ClosedItem, evidence: Evidence) -> bool:
    known = draft.current(item.memory)
    successor = _successor(draft, item)
    if (
        known is None
        or known.type != "goal"
        or known.status != "active"
        or successor == known.memory_id
        or not _holds(draft, successor)
        or not may_change(evidence, known)
        or evidence.said_at < known.said_at
    ):
        return False
    draft.close(
        Closure(
            before=known,
            status="achieved",
            importance=known.importance * ACHIEVED_IMPORTANCE,
            valid_to=max(evidence.said_at, known.valid_from),
            superseded_by=successor if _worthy(draft, successor, known) else None,
            reason=item.reason or "achieved",
        )
    )
    return True


def _successor(draft: Draft, item: ClosedItem) -> UUID | None:
    return None if item.by is None else draft.stated_by.get(item.by)


def _holds(draft: Draft, successor: UUID | None) -> bool:
    """Whether a successor has not been closed itself: two memories never replace each other."""
    known = draft.now.get(successor) if successor is not None else None
    return known is None or known.status in (*CURRENT_STATUSES, "quarantined")


def _worthy(draft: Draft, successor: UUID | None, known: CurrentMemory) -> bool:
    """Whether a memory is trusted enough to replace another."""
    made = draft.creation_of(successor)
    if made is not None:
        return made.status != "quarantined" and (
            made.evidence.trusted or not is_higher(known.origin)
        )
    older = draft.now.get(successor) if successor is not None else None
    return (
        older is not None
        and older.status != "quarantined"
        and not outranks(known.origin, older.origin)
    )
