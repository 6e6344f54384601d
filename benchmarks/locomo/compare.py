"""Two runs side by side, with how far chance alone could move the difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from benchmarks.comparison import DRAWS, Difference, as_table, draw
from benchmarks.locomo.figures import METRICS, compared
from benchmarks.locomo.report import points
from benchmarks.locomo.scores import QuestionScore
from benchmarks.locomo.variants import BALANCED

_NAMED = 12
"""How many questions are named of those that lost or gained."""


def pairs(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """The runs of both files that belong together, or the only ones there are.

    They are of the same data and the same embedder.

    Raises:
        ValueError: There are none.
    """
    one, two = before["runs"], after["runs"]
    if len(one) == len(two) == 1:
        return [(one[0], two[0])]
    named = {_name(run): run for run in two}
    found = [(run, named[_name(run)]) for run in one if _name(run) in named]
    if not found:
        raise ValueError(
            "the two results have no embedder in common: measure the same one in both, or one each"
        )
    return found


def differences(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    corpus: str,
    *,
    variant: str = BALANCED.name,
    draws: int = DRAWS,
) -> dict[str, Difference]:
    """Every metric of a ranking on a corpus, over the questions that both runs have.

    Raises:
        ValueError: They have no question in common.
    """
    one, two = _by_question(before, corpus, variant), _by_question(after, corpus, variant)
    shared = [name for name in one if name in two]
    if not shared:
        raise ValueError("the two runs have no question in common: ask the same in both")
    drawn = draw(len(shared), draws=draws)
    return compared([one[name] for name in shared], [two[name] for name in shared], drawn)


def show_differences(before: Mapping[str, Any], after: Mapping[str, Any], console: Console) -> None:
    """Print the differences, and the questions whose recall changed.

    Raises:
        ValueError: The results have no embedder or no question in common.
    """
    for one, two in pairs(before, after):
        title = f"A: {one['embedder']}, B: {two['embedder']}"
        corpora = [corpus for corpus in one["scores"] if corpus in two["scores"]]
        for corpus in corpora:
            found = differences(one, two, corpus)
            table = as_table(
                f"{corpus}, {title}",
                found.values(),
                lambda _, value, sign: points(value, sign=sign),
                lambda metric: METRICS[metric],
            )
            console.print(table)
            for verb, lost in (
                ("lost", _moved(one, two, corpus)),
                ("won", _moved(two, one, corpus)),
            ):
                if lost:
                    named = ", ".join(lost[:_NAMED]) + (", …" if len(lost) > _NAMED else "")
                    console.print(
                        f"{len(lost)} questions {verb}: {named}", markup=False, highlight=False
                    )
        ids = [{question["id"] for question in run["questions"]} for run in (one, two)]
        if alone := len(ids[0] ^ ids[1]):
            console.print(
                f"{alone} questions stand in one run only and were left out", highlight=False
            )


def _name(run: Mapping[str, Any]) -> tuple[str, str]:
    return run["data"], run["embedder"]


def _moved(before: Mapping[str, Any], after: Mapping[str, Any], corpus: str) -> Sequence[str]:
    """Questions of which less was found in the second run."""
    one, two = (_by_question(run, corpus, BALANCED.name) for run in (before, after))
    return [name for name in one if name in two and two[name].recall_10 < one[name].recall_10]


def _by_question(run: Mapping[str, Any], corpus: str, variant: str) -> dict[str, QuestionScore]:
    scores = run["scores"][corpus][variant]
    return {
        question["id"]: QuestionScore(*score)
        for question, score in zip(run["questions"], scores, strict=True)
    }
