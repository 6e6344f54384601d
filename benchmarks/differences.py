"""One score in two runs, and whether chance could explain that they differ.

If the interval does not hold 0, another choice of rows of this kind would hardly turn the
difference round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rich.table import Table

from benchmarks.bootstrap import Draws, Floats, interval, ratio, ratios


@dataclass(frozen=True, slots=True)
class Difference:
    """One score in two runs; `low` and `high` bound the difference with 95 %."""

    score: str
    before: float
    after: float
    low: float
    high: float
    lower_is_better: bool = False

    @property
    def delta(self) -> float:
        """How much higher the second run is."""
        return self.after - self.before

    @property
    def verdict(self) -> str:
        """`better`, `worse`, `same`, or `unclear` if chance could explain it."""
        if self.low == self.high == self.delta == 0:
            return "same"
        if self.low <= 0 <= self.high:
            return "unclear"
        return "better" if (self.delta < 0) == self.lower_is_better else "worse"


def difference(
    score: str, before: Floats, after: Floats, drawn: Draws, *, lower_is_better: bool = False
) -> Difference:
    """The difference of a score over the same rows, given as counts.

    Args:
        score: Its name.
        before: What each row adds above and below the line in the first run.
        after: The same in the second run, in the same order of rows.
        drawn: The draws of rows, for the interval.
        lower_is_better: Whether less of it is better.
    """
    low, high = interval(ratios(after, drawn) - ratios(before, drawn))
    return Difference(score, ratio(before), ratio(after), low, high, lower_is_better)


def as_table(
    title: str,
    found: Iterable[Difference],
    shown: Callable[[str, float, bool], str],
    named: Callable[[str], str] = str,
) -> Table:
    """A table of differences.

    Args:
        title: Stands above it and says what A and B are.
        found: One line each.
        shown: How a value of a score reads; with its sign if the last argument is true.
        named: How the name of a score reads.
    """
    table = Table(title=title)
    table.add_column("score")
    for name in ("A", "B", "B - A", "95 % interval", ""):
        table.add_column(name, justify="right")
    for item in found:
        table.add_row(
            named(item.score),
            shown(item.score, item.before, False),
            shown(item.score, item.after, False),
            shown(item.score, item.delta, True),
            f"{shown(item.score, item.low, True)} to {shown(item.score, item.high, True)}",
            item.verdict,
        )
    return table
