"""Two runs side by side, with how far chance alone could move the difference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.comparison import DRAWS, Difference, as_table, counts, difference, draw
from benchmarks.extraction.scores import LOWER_IS_BETTER, SCORES

_AMOUNTS = frozenset(("input_tokens", "output_tokens", "usd", "usd_reference"))
_PER_THOUSAND = frozenset(("usd", "usd_reference"))


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
    drawn = draw(len(shared), draws=draws)
    found = []
    for score in SCORES:
        left, right = (
            counts([of_rows[name].get(score, (0, 0)) for name in shared]) for of_rows in (one, two)
        )
        if left[:, 1].sum() and right[:, 1].sum():
            lower = score in LOWER_IS_BETTER
            found.append(difference(score, left, right, drawn, lower_is_better=lower))
    return found


def show_differences(before: Mapping[str, Any], after: Mapping[str, Any], console: Console) -> None:
    """Print the differences, and the rows whose recall changed.

    Raises:
        ValueError: The runs have no row in common.
    """
    found = differences(before, after)
    title = f"A: {_named(before)}, B: {_named(after)}"
    console.print(as_table(title, found, _shown, _titled))
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


def _titled(score: str) -> str:
    return f"{score} per 1,000" if score in _PER_THOUSAND else score


def _shown(score: str, value: float, sign: bool) -> str:
    if np.isnan(value):
        return "-"
    plus = "+" if sign else ""
    if score in _PER_THOUSAND:
        return f"{value * 1000:{plus}.2f}"
    if score in _AMOUNTS:
        return f"{value:{plus}.0f}"
    return f"{value * 100:{plus}.1f} %"
