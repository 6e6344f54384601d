"""Tells what a commit leaves open: the changes that a reconciliation is asked about.

What the model was shown beside a statement, and let stand, it has judged. What it has ended is
asked about only if something may rest on it: it was lasting, and of weight for this user.
"""

from __future__ import annotations

from statistics import median
from uuid import UUID

from hitherto_extraction.pipeline.draft import Situation
from hitherto_extraction.pipeline.operations import Plan
from hitherto_extraction.storage.known_memories import CurrentMemory
from hitherto_shared.models import CURRENT_STATUSES

_LASTING = frozenset({"fact", "personal", "decision"})
"""Types of what others rest on: no situation of limited duration, taste, goal or open question."""
_NORMAL = 0.5
"""The importance of what is neither critical nor trivial, as the prompt explains it."""


def open_questions(plan: Plan, situation: Situation) -> set[UUID]:
    """What stands unsettled, or near what the model did not see, and what a plan has ended."""
    shown = set(situation.local_memories.values())
    by_index = {made.position: made for made in plan.creations if made.list_name == "new"}
    near = {
        by_index[index].memory_id
        for index, found in situation.neighbours.items()
        if index in by_index
        and any(
            each.status in CURRENT_STATUSES
            and each.memory_id not in shown
            and each.is_near(situation.threshold)
            for each in found
        )
    }
    usual = median([each.importance for each in situation.known.values()] or [_NORMAL])
    changed = {
        each.superseded_by or each.before.memory_id
        for each in plan.closures
        if each.action == "contradicted" and _may_bear(each.before, usual)
    }
    unsettled = {each.memory_id for each in plan.creations if each.may_replace}
    return near | changed | unsettled | {newer for newer, _ in plan.may_replace}


def _may_bear(ended: CurrentMemory, usual: float) -> bool:
    """Whether other memories may rest on one that has ended; `usual` is the median importance.

    The median decides for a model that calls everything normal.
    """
    weighty = ended.importance > _NORMAL or ended.importance >= usual
    return weighty and ended.type in _LASTING
