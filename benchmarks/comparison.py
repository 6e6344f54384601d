"""Two results of one benchmark side by side, and whether chance could explain the difference.

Where a result has rows, they are drawn again and again with replacement, and the middle 95 % of
what the draws give is the interval. The same draws are used for everything that is compared, so
that a row counts in both or in neither (paired bootstrap). If the interval does not hold 0, another
choice of rows of this kind would hardly turn the difference round. It says nothing about how much a
model's answers differ from one run to the next: repeat runs for that. A result without rows, such
as the cost of a call, has one value of each figure and no interval.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.report import table

DRAWS = 2_000
_SEED = 20_260_301
_NAMED = 12
"""How many rows are named of those that lost or won."""

Floats = NDArray[np.float64]
Draws = NDArray[np.int64]
"""Rows by number, one line for each draw."""


def draw(rows: int, *, draws: int = DRAWS) -> Draws:
    """Draws of as many rows as there are; the same at every call."""
    return np.random.default_rng(_SEED).integers(0, rows, size=(draws, rows))


def counts(pairs: Sequence[Sequence[float]]) -> Floats:
    """What each row adds above and below the line of a ratio."""
    return np.asarray(pairs, dtype=np.float64).reshape(len(pairs), 2)


def values(of_rows: Sequence[float]) -> Floats:
    """Rows that have a value each, as counts whose ratio is the mean."""
    found = np.asarray(of_rows, dtype=np.float64)
    return np.stack([found, np.ones(len(found))], axis=1)


def ratio(of_rows: Floats) -> float:
    """The ratio of all rows together; not a number where nothing stands below the line."""
    above, below = of_rows.sum(axis=0)
    return float(above / below) if below else float("nan")


def ratios(of_rows: Floats, drawn: Draws) -> Floats:
    """The ratio of every draw; not a number where nothing stands below the line."""
    above, below = (of_rows[:, side][drawn].sum(axis=1) for side in (0, 1))
    found: Floats = np.full(len(below), np.nan)
    np.divide(above, below, out=found, where=below > 0)
    return found


def interval(found: Floats) -> tuple[float, float]:
    """The ends of the middle 95 %; not numbers where there is nothing."""
    known = found[~np.isnan(found)]
    if not known.size:
        return float("nan"), float("nan")
    low, high = np.percentile(known, [2.5, 97.5])
    return float(low), float(high)


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
    rows = [
        (
            named(item.score),
            shown(item.score, item.before, False),
            shown(item.score, item.after, False),
            shown(item.score, item.delta, True),
            f"{shown(item.score, item.low, True)} to {shown(item.score, item.high, True)}",
            item.verdict,
        )
        for item in found
    ]
    return table(title, ("score", "A", "B", "B - A", "95 % interval", ""), rows)


def show_moved(
    before: Mapping[str, float], after: Mapping[str, float], what: str, console: Console
) -> None:
    """Print which rows came to less and to more in the second run, and how many had no part.

    Args:
        before: A score of each row of the first run, by its name.
        after: The same of the second run.
        what: What a row is called, in the plural.
        console: Where to.
    """
    changed = {name: after[name] - score for name, score in before.items() if name in after}
    for verb, sign in (("lost", -1), ("won", 1)):
        names = [name for name, change in changed.items() if change * sign > 0]
        if names:
            more = ", …" if len(names) > _NAMED else ""
            line = f"{len(names)} {what} {verb}: {', '.join(names[:_NAMED])}{more}"
            console.print(line, markup=False, highlight=False)
    if alone := len(before.keys() ^ after.keys()):
        console.print(f"{alone} {what} stand in one run only and were left out", highlight=False)


def show_values(before: Mapping[str, float], after: Mapping[str, float], console: Console) -> None:
    """Print the figures that both of two results without rows have, and B by A.

    Raises:
        ValueError: They have none in common.
    """
    shared = [name for name in before if name in after]
    if not shared:
        raise ValueError("the two results have no figure in common: measure the same in both")
    rows = []
    for name in shared:
        one, two = before[name], after[name]
        rows.append((name, f"{one:,.3f}", f"{two:,.3f}", f"{two / one:.2f}" if one else "-"))
    console.print(table("A and B", ("figure", "A", "B", "B by A"), rows))
    if alone := len(before.keys() ^ after.keys()):
        console.print(f"{alone} figures stand in one result only and were left out")


def by_name(compare: Callable[[Any], Mapping[str, float]]) -> Callable[[Any, Any, Console], None]:
    """A comparison of results without rows, by a function that names the figures of one.

    The comparison raises ValueError for a file that is not such a result.
    """

    def show(before: Any, after: Any, console: Console) -> None:
        try:
            one, two = compare(before), compare(after)
        except (LookupError, TypeError, AttributeError):
            raise not_ours("one of the files") from None
        show_values(one, two, console)

    return show


def read_result(path: Path, wanted: object = None) -> Any:
    """What `--json` wrote.

    Args:
        path: The file.
        wanted: The format that it must have; None: any.

    Raises:
        ValueError: It cannot be read or is something else; the text says what to do.
    """
    try:
        found = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ValueError(f"{path.name} cannot be read: {error.strerror}") from None
    except ValueError:
        raise ValueError(f"{path.name} is not JSON: write it anew with --json") from None
    if wanted is not None and (not isinstance(found, Mapping) or found.get("format") != wanted):
        raise not_ours(path.name)
    return found


def not_ours(name: str) -> ValueError:
    """The complaint about a file that no run of this version wrote."""
    return ValueError(f"{name} is no result of this version: write it anew with --json")
