"""Two runs side by side, with how far chance alone could move the difference.

Rows are drawn again and again with replacement (paired bootstrap: a row counts in both runs or in
neither), and the middle 95 % of the differences is the interval. If it does not hold 0, another
choice of rows of this kind would hardly turn the difference round. It says nothing about how much
a model's answers differ from one run to the next: repeat runs for that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.extraction.report import check_format
from benchmarks.extraction.scores import LOWER_IS_BETTER, SCORES

DRAWS = 2_000
_SEED = 20_260_301
_AMOUNTS = frozenset(("input_tokens", "output_tokens", "usd", "usd_reference"))
_PER_THOUSAND = frozenset(("usd", "usd_reference"))

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Difference:
    """One score in two runs; `low` and `high` bound the difference with 95 %."""

    score: str
    before: float
    after: float
    low: float
    high: float

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
        return "better" if (self.delta < 0) == (self.score in LOWER_IS_BETTER) else "worse"


def read_result(path: Path) -> dict[str, Any]:
    """A file that `--json` wrote.

    Raises:
        ValueError: It cannot be read or is something else; the text says what to do.
    """
    try:
        found = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ValueError(f"{path.name} cannot be read: {error.strerror}") from None
    except ValueError:
        raise ValueError(f"{path.name} is not JSON: write it anew with --json") from None
    check_format(found, path.name)
    return dict(found)


def differences(
    before: Mapping[str, Any], after: Mapping[str, Any], *, draws: int = DRAWS
) -> list[Difference]:
    """Every score over the rows that both runs have.

    Raises:
        ValueError: They have no row in common.
    """
    one = {row["id"]: row["counts"] for row in before["rows"]}
    two = {row["id"]: row["counts"] for row in after["rows"]}
    shared = [name for name in one if name in two]
    if not shared:
        raise ValueError("the two runs have no row in common: run the same rows in both")
    generator = np.random.default_rng(_SEED)
    drawn = generator.integers(0, len(shared), size=(draws, len(shared)))
    found = []
    for score in SCORES:
        left, right = (
            _counts([counts[name].get(score, (0, 0)) for name in shared]) for counts in (one, two)
        )
        if not left[:, 1].sum() or not right[:, 1].sum():
            continue
        moved = _ratios(right, drawn) - _ratios(left, drawn)
        moved = moved[~np.isnan(moved)]
        low, high = np.percentile(moved, [2.5, 97.5]) if moved.size else (np.nan, np.nan)
        found.append(Difference(score, _ratio(left), _ratio(right), float(low), float(high)))
    return found


def show_differences(before: Mapping[str, Any], after: Mapping[str, Any], console: Console) -> None:
    """Print the differences, and the rows whose recall changed.

    Raises:
        ValueError: The runs have no row in common.
    """
    found = differences(before, after)
    table = Table(title=f"A: {_named(before)}, B: {_named(after)}")
    table.add_column("score")
    for name in ("A", "B", "B - A", "95 % interval", ""):
        table.add_column(name, justify="right")
    for item in found:
        table.add_row(
            f"{item.score} per 1,000" if item.score in _PER_THOUSAND else item.score,
            _shown(item.score, item.before),
            _shown(item.score, item.after),
            _shown(item.score, item.delta, sign=True),
            f"{_shown(item.score, item.low, sign=True)} to "
            f"{_shown(item.score, item.high, sign=True)}",
            item.verdict,
        )
    console.print(table)
    ids = [{row["id"] for row in run["rows"]} for run in (before, after)]
    alone = len(ids[0] ^ ids[1])
    if alone:
        console.print(f"{alone} rows stand in one run only and were left out", highlight=False)
    for title, rows in (("lost", _moved(before, after)), ("gained", _moved(after, before))):
        if rows:
            console.print(f"expectations {title}: {', '.join(rows)}", markup=False, highlight=False)


def _moved(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Rows that met fewer expectations in the second run."""
    met = {row["id"]: row["counts"]["recall"][0] for row in after["rows"]}
    return [
        row["id"]
        for row in before["rows"]
        if row["id"] in met and met[row["id"]] < row["counts"]["recall"][0]
    ]


def _named(run: Mapping[str, Any]) -> str:
    return f"{run['model'] or run['extractor']} ({run['prompt_version']})"


def _shown(score: str, value: float, *, sign: bool = False) -> str:
    if np.isnan(value):
        return "-"
    plus = "+" if sign else ""
    if score in _PER_THOUSAND:
        return f"{value * 1000:{plus}.2f}"
    if score in _AMOUNTS:
        return f"{value:{plus}.0f}"
    return f"{value * 100:{plus}.1f} %"


def _counts(pairs: Sequence[Sequence[float]]) -> Floats:
    return np.asarray(pairs, dtype=np.float64).reshape(len(pairs), 2)


def _ratio(counts: Floats) -> float:
    return float(counts[:, 0].sum() / counts[:, 1].sum())


def _ratios(counts: Floats, drawn: NDArray[np.int64]) -> Floats:
    """The score of every drawn set of rows; not a number where it has nothing to score."""
    sums = counts[drawn].sum(axis=1)
    wholes = sums[:, 1]
    found: Floats = np.full(len(sums), np.nan)
    np.divide(sums[:, 0], wholes, out=found, where=wholes > 0)
    return found
