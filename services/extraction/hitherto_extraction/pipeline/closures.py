"""Endings of a reply: which memories end, when, and by what (docs/extraction.md).

Three steps: what is to be forgotten is withheld (`withhold`), what may not end a memory waits for
review (`quarantine_challengers`), and what is left of the endings is collected (`collect`). Without
evidence nothing ends, and the new statement names the one that it may replace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID

from hitherto_extraction.pipeline.answer import Cited, ClosedItem
from hitherto_extraction.pipeline.draft import Draft, may_change
from hitherto_extraction.pipeline.evidence import ChangeRefused, Evidence
from hitherto_extraction.pipeline.operations import Creation
from hitherto_extraction.pipeline.quotes import contains, stands_in
from hitherto_extraction.pipeline.trust import outranks
from hitherto_extraction.storage.known_memories import CurrentMemory
from hitherto_shared.models import CURRENT_STATUSES

ACHIEVED_IMPORTANCE = 0.5
"""The share of its importance that an achieved goal keeps."""

CHALLENGES = "contradicts what somebody more trusted said"

FORGETTING = "the user asked to forget it"

_BESIDE = "both stand"


Kind = Literal["contradiction", "achievement", "request"]
"""What ends a memory: what contradicts it, a goal that is achieved, or a request to forget it."""


@dataclass(frozen=True, slots=True)
class Ending:
    """A permitted ending: its kind, what the reply says, the memory, and the words for it."""

    kind: Kind
    item: ClosedItem
    known: CurrentMemory
    evidence: Evidence
    successor: UUID | None


def withhold(draft: Draft) -> None:
    """Store as forgotten what the reply itself states and the user asks to forget.

    Nobody is told, and it stays forgotten. A request without evidence is refused.
    """
    for item in draft.situation.answer.forgotten:
        made = draft.creation_of(_stated(draft, item.new))
        if made is None:
            continue
        try:
            _forget_new(draft, item, made)
        except ChangeRefused as refused:
            draft.refuse(item.cited.item, refused.reason, None)


def quarantine_challengers(draft: Draft) -> None:
    """Let statements wait for review that contradict what somebody more trusted said.

    One that waits for one ending causes no other: it challenges every memory that it contradicts.
    """
    pairs: list[tuple[UUID, CurrentMemory]] = []
    for item in draft.situation.answer.contradicted:
        known, successor = draft.current(item.memory), _successor(draft, item)
        if known is not None and successor is not None and successor != known.memory_id:
            pairs.append((successor, known))
    waiting = {successor for successor, known in pairs if _may_not_end(draft, successor, known)}
    for successor, known in pairs:
        if successor in waiting:
            _quarantine(draft, successor, known)


def collect(draft: Draft) -> tuple[list[Ending], list[Ending]]:
    """The endings of a reply that have evidence and concern what is current; requests apart.

    The others are refused.
    """
    answer = draft.situation.answer
    found: list[Ending | None] = []
    requests: list[Ending | None] = []
    for item in answer.contradicted:
        known, successor = draft.current(item.memory), _successor(draft, item)
        if known is None or successor == known.memory_id or not _waits(draft, successor):
            found.append(_ending(draft, "contradiction", item, known, successor))
        # Or else it challenges the memory.
    for item in answer.achieved:
        known = draft.current(item.memory)
        if known is None or known.status != "achieved":
            found.append(_ending(draft, "achievement", item, known))
        # Or else it was known: that costs nothing, and is no mistake.
    for item in answer.forgotten:
        stated = _stated(draft, item.new)
        if draft.creation_of(stated) is None:
            known = draft.current(item.memory, stated)
            requests.append(_ending(draft, "request", item, known))
        # Or else `withhold` has decided.
    return [each for each in found if each], [each for each in requests if each]


def unlinked(endings: Sequence[Ending]) -> list[Ending]:
    """Those that lose by a refusal, each with words that hold no other's words.

    What just ended has no successor that could stand beside it, and beside one, a goal that was
    reached would only look replaced. One sentence that ends several memories is the sign of a reply
    that is wrong.
    """
    return [
        each
        for each in endings
        if (each.kind == "achievement" or each.successor is None)
        and not any(
            stands_in(other.evidence.quote, each.evidence.quote)
            for other in endings
            if other is not each
        )
    ]


def close(draft: Draft, ending: Ending, why: str | None) -> None:
    """Carry out one ending, unless an earlier one of the reply has changed its subject.

    With `why`, it exceeds the limit on changes and is refused.
    """
    if why is not None:
        if ending.kind == "achievement":
            draft.plan.reached.append(ending.known.memory_id)
        _refuse(draft, ending.item.cited, ending.known, why, _successor(draft, ending.item))
        return
    try:
        match ending.kind:
            case "contradiction":
                _contradict(draft, ending)
            case "achievement":
                _achieve(draft, ending)
            case "request":
                _forget(draft, ending)
    except ChangeRefused as refused:
        draft.refuse(ending.item.cited.item, refused.reason, ending.known)


def _refuse(
    draft: Draft, cited: Cited, known: CurrentMemory, why: str, successor: UUID | None
) -> None:
    """Refuse an ending, and let its successor, if there is one, stand beside the memory."""
    linked = draft.link(successor, known)
    draft.refuse(cited.item, why, known, _BESIDE if linked else "nothing changes")


def _ending(
    draft: Draft,
    kind: Kind,
    item: ClosedItem,
    known: CurrentMemory | None,
    successor: UUID | None = None,
) -> Ending | None:
    """The ending of a memory; None if it is refused. Without evidence, the successor stands."""
    if known is None:
        draft.refuse(item.cited.item, "refused_unknown", None)
        return None
    try:
        if kind == "request":
            evidence = _request(draft, item)
        else:
            evidence = draft.situation.witnesses.for_change(item.cited)
            if not may_change(evidence, known):
                raise ChangeRefused("refused_by_trust")
        if kind == "contradiction" and successor == known.memory_id:
            raise ChangeRefused("refused_same")
        if kind == "achievement" and known.type != "goal":
            raise ChangeRefused("refused_no_goal")
    except ChangeRefused as refused:
        beside = successor if refused.reason != "refused_by_trust" else None
        _refuse(draft, item.cited, known, refused.reason, beside)
        return None
    return Ending(kind, item, known, evidence, successor)


def _contradict(draft: Draft, ending: Ending) -> None:
    item, evidence = ending.item, ending.evidence
    known, successor = draft.current(item.memory), _successor(draft, item)
    if known is None or not _holds(draft, successor):
        raise ChangeRefused("refused_unknown")
    if successor is not None and not _worthy(draft, successor, known):
        raise ChangeRefused("refused_by_trust")
    made = draft.creation_of(successor)
    said_at = made.evidence.said_at if made is not None else evidence.said_at
    if said_at < known.said_at:
        _end_late(draft, made, known)
        return
    begins = made.valid_from if made is not None else said_at
    _note(draft, item, evidence)
    draft.close(known, "contradicted", begins, _reason(draft, item), superseded_by=successor)


def _end_late(draft: Draft, made: Creation | None, known: CurrentMemory) -> None:
    """Close a statement older than the one it contradicts: it held until that one began."""
    if made is None or made.status == "quarantined":
        raise ChangeRefused("refused_late")
    if outranks(made.evidence.origin, known.origin):
        raise ChangeRefused("refused_by_trust")
    ended_by = [*made.ended_by, (known.memory_id, max(known.valid_from, made.valid_from))]
    ended = replace(made, status="contradicted", ended_by=tuple(dict.fromkeys(ended_by)))
    draft.replace_creation(made, ended)


def _achieve(draft: Draft, ending: Ending) -> None:
    item, evidence = ending.item, ending.evidence
    known, successor = draft.current(item.memory), _successor(draft, item)
    if known is None or known.status != "active" or successor == known.memory_id:
        raise ChangeRefused("refused_unknown")
    if evidence.said_at < known.said_at:
        raise ChangeRefused("refused_late")
    _note(draft, item, evidence)
    replaces = _holds(draft, successor) and _worthy(draft, successor, known)
    draft.close(
        known,
        "achieved",
        evidence.said_at,
        _reason(draft, item),
        weight=ACHIEVED_IMPORTANCE,
        superseded_by=successor if replaces else None,
    )


def _forget(draft: Draft, ending: Ending) -> None:
    item, evidence = ending.item, ending.evidence
    known = draft.current(item.memory, _stated(draft, item.new))
    if known is None:
        raise ChangeRefused("refused_unknown")
    if evidence.said_at < known.said_at:
        raise ChangeRefused("refused_late")
    _hide_messages(draft, known.memory_id, known.content, evidence)
    after = replace(known, version=known.version + 1, status="forgotten")
    draft.rewrite(known, after, "forgotten", FORGETTING)


def _forget_new(draft: Draft, item: ClosedItem, made: Creation) -> None:
    evidence = _request(draft, item)
    if _is_said_again(made, evidence):
        raise ChangeRefused("refused_late")
    _hide_messages(draft, made.memory_id, made.item.content, evidence)
    draft.replace_creation(made, replace(made, status="forgotten", challenges=(), may_replace=()))
    draft.leave_unmentioned(made.memory_id)


def _hide_messages(draft: Draft, memory_id: UUID, content: str, request: Evidence) -> None:
    """Let a forgotten memory hide the messages that name its matter, as it hides its sources.

    These are the request, and those with a name that stands in no other memory.
    """
    draft.note_sources(memory_id, request)
    situation = draft.situation
    asked = {item.new for item in situation.answer.forgotten}
    kept = [each.content for each in situation.answer.new if each.index not in asked]
    names = [
        name
        for name in situation.own_names
        if contains(content, name) and not any(contains(each, name) for each in kept)
    ]
    naming = situation.witnesses.naming(names)
    draft.plan.sources.extend((memory_id, source) for source in naming)


def _request(draft: Draft, item: ClosedItem) -> Evidence:
    """The evidence of a request to forget: only the user may ask for it, whatever it is about."""
    evidence = draft.situation.witnesses.for_change(item.cited)
    if not evidence.trusted:
        raise ChangeRefused("refused_by_trust")
    return evidence


def _is_said_again(made: Creation, request: Evidence) -> bool:
    """Whether the user stated a memory after the request to forget it.

    What names no message may have been said before, and what the assistant says brings nothing
    back.
    """
    stating = made.evidence
    return stating.trusted and bool(stating.sources) and request.said_at < stating.said_at


def _note(draft: Draft, item: ClosedItem, evidence: Evidence) -> None:
    """Keep the words that ended a memory with what contradicts it, forgotten or not."""
    stated = _stated(draft, item.by)
    if stated is not None:
        draft.note_sources(stated, evidence)


def _may_not_end(draft: Draft, successor: UUID, known: CurrentMemory) -> bool:
    """Whether a statement waits for review already, or is less trusted than what it contradicts."""
    if _waits(draft, successor):
        return True
    made, older = draft.creation_of(successor), draft.now.get(successor)
    if made is not None:
        return outranks(known.origin, made.evidence.origin)
    return older is not None and older.status == "active" and outranks(known.origin, older.origin)


def _waits(draft: Draft, successor: UUID | None) -> bool:
    """Whether a statement is in quarantine."""
    if successor is None:
        return False
    stated = draft.creation_of(successor) or draft.now.get(successor)
    return stated is not None and stated.status == "quarantined"


def _quarantine(draft: Draft, successor: UUID, known: CurrentMemory) -> None:
    """Let a statement challenge a memory, and wait for review."""
    made = draft.creation_of(successor)
    if made is None:
        older = draft.now[successor]
        if older.status != "quarantined":
            after = replace(older, version=older.version + 1, status="quarantined")
            draft.rewrite(older, after, "quarantined", CHALLENGES)
        draft.plan.challenges.append((successor, known.memory_id))
        return
    challenges = tuple(dict.fromkeys([*made.challenges, known.memory_id]))
    waiting = replace(made, status="quarantined", challenges=challenges, may_replace=())
    draft.replace_creation(made, waiting)
    # Entities are not taken from a statement that is not trusted yet.
    draft.leave_unmentioned(made.memory_id)


def _stated(draft: Draft, index: int | None) -> UUID | None:
    """The memory that states a new item."""
    return None if index is None else draft.stated_by.get(index)


def _withheld(draft: Draft, stated: UUID | None) -> bool:
    """Whether the memory that states a new item is to be forgotten."""
    told = draft.creation_of(stated) or (draft.now.get(stated) if stated is not None else None)
    return told is not None and told.status == "forgotten"


def _successor(draft: Draft, item: ClosedItem) -> UUID | None:
    """The memory that replaces one: none, if it is to be forgotten."""
    stated = _stated(draft, item.by)
    return None if _withheld(draft, stated) else stated


def _reason(draft: Draft, item: ClosedItem) -> str:
    """Why a memory ended: nothing, if the words could tell what is to be forgotten."""
    return "" if _withheld(draft, _stated(draft, item.by)) else item.reason


def _holds(draft: Draft, successor: UUID | None) -> bool:
    """Whether a successor has not been closed itself: two memories never replace each other."""
    known = draft.now.get(successor) if successor is not None else None
    return known is None or known.status in (*CURRENT_STATUSES, "quarantined")


def _worthy(draft: Draft, successor: UUID | None, known: CurrentMemory) -> bool:
    """Whether a memory is trusted enough to replace another."""
    made = draft.creation_of(successor)
    if made is not None:
        return made.status != "quarantined" and not outranks(known.origin, made.evidence.origin)
    older = draft.now.get(successor) if successor is not None else None
    return (
        older is not None
        and older.status != "quarantined"
        and not outranks(known.origin, older.origin)
    )
