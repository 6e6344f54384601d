"""Ranks what is uncertain lower, and the newer of two memories first.

    score = 0.8 of its ranking's, for a memory that is in doubt (the component `doubt`)

A memory that may replace another one, although nothing confirms it yet, comes before it: if it
ranks lower, it moves up to its place.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

from hitherto_retrieval.search.ranking.ranking import RankedCandidate
from hitherto_retrieval.storage.standing import Standing
from hitherto_shared.models import Memory

DOUBTFUL = 0.8
"""What the score of a memory in doubt counts."""
COMPONENT = "doubt"

Item = TypeVar("Item")


def as_they_stand(ranked: list[RankedCandidate], standing: Standing) -> list[RankedCandidate]:
    """Ranked candidates, with those in doubt lower, and newer ones before the older."""
    doubtful, newer = standing.doubtful, standing.newer
    if doubtful:
        found = [_doubted(each) if _memory_of(each) in doubtful else each for each in ranked]
        # Among equals, what is certain first.
        found.sort(key=lambda each: (-each.score, _memory_of(each) in doubtful))
        ranked = found
    return newer_first(ranked, newer, _memory_of) if newer else ranked


def newer_first(
    items: Sequence[Item], newer: Mapping[UUID, Sequence[UUID]], key: Callable[[Item], Hashable]
) -> list[Item]:
    """Items, each with those that may replace it before it."""
    places = {key(item): place for place, item in enumerate(items)}
    moved: dict[int, list[int]] = {}
    for older, those in newer.items():
        at = places.get(older)
        if at is None:
            continue
        below = [place for each in those if (place := places.get(each)) is not None and place > at]
        if below:
            moved[at] = sorted(below)
    if not moved:
        return list(items)
    order: dict[int, None] = {}
    for place in range(len(items)):
        for each in (*moved.get(place, ()), place):
            order.setdefault(each)
    return [items[place] for place in order]


def memories_as_they_stand(memories: Sequence[Memory]) -> Sequence[Memory]:
    """A list of memories with the newer of a pair first."""
    newer: dict[UUID, list[UUID]] = {}
    for each in memories:
        for older in each.may_replace:
            newer.setdefault(older, []).append(each.memory_id)
    return newer_first(memories, newer, lambda each: each.memory_id) if newer else memories


def _memory_of(item: RankedCandidate) -> Hashable:
    return item.candidate.key if item.candidate.kind == "memory" else None


def _doubted(item: RankedCandidate) -> RankedCandidate:
    lost = (DOUBTFUL - 1) * item.score
    return RankedCandidate(
        item.candidate,
        item.score + lost,
        (*item.names, COMPONENT),
        (*item.parts, lost * item.scale),
        item.timely,
        item.scale,
    )
