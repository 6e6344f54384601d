"""Which memories of a user are in doubt, and which may replace others: few, if any."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Standing:
    """The memories in doubt, and for each that others may replace, those others."""

    doubtful: frozenset[UUID] = frozenset()
    newer: Mapping[UUID, Sequence[UUID]] = field(default_factory=dict)


def standing_of(rows: Iterable[Sequence[object]]) -> Standing:
    """The standing from rows of a memory, whether it is in doubt, and what it may replace."""
    doubtful: set[UUID] = set()
    newer: dict[UUID, list[UUID]] = {}
    for memory_id, in_doubt, may_replace in rows:
        assert isinstance(memory_id, UUID)
        assert isinstance(may_replace, list | tuple)
        if in_doubt:
            doubtful.add(memory_id)
        for older in may_replace:
            newer.setdefault(older, []).append(memory_id)
    return Standing(frozenset(doubtful), newer)
