"""Updates of a reply: known memories made more precise.

A model's update is content and must pass the same checks: trust, the guards of de-duplication,
support by its messages (`guards.refinement`), and the limit on changes (`caps`). A job changes
importance by at most `IMPORTANCE_STEP`, and not below `IMPORTANCE_FLOOR`.

Refused updates are counted. If the messages support one, the new wording waits for review as a
quarantined memory that challenges the one it would have changed; on approval it replaces it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hitherto_extraction.pipeline import trust
from hitherto_extraction.pipeline.answer import MAX_LABELS, NewItem, UpdatedItem
from hitherto_extraction.pipeline.evidence import Evidence
from hitherto_extraction.pipeline.guards import same_wording
from hitherto_extraction.pipeline.guards.questions import kept
from hitherto_extraction.pipeline.guards.refinement import refinement, unsupported
from hitherto_extraction.pipeline.operations import Creation, Draft, may_change, whole
from hitherto_extraction.pipeline.sealed_memories import is_sensitive
from hitherto_extraction.storage.known_memories import CurrentMemory
from hitherto_shared.identifiers import uuid7
from hitherto_shared.models import CURRENT_STATUSES

IMPORTANCE_STEP = 0.2
"""Maximum change of a memory's importance by one job."""
IMPORTANCE_FLOOR = 0.3
"""No update lowers importance below this."""


@dataclass(frozen=True, slots=True)
class Change:
    """A permitted update: the version it would write."""

    position: int
    update: UpdatedItem
    after: CurrentMemory
    evidence: Evidence


def permitted(draft: Draft) -> list[Change]:
    """The updates of the reply that pass every guard and change something.

    Updates that change nothing confirm what is known; the rest is refused.
    """
    found = (_check(draft, *each) for each in enumerate(draft.situation.answer.updated))
    return [change for change in found if change is not None]


def refine(draft: Draft, change: Change) -> None:
    """Write the next version of a memory."""
    known = draft.now[change.after.memory_id]
    if known.status not in CURRENT_STATUSES:
        draft.plan.refuse("refused_unknown")
        return
    draft.note_sources(known.memory_id, change.evidence)
    content, detail = change.after.content, change.after.detail
    vector_of = ("updated", change.position) if content != known.content else None
    draft.rewrite(
        known,
        replace(
            change.after,
            version=known.version + 1,
            questions=kept([*change.update.questions, *known.questions], content, detail),
        ),
        "updated",
        "made more precise",
        vector_of,
        change.evidence.text,
    )
    draft.note_said(
        known,
        "updated",
        change.evidence,
        _words(draft, change.update, change.evidence, change.after),
    )


def set_aside(draft: Draft, change: Change) -> None:
    """Store for review an update that exceeds the limit on changes."""
    known = draft.now[change.after.memory_id]
    _quarantine(draft, change.position, change.update, known, change.evidence)


def _check(draft: Draft, position: int, update: UpdatedItem) -> Change | None:
    plan = draft.plan
    known = draft.current(update.memory)
    evidence = draft.situation.witnesses.for_change(update.source_ids)
    if evidence is None:
        plan.refuse("refused_without_source")
        return None
    if known is None:
        plan.refuse("refused_unknown")
        return None
    if not may_change(evidence, known) or trust.is_suspect(
        (update.content or "", update.detail), trusted=evidence.trusted
    ):
        plan.refuse("refused_by_trust")
        return None
    reworded = update.content is not None and not same_wording(known.content, update.content)
    if reworded:
        said = draft.situation.witnesses.heard(evidence)
        found = refinement(whole(known), update.detail or update.content or "", said)
        if found.objections:
            plan.refuse("refused_by_guard")
            if found.supported:
                _quarantine(draft, position, update, known, evidence)
            return None
    if evidence.said_at < known.said_at:
        draft.note_sources(known.memory_id, evidence)
        draft.note_said(known, "updated", evidence, _words(draft, update, evidence))
        return None
    after = replace(
        known,
        content=(update.content if reworded else None) or known.content,
        detail=(update.detail if reworded else "") or known.detail,
        importance=_importance(draft, known, update.importance),
        confidence=update.confidence or known.confidence,
        tags=_tags(known.tags, update.tags),
        said_at=evidence.said_at,
    )
    if replace(after, said_at=known.said_at) == replace(known, tags=tuple(known.tags)):
        draft.note_sources(known.memory_id, evidence)
        plan.confirmed[known.memory_id] = evidence.said_at
        draft.note_said(known, "updated", evidence, _words(draft, update, evidence))
        return None
    return Change(position, update, after, evidence)


def _importance(draft: Draft, known: CurrentMemory, wanted: float | None) -> float:
    """The importance within the range that one job may set."""
    if wanted is None:
        return known.importance
    before = draft.situation.importance_before.get(known.memory_id, known.importance)
    lowest = max(before - IMPORTANCE_STEP, min(before, IMPORTANCE_FLOOR))
    bounded = max(lowest, min(before + IMPORTANCE_STEP, wanted))
    if bounded != wanted:
        draft.plan.refused["importance_bounded"] += 1
    return bounded


def _quarantine(
    draft: Draft, position: int, update: UpdatedItem, known: CurrentMemory, evidence: Evidence
) -> None:
    """Store a refused wording as a quarantined memory that challenges the known one."""
    # A new memory is sealed by its type; one that was marked by hand stays the only copy.
    hidden = known.sealed or (known.sensitive and not is_sensitive(known.type, marked=False))
    if update.content is None or hidden or position in draft.situation.reviewed:
        return
    item = NewItem(
        index=position,
        type=known.type,
        content=update.content,
        detail=update.detail,
        importance=known.importance,
        confidence=known.confidence,
        tags=_tags(known.tags, update.tags),
        keywords=tuple(known.keywords),
        entities=(),
        context={},
        source_ids=update.source_ids or (),
        valid_from=None,
        origin=None,
    )
    made = Creation(
        uuid7(),
        position,
        item,
        evidence,
        evidence.said_at,
        status="quarantined",
        challenges=(known.memory_id,),
        list_name="updated",
    )
    draft.plan.creations.append(made)
    draft.note_sources(made.memory_id, evidence)


def _words(
    draft: Draft, update: UpdatedItem, evidence: Evidence, after: CurrentMemory | None = None
) -> dict[str, Any]:
    """The words of an update, and its importance as far as it was permitted.

    `whole` says whether its messages contain all of it, or some of it was said before.
    """
    content = update.detail or update.content or ""
    return {
        "whole": not unsupported(content, "", draft.situation.witnesses.heard(evidence)),
        "content": update.content,
        "detail": update.detail,
        "importance": after.importance if after and update.importance is not None else None,
        "confidence": update.confidence,
        "tags": list(update.tags),
        "questions": list(update.questions),
    }


def _tags(old: Sequence[str], new: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*old, *new]))[:MAX_LABELS]
