"""Columns of days: what was used on each, by kind of work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from hitherto_client.console.rendering import thousands, written
from hitherto_client.results import Usage, UsageRow

_MOST_DAYS = 92
_COLOURS = 9
"""Kinds that have a colour of their own; the others share the last."""
HEIGHT = 60.0
"""Of a chart, in its own units; a day is 1 wide."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What one kind of work used on a day, as a rectangle."""

    x: int
    y: float
    height: float
    colour: int
    told: str
    """The day, the kind and the value."""


@dataclass(frozen=True, slots=True)
class Chart:
    """One measure over days."""

    title: str
    total: str
    most: str
    """The value of the highest column."""
    most_on: date
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Charts:
    """Several measures over the same days."""

    first: date
    last: date
    kinds: tuple[str, ...]
    charts: tuple[Chart, ...]
    """Those of which something was used."""

    @property
    def days(self) -> int:
        """How many columns there are room for."""
        return (self.last - self.first).days + 1

    def colour(self, kind: str) -> int:
        """The number of a kind's colour."""
        return min(self.kinds.index(kind), _COLOURS - 1)


def _count(value: float) -> str:
    return thousands(round(value))


def _dollars(value: float) -> str:
    return f"${value:,.2f}" if value >= 0.1 else f"${value:.4f}"


_MEASURES: tuple[tuple[str, Callable[[Usage], float], Callable[[float], str]], ...] = (
    ("Cost", lambda usage: usage.cost_usd, _dollars),
    ("Calls of the model", lambda usage: usage.llm_calls, _count),
    ("Tokens read and written", lambda usage: usage.input_tokens + usage.output_tokens, _count),
    ("Calls of the embedder", lambda usage: usage.embedding_calls, _count),
)


def usage_charts(rows: Iterable[UsageRow], first: date, last: date) -> Charts:
    """The charts of a report that is grouped by day and kind.

    Rows of other days are left out. At most 92 days before `last` are drawn.
    """
    first = max(first, last - timedelta(days=_MOST_DAYS - 1))
    dated = [(date.fromisoformat(row.day), row) for row in rows if row.day]
    shown = [(day, row) for day, row in dated if first <= day <= last]
    kinds = tuple(sorted({row.kind for _, row in shown}))
    drawn = Charts(first, last, kinds, ())
    made = (_chart(drawn, shown, *measure) for measure in _MEASURES)
    return Charts(first, last, kinds, tuple(one for one in made if one))


def _chart(
    room: Charts,
    rows: Sequence[tuple[date, UsageRow]],
    title: str,
    measure: Callable[[Usage], float],
    told: Callable[[float], str],
) -> Chart | None:
    """One measure as columns; None if there is nothing to draw."""
    totals: dict[date, float] = {}
    for day, row in rows:
        totals[day] = totals.get(day, 0.0) + measure(row.usage)
    highest = max(totals.values(), default=0.0)
    if highest <= 0:
        return None
    heights: dict[date, float] = {}
    pieces = []
    for day, row in sorted(rows, key=lambda one: (one[0], one[1].kind)):
        value = measure(row.usage)
        if value <= 0:
            continue
        height = value / highest * HEIGHT
        heights[day] = heights.get(day, 0.0) + height
        pieces.append(
            Piece(
                (day - room.first).days,
                round(HEIGHT - heights[day], 2),
                round(height, 2),
                room.colour(row.kind),
                f"{written(day)}, {row.kind.replace('-', ' ')}: {told(value)}",
            )
        )
    most_on = max(totals, key=lambda day: totals[day])
    return Chart(title, told(sum(totals.values())), told(highest), most_on, tuple(pieces))
