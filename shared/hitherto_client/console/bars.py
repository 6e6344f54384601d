"""What is drawn: the parts of a score, and the time for which a statement was true."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

_COLOURS = (
    "semantic",
    "keyword",
    "source",
    "date",
    "entity",
    "temporal",
    "session",
    "neighbour",
    "facts",
    "speaker",
    "recency",
    "fulltext",
)
"""Components of a score that have a colour of their own in the stylesheet."""


@dataclass(frozen=True, slots=True)
class ScorePart:
    """One component of a score as a segment of a bar."""

    name: str
    value: float
    start: float
    """Where it begins, in percent of the bar."""
    width: float
    """In percent of the bar."""
    colour: str
    """The name of its class in the stylesheet."""


def stacked(breakdown: Mapping[str, float], scale: float = 1.0) -> tuple[ScorePart, ...]:
    """The components that add to a score, the largest first, end to end.

    `scale` is the score that fills the whole bar.
    """
    parts = []
    start = 0.0
    for name, value in sorted(breakdown.items(), key=lambda item: (-item[1], item[0])):
        width = max(0.0, min(value / scale * 100, 100 - start)) if scale > 0 else 0.0
        if round(value, 3) == 0:
            continue
        colour = name if name in _COLOURS else "other"
        parts.append(ScorePart(name, value, round(start, 2), round(width, 2), colour))
        start += width
    return tuple(parts)


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """The time for which a statement was true, as a segment of a line."""

    start: float
    """Where it begins, in percent of the line."""
    width: float
    """In percent of the line."""


def validity(
    valid_from: datetime | None,
    valid_to: datetime | None,
    first: datetime,
    last: datetime,
) -> TimeSpan:
    """Where a validity lies between two times."""
    whole = max((last - first).total_seconds(), 1.0)
    begin = max(valid_from or first, first)
    end = min(valid_to or last, last)
    start = min(max((begin - first).total_seconds() / whole * 100, 0.0), 99.0)
    width = min(max((end - begin).total_seconds() / whole * 100, 1.0), 100 - start)
    return TimeSpan(round(start, 2), round(width, 2))


def now() -> datetime:
    """The time that open spans reach to."""
    return datetime.now(UTC)
