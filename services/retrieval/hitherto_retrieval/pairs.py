"""Orders the newer of two memories before the older, if it may replace that one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

from hitherto_shared.models import Memory

Item = TypeVar("Item")


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


def newer_of(memories: Iterable[Memory]) -> dict[UUID, list[UUID]]:
    """For each memory that others may replace, those others."""
    newer: dict[UUID, list[UUID]] = {}
    for each in memories:
        for older in each.may_replace:
            newer.setdefault(older, []).append(each.memory_id)
    return newer


def in_pairs(memories: Sequence[Memory]) -> Sequence[Memory]:
    """A list of memories with the newer of a pair first."""
    newer = newer_of(memories)
    return newer_first(memories, newer, lambda each: each.memory_id) if newer else memories
