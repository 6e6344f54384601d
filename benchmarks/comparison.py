"""Two results of one benchmark side by side, and whether chance could explain the difference.

Where a result has scores of rows, the rows are drawn again and again with replacement, and the
middle 95 % of what the draws give is the interval. The same draws are used for everything that is
compared, so that a row counts in both or in neither (paired bootstrap). If the interval does not
hold 0, another choice of rows of this kind would hardly turn the difference round. It says nothing
about how much a model's answers differ from one run to the next: repeat runs for that. A result
without rows, such as the cost of a call, has one value of each figure and no interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from benchmarks.report import BenchmarkResult, FigureTable, ResultPart, RowScore

DRAWS = 2_000
_SEED = 20_260_301
_NAMED = 12
"""How many rows are named of those that lost or won."""

Floats = NDArray[np.float64]


def _counts(score: RowScore, places: Sequence[int] | None = None) -> Floats:
    """What rows add above and below the line of a score; None: all rows."""
    above = np.asarray(score.above, dtype=np.float64)
    below = np.asarray(score.below, dtype=np.float64) if score.below else np.ones(len(above))
    found: Floats = np.stack([above, below])
    return found if places is None else found[:, list(places)]


def _ratios(counts: Floats) -> tuple[float, Floats]:
    """The ratio of all rows together and of every draw; not a number with nothing below the line.

    The draws of as many rows as there are are the same at every call.
    """
    rows = counts.shape[1]
    drawn = np.random.default_rng(_SEED).integers(0, rows, size=(DRAWS, rows))
    above, below = (np.append(side.sum(), side[drawn].sum(axis=1)) for side in counts)
    found: Floats = np.full(len(below), np.nan)
    np.divide(above, below, out=found, where=below > 0)
    return float(found[0]), found[1:]


def _interval(found: Floats) -> tuple[float, float]:
    """The ends of the middle 95 %; not numbers where there is nothing."""
    known = found[~np.isnan(found)]
    if not known.size:
        return float("nan"), float("nan")
    low, high = np.percentile(known, [2.5, 97.5])
    return float(low), float(high)


def mean(score: RowScore) -> float:
    """A score over all rows; not a number where nothing stands below the line."""
    above, below = _counts(score).sum(axis=1)
    return float(above / below) if below else float("nan")


def with_interval(score: RowScore) -> str:
    """A score over all rows, as it is printed with its interval."""
    found, drawn = _ratios(_counts(score))
    low, high = _interval(drawn)
    return f"{score.shown(found)} ({score.shown(low)} to {score.shown(high)})"


@dataclass(frozen=True, slots=True)
class Difference:
    """One score in two runs; `low` and `high` bound the difference with 95 %."""

    score: RowScore
    before: float
    after: float
    low: float
    high: float

    @property
    def delta(self) -> float:
        """How much higher the second run is."""
        return self.after - self.before

    @property
    def shown_delta(self) -> str:
        """The difference as it is printed."""
        return self.score.shown(self.delta, sign=True)

    @property
    def shown_interval(self) -> str:
        """Its bounds as they are printed."""
        low, high = (self.score.shown(bound, sign=True) for bound in (self.low, self.high))
        return f"{low} to {high}"

    @property
    def verdict(self) -> str:
        """`better`, `worse`, `same`, or `unclear` if chance could explain it."""
        if self.low == self.high == self.delta == 0:
            return "same"
        if self.low <= 0 <= self.high:
            return "unclear"
        return "better" if (self.delta < 0) == self.score.lower_is_better else "worse"


def difference(
    before: RowScore,
    after: RowScore,
    places: tuple[Sequence[int], Sequence[int]] | None = None,
) -> Difference:
    """The difference of a score over the same rows.

    `places` are where the shared rows stand in each, in the same order; None: both have the same.
    """
    one, two = places or (None, None)
    (left, of_left), (right, of_right) = _ratios(_counts(before, one)), _ratios(_counts(after, two))
    return Difference(before, left, right, *_interval(of_right - of_left))


def paired(before: BenchmarkResult, after: BenchmarkResult) -> list[tuple[ResultPart, ResultPart]]:
    """The parts of both results that have one title, or the only ones there are.

    Raises:
        ValueError: There are none.
    """
    if len(before.parts) == len(after.parts) == 1:
        return [(before.parts[0], after.parts[0])]
    titled = {part.title: part for part in after.parts}
    found = [(part, titled[part.title]) for part in before.parts if part.title in titled]
    if not found:
        raise ValueError("the two results have no part in common: measure the same in both")
    return found


def show_differences(before: BenchmarkResult, after: BenchmarkResult, console: Console) -> None:
    """Print what the results have in common: B - A with an interval, or B by A without rows.

    Raises:
        ValueError: They have nothing in common.
    """
    for one, two in paired(before, after):
        if one.scores and two.scores:
            _show_scores(one, two, console)
        else:
            _show_values(one.figures, two.figures, console)


def differences(one: ResultPart, two: ResultPart) -> dict[str, Difference]:
    """The difference of each score that both have, over the rows that both have.

    Raises:
        ValueError: They have no row in common.
    """
    shared = _shared_rows(one, two)
    if not shared[0]:
        raise ValueError(f"the two results have none of their {one.row_word} in common")
    return {
        name: difference(score, two.scores[name], shared)
        for name, score in one.scores.items()
        if name in two.scores
        and _counts(score, shared[0])[1].any()
        and _counts(two.scores[name], shared[1])[1].any()
    }


def _shared_rows(one: ResultPart, two: ResultPart) -> tuple[list[int], list[int]]:
    places = {name: place for place, name in enumerate(two.rows)}
    pairs = [(place, places[name]) for place, name in enumerate(one.rows) if name in places]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def _show_scores(one: ResultPart, two: ResultPart, console: Console) -> None:
    rows = []
    for name, found in differences(one, two).items():
        values = (found.score.shown(value) for value in (found.before, found.after))
        rows.append((name, *values, found.shown_delta, found.shown_interval, found.verdict))
    columns = ("score", "A", "B", "B - A", "95 % interval", "")
    console.print(FigureTable(f"A: {one.title}, B: {two.title}", columns, rows).printed())
    for name, score in one.scores.items():
        if score.names_rows and name in two.scores:
            _show_moved(name, one, two, console)
    if alone := len(set(one.rows) ^ set(two.rows)):
        word = one.row_word
        console.print(f"{alone} {word} stand in one run only and were left out", highlight=False)


def _show_moved(name: str, one: ResultPart, two: ResultPart, console: Console) -> None:
    """Print which rows came to less and to more in the second run."""
    before, after = one.scores[name].above, two.scores[name].above
    changed = {
        one.rows[here]: after[there] - before[here]
        for here, there in zip(*_shared_rows(one, two), strict=True)
    }
    for verb, sign in (("lost", -1), ("won", 1)):
        names = [row for row, change in changed.items() if change * sign > 0]
        if names:
            more = ", …" if len(names) > _NAMED else ""
            line = f"{name}: {len(names)} {one.row_word} {verb}: {', '.join(names[:_NAMED])}{more}"
            console.print(line, markup=False, highlight=False)


def _show_values(before: Mapping[str, float], after: Mapping[str, float], console: Console) -> None:
    shared = [name for name in before if name in after]
    if not shared:
        raise ValueError("the two results have no figure in common: measure the same in both")
    rows = []
    for name in shared:
        one, two = before[name], after[name]
        rows.append((name, f"{one:,.3f}", f"{two:,.3f}", f"{two / one:.2f}" if one else "-"))
    console.print(FigureTable("A and B", ("figure", "A", "B", "B by A"), rows).printed())
    if alone := len(before.keys() ^ after.keys()):
        console.print(f"{alone} figures stand in one result only and were left out")
