"""How far chance alone could move a score: rows are drawn again and again with replacement.

The middle 95 % of what the draws give is the interval. The same draws are used for everything that
is compared, so that a row counts in both or in neither (paired bootstrap). It says nothing about
how much a model's answers differ from one run to the next: repeat runs for that.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

DRAWS = 2_000
_SEED = 20_260_301

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
