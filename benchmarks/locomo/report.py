"""Tables for a reader, the same figures as JSON, and two of these side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.comparison import DRAWS, Difference, as_table, draw, show_moved
from benchmarks.locomo.context import BUDGETS, ContextFigures
from benchmarks.locomo.figures import (
    ALL,
    METRICS,
    Figure,
    bars,
    compared,
    covered,
    groups,
    rankings,
)
from benchmarks.locomo.measure import EmbedderRun
from benchmarks.locomo.scores import QuestionScore
from benchmarks.locomo.variants import BALANCED
from benchmarks.report import table

FORMAT = "locomo-1"
_DIGITS = 4
_BUDGETS = [f"{budget:,}" for budget in BUDGETS]
_TOLD = ("recall_10", "ndcg_10")
"""The metrics of other rankings that are printed; the file has all."""


def show(run: EmbedderRun, console: Console) -> None:
    """Print one embedder's tables."""
    if run.told is not None:
        console.print(_blocks(run, run.told))
        console.print(_shares(run, run.told))
    if run.scores:
        console.print(_quality(run))
        console.print(_ablation(run))
    if list(bars(run)):
        console.print(_bars(run))
    for line in notes(run):
        console.print(line, markup=False, highlight=False)


def notes(run: EmbedderRun) -> list[str]:
    """What was held, and what limits the figures, as sentences."""
    held = run.held
    lines = [
        f"{run.embedder}: {held.succeeded} of {held.sessions} jobs succeeded, {held.summaries} "
        f"summaries, {held.memories} memories ({held.with_sources} with sources), "
        f"{held.messages} messages; "
        + ", ".join(f"{name} {seconds:.0f} s" for name, seconds in run.seconds.items()),
        f"facts cannot come above R@10 {run.ceiling:.3f}: not every gold message led to one",
    ]
    for corpus, components in run.idle.items():
        if components:
            lines.append(f"add nothing to {corpus} here: {', '.join(components)}")
    if run.degraded:
        lines.append(f"{run.degraded} answers were degraded: these figures are too low")
    return lines


def as_json(runs: Sequence[EmbedderRun]) -> dict[str, Any]:
    """Everything that was found, with the scores of every question."""
    return {
        "format": FORMAT,
        "runs": [
            {
                "data": run.data,
                "kind": run.kind,
                "embedder": run.embedder,
                "held": asdict(run.held),
                "ceiling": round(run.ceiling, _DIGITS),
                "degraded": run.degraded,
                "idle": run.idle,
                "seconds": {name: round(value, 1) for name, value in run.seconds.items()},
                "bars": [{**asdict(bar), "verdict": bar.verdict} for bar in bars(run)],
                "groups": [asdict(group) for group in groups(run)],
                "rankings": [asdict(ranked) for ranked in rankings(run)],
                "told": _told(run.told) if run.told is not None else None,
                "questions": [
                    {"id": question.id, "category": question.category} for question in run.questions
                ],
                "scores": {
                    corpus: {
                        variant: [[round(value, _DIGITS) for value in score] for score in scores]
                        for variant, scores in variants.items()
                    }
                    for corpus, variants in run.scores.items()
                },
            }
            for run in runs
        ],
    }


def _told(told: ContextFigures) -> dict[str, Any]:
    return {
        "tokens": told.tokens,
        "shares": told.shares,
        "dated": told.dated,
        "covered": {
            name: {
                budget: {
                    **asdict(covered(told, name, budget)),
                    "questions": [[round(value, _DIGITS) for value in each] for each in found],
                }
                for budget, found in by_budget.items()
            }
            for name, by_budget in told.covered.items()
        },
    }


def points(value: float, *, sign: bool = False) -> str:
    """A score between 0 and 1, or a difference of two with its sign."""
    return f"{value:{'+' if sign else ''}.3f}"


def _quality(run: EmbedderRun) -> Table:
    rows: list[Sequence[str] | None] = []
    for group in groups(run):
        everything = group.category == ALL
        if everything and rows:
            rows.append(None)
        name = group.corpus if everything else f"  {group.category}"
        figures = (_with_interval(group.figures[metric]) for metric in METRICS)
        rows.append((name, str(group.questions), *figures))
    title = f"{run.data} with {run.embedder}"
    return table(title, ("searched", "questions", *METRICS.values()), rows)


def _blocks(run: EmbedderRun, told: ContextFigures) -> Table:
    rows = []
    for name in told.covered:
        found = [covered(told, name, budget) for budget in BUDGETS]
        rows.append((name, *(_with_interval(each.said) for each in found)))
        if any(each.summed_up != each.said for each in found):
            label = "  and where a summary counts for its conversation"
            rows.append((label, *(_with_interval(each.summed_up) for each in found)))
    title = (
        f"{run.data}, {run.embedder}: the share of the evidence in so many tokens "
        f"({len(run.questions)} questions)"
    )
    return table(title, ("list", *_BUDGETS), rows)


def _shares(run: EmbedderRun, told: ContextFigures) -> Table:
    rows: list[Sequence[str] | None] = []
    for name in dict.fromkeys(name for budget in BUDGETS for name in told.shares[budget]):
        found = (told.shares[budget].get(name, 0.0) for budget in BUDGETS)
        rows.append((name, *(f"{share:.1%}" for share in found)))
    rows.append(None)
    rows.append(("tokens used", *(f"{told.tokens[budget]:,.0f}" for budget in BUDGETS)))
    rows.append(("lines with a day", *(f"{told.dated[budget]:.1%}" for budget in BUDGETS)))
    title = f"{run.data}, {run.embedder}: what the tokens of a block are spent on"
    return table(title, ("section", *_BUDGETS), rows)


def _ablation(run: EmbedderRun) -> Table:
    rows: list[Sequence[str] | None] = []
    before = ""
    for ranked in rankings(run):
        if before and ranked.corpus != before:
            rows.append(None)
        items = (ranked.differences[metric] for metric in _TOLD)
        cells = [cell for item in items for cell in (points(item.after), _difference(item))]
        rows.append(("" if ranked.corpus == before else ranked.corpus, ranked.variant, *cells))
        before = ranked.corpus
    metrics = [name for metric in _TOLD for name in (METRICS[metric], "difference, 95 %")]
    title = f"Other rankings with {run.embedder}, against the default"
    return table(title, ("searched", "ranking", *metrics), rows, left=2)


def _bars(run: EmbedderRun) -> Table:
    rows = [
        (
            bar.figure,
            # One digit more: what is rounded up to the bar has not reached it.
            f"{bar.measured:.4f}",
            f"≥ {bar.bar:.2f}",
            "-" if bar.aim is None else f"≥ {bar.aim:.2f}",
            bar.verdict,
        )
        for bar in bars(run)
    ]
    title = f"Bars for {run.embedder}, over {len(run.questions)} questions"
    return table(title, ("figure", "measured", "bar", "aim", ""), rows)


def _with_interval(figure: Figure) -> str:
    return f"{points(figure.value)} ({points(figure.low)} to {points(figure.high)})"


def _difference(item: Difference) -> str:
    low, high = points(item.low, sign=True), points(item.high, sign=True)
    return f"{points(item.delta, sign=True)} ({low} to {high})"


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
            show_moved(_recalls(one, corpus), _recalls(two, corpus), "questions", console)


def _name(run: Mapping[str, Any]) -> tuple[str, str]:
    return run["data"], run["embedder"]


def _recalls(run: Mapping[str, Any], corpus: str) -> dict[str, float]:
    scores = _by_question(run, corpus, BALANCED.name)
    return {name: score.recall_10 for name, score in scores.items()}


def _by_question(run: Mapping[str, Any], corpus: str, variant: str) -> dict[str, QuestionScore]:
    scores = run["scores"][corpus][variant]
    return {
        question["id"]: QuestionScore(*score)
        for question, score in zip(run["questions"], scores, strict=True)
    }
