"""Updates of a reply: known memories made more precise or brought up to date, as new versions.

The new words of an update that is refused become a memory of their own beside the known one, which
they may replace: nothing that was said is lost. Words of somebody less trusted, and such as read as
an instruction, wait for review.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from hitherto_extraction.pipeline import trust
from hitherto_extraction.pipeline.answer import MAX_LABELS, NewItem, UpdatedItem
from hitherto_extraction.pipeline.dedupe import same_words
from hitherto_extraction.pipeline.digits import strange
from hitherto_extraction.pipeline.draft import Draft, hides, may_change, whole, whole_words
from hitherto_extraction.pipeline.evidence import ChangeRefused, Evidence
from hitherto_extraction.pipeline.named_days import put_off
from hitherto_extraction.pipeline.operations import Creation
from hitherto_extraction.pipeline.questions import kept
from hitherto_extraction.storage.known_memories import CurrentMemory
from hitherto_shared.identifiers import uuid7
from hitherto_shared.models import CURRENT_STATUSES

IMPORTANCE_STEP = 0.2
"""Maximum change of a memory's importance by one job."""
IMPORTANCE_FLOOR = 0.3
"""No update lowers importance below this."""
_DAY = timedelta(days=1)
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Change:
    """A permitted update: the version it would write."""

    update: UpdatedItem
    after: CurrentMemory
    evidence: Evidence


def permitted(draft: Draft) -> list[Change]:
    """The updates of the reply that have evidence and change something.

    Updates that change nothing confirm what is known; the rest is refused, and so are a second
    update of a memory and any further one.
    """
    found: list[Change] = []
    given: defaultdict[str, list[str]] = defaultdict(list)
    for update in draft.situation.answer.updated:
        if update.memory in given and draft.current(update.memory) is not None:
            _check_further(draft, update, given[update.memory])
        elif (change := _check(draft, update)) is not None:
            found.append(change)
        given[update.memory].append(update.content or "")
    return found


def refine(draft: Draft, change: Change) -> None:
    """Write the next version of a memory."""
    known = draft.now[change.after.memory_id]
    if known.status not in CURRENT_STATUSES:
        draft.refuse(change.update.cited.item, "refused_unknown", known)
        return
    draft.note_sources(known.memory_id, change.evidence)
    content, detail = change.after.content, change.after.detail
    vector_of = ("updated", change.update.index) if content != known.content else None
    draft.rewrite(
        known,
        replace(
            change.after,
            version=known.version + 1,
            questions=kept([*change.update.questions, *known.questions], content, detail),
        ),
        "updated",
        "brought up to date",
        vector_of,
        change.evidence.text,
    )
    draft.note_said(
        known, "updated", change.evidence, _words(change.update, change.evidence, change.after)
    )


def set_aside(draft: Draft, change: Change, why: str) -> None:
    """Refuse an update that exceeds the limit on changes."""
    known = draft.now[change.after.memory_id]
    _stand_beside(draft, change.update, known, why, change.evidence)


def _check(draft: Draft, update: UpdatedItem) -> Change | None:
    item, known = update.cited.item, draft.current(update.memory)
    if known is None:
        draft.refuse(item, "refused_unknown", None)
        return None
    try:
        evidence = draft.situation.witnesses.for_change(update.cited)
    except ChangeRefused as refused:
        _stand_beside(draft, update, known, refused.reason)
        return None
    if _is_suspect(update, evidence) or not may_change(evidence, known):
        _stand_beside(draft, update, known, "refused_by_trust", evidence)
        return None
    reworded = update.content is not None and not same_words(known.content, update.content)
    wording = update.detail or update.content or ""
    if reworded and strange(wording, [whole(known), *evidence.words], evidence.days):
        _stand_beside(draft, update, known, "refused_digits", evidence)
        return None
    if evidence.said_at < known.said_at:
        draft.note_sources(known.memory_id, evidence)
        draft.note_said(known, "updated", evidence, _words(update, evidence))
        return None
    content = (update.content if reworded else None) or known.content
    detail = update.detail if reworded else known.detail
    after = replace(
        known,
        content=content,
        detail=detail,
        importance=_importance(draft, known, update.importance),
        confidence=update.confidence or known.confidence,
        origin=trust.raised(known.origin, evidence.of_all) if reworded else known.origin,
        tags=_tags(known.tags, update.tags),
        said_at=evidence.said_at,
        expires_at=expiry_after(
            known.expires_at, whole(known), whole_words(content, detail), evidence.said_at
        ),
    )
    if replace(after, said_at=known.said_at) == replace(known, tags=tuple(known.tags)):
        draft.note_sources(known.memory_id, evidence)
        draft.plan.confirmed[known.memory_id] = evidence.said_at
        draft.note_said(known, "updated", evidence, _words(update, evidence))
        return None
    return Change(update, after, evidence)


def expiry_after(
    expires_at: datetime | None, old: str, new: str, said_at: datetime
) -> datetime | None:
    """When a memory in new words expires: at the end of their last day, if it passed with one.

    A model gives an expiry with a new memory only. What had expired before expires no more, unless
    it is put off to a day that comes; nor does what is put off beyond the last day that there is,
    or to no day. The day of the message is none, because it says as of when the words hold, unless
    only digits differ: then the end was moved up. What would have expired before it was said is a
    mistake, and changes nothing.
    """
    if expires_at is None:
        return None
    stands = expires_at if expires_at > said_at else None
    try:
        moved = put_off(expires_at, old, new)
    except OverflowError:
        return None
    if moved == expires_at or (moved is not None and moved <= said_at):
        return stands
    if moved is None or moved - _DAY > said_at:
        return moved
    return moved if same_words(*(_DIGITS.sub("", each) for each in (old, new))) else None


def _check_further(draft: Draft, update: UpdatedItem, given: Sequence[str]) -> None:
    """Refuse an update of a memory that the reply updates already, `given` these words."""
    known = draft.current(update.memory)
    assert known is not None
    if any(same_words(update.content or "", each) for each in given):
        draft.refuse(update.cited.item, "refused_repeated", known)
        return
    _stand_beside(draft, update, known, "refused_repeated")


def _importance(draft: Draft, known: CurrentMemory, wanted: float | None) -> float:
    """The importance within the range that one job may set."""
    if wanted is None:
        return known.importance
    before = draft.situation.importance_before.get(known.memory_id, known.importance)
    lowest = max(before - IMPORTANCE_STEP, min(before, IMPORTANCE_FLOOR))
    bounded = max(lowest, min(before + IMPORTANCE_STEP, wanted))
    draft.plan.bounded += bounded != wanted
    return bounded


def _stand_beside(
    draft: Draft,
    update: UpdatedItem,
    known: CurrentMemory,
    why: str,
    evidence: Evidence | None = None,
) -> None:
    """Refuse an update, whose new words become a memory that may replace the known one.

    Suspect words, and those of somebody less trusted, wait for review and challenge it. Without
    evidence for the change, their origin is that of the messages it cites.
    """
    if evidence is None:
        evidence = draft.situation.witnesses.for_new(update.cited.source_ids or (), None)
    suspect, became = _is_suspect(update, evidence), "nothing changes"
    made = _made(draft, update, known, evidence)
    if made is not None and (suspect or not may_change(evidence, known)):
        challenges = (known.memory_id,)
        draft.plan.creations.append(replace(made, status="quarantined", challenges=challenges))
        became = "it waits for review"
    elif made is not None:
        draft.plan.creations.append(replace(made, may_replace=(known.memory_id,)))
        became = "it stands beside the known one, which it may replace"
    draft.refuse(update.cited.item, "refused_instruction" if suspect else why, known, became)


def _is_suspect(update: UpdatedItem, evidence: Evidence) -> bool:
    return trust.is_suspect((update.content or "", update.detail), trusted=evidence.trusted)


def _made(
    draft: Draft, update: UpdatedItem, known: CurrentMemory, evidence: Evidence
) -> Creation | None:
    """The memory of its own that a refused update becomes; None if its words are known already."""
    # A new memory is sealed by its type; one that was marked by hand stays the only copy.
    hidden = known.sealed or (known.sensitive and not hides(replace(known, sensitive=False)))
    if (
        update.content is None
        or hidden
        or update.index in draft.situation.reviewed
        or same_words(update.content, known.content)
    ):
        return None
    item = NewItem(
        index=update.index,
        type=known.type,
        content=update.content,
        detail=update.detail,
        importance=known.importance,
        confidence="low",
        tags=_tags(known.tags, update.tags),
        keywords=tuple(known.keywords),
        source_ids=update.cited.source_ids or (),
        expires_at=expiry_after(
            known.expires_at,
            whole(known),
            whole_words(update.content, update.detail),
            evidence.said_at,
        ),
    )
    made = Creation(uuid7(), update.index, item, evidence, evidence.said_at, list_name="updated")
    draft.note_sources(made.memory_id, evidence)
    return made


def _words(
    update: UpdatedItem, evidence: Evidence, after: CurrentMemory | None = None
) -> dict[str, Any]:
    """The words of an update, whose they are, and its importance as far as it was permitted."""
    return {
        "origin": evidence.of_all,
        "content": update.content,
        "detail": update.detail,
        "importance": after.importance if after and update.importance is not None else None,
        "confidence": update.confidence or None,
        "tags": list(update.tags),
        "questions": list(update.questions),
    }


def _tags(old: Sequence[str], new: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*old, *new]))[:MAX_LABELS]
