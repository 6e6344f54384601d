"""Tables for a reader, and the same figures as JSON for `compare`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.comparison import Difference
from benchmarks.locomo.bars import bars
from benchmarks.locomo.context import BUDGETS, ContextFigures
from benchmarks.locomo.figures import ALL, METRICS, Figure, covered, groups, rankings
from benchmarks.locomo.measure import EmbedderRun

FORMAT = "locomo-1"
_DIGITS = 4
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
    table = Table(title=f"{run.data} with {run.embedder}")
    table.add_column("searched")
    for name in ("questions", *METRICS.values()):
        table.add_column(name, justify="right")
    for group in groups(run):
        everything = group.category == ALL
        if everything and table.row_count:
            table.add_section()
        table.add_row(
            group.corpus if everything else f"  {group.category}",
            str(group.questions),
            *(_with_interval(group.figures[metric]) for metric in METRICS),
        )
    return table


def _blocks(run: EmbedderRun, told: ContextFigures) -> Table:
    table = Table(
        title=f"{run.data}, {run.embedder}: the share of the evidence in so many tokens "
        f"({len(run.questions)} questions)"
    )
    table.add_column("list")
    for budget in BUDGETS:
        table.add_column(f"{budget:,}", justify="right")
    for name in told.covered:
        found = [covered(told, name, budget) for budget in BUDGETS]
        table.add_row(name, *(_with_interval(each.said) for each in found))
        if any(each.summed_up != each.said for each in found):
            table.add_row(
                "  and where a summary counts for its conversation",
                *(_with_interval(each.summed_up) for each in found),
            )
    return table


def _shares(run: EmbedderRun, told: ContextFigures) -> Table:
    table = Table(title=f"{run.data}, {run.embedder}: what the tokens of a block are spent on")
    table.add_column("section")
    for budget in BUDGETS:
        table.add_column(f"{budget:,}", justify="right")
    sections = dict.fromkeys(name for budget in BUDGETS for name in told.shares[budget])
    for name in sections:
        found = (told.shares[budget].get(name, 0.0) for budget in BUDGETS)
        table.add_row(name, *(f"{share:.1%}" for share in found))
    table.add_section()
    table.add_row("tokens used", *(f"{told.tokens[budget]:,.0f}" for budget in BUDGETS))
    table.add_row("lines with a day", *(f"{told.dated[budget]:.1%}" for budget in BUDGETS))
    return table


def _ablation(run: EmbedderRun) -> Table:
    table = Table(title=f"Other rankings with {run.embedder}, against the default")
    table.add_column("searched")
    table.add_column("ranking")
    for metric in _TOLD:
        table.add_column(METRICS[metric], justify="right")
        table.add_column("difference, 95 %", justify="right")
    before = ""
    for ranked in rankings(run):
        if before and ranked.corpus != before:
            table.add_section()
        cells: list[str] = []
        for metric in _TOLD:
            item = ranked.differences[metric]
            cells += [points(item.after), _difference(item)]
        table.add_row("" if ranked.corpus == before else ranked.corpus, ranked.variant, *cells)
        before = ranked.corpus
    return table


def _bars(run: EmbedderRun) -> Table:
    table = Table(title=f"Bars for {run.embedder}, over {len(run.questions)} questions")
    table.add_column("figure")
    for name in ("measured", "bar", "aim", ""):
        table.add_column(name, justify="right")
    for bar in bars(run):
        table.add_row(
            bar.figure,
            # One digit more: what is rounded up to the bar has not reached it.
            f"{bar.measured:.4f}",
            f"≥ {bar.bar:.2f}",
            "-" if bar.aim is None else f"≥ {bar.aim:.2f}",
            bar.verdict,
        )
    return table


def _with_interval(figure: Figure) -> str:
    return f"{points(figure.value)} ({points(figure.low)} to {points(figure.high)})"


def _difference(item: Difference) -> str:
    low, high = points(item.low, sign=True), points(item.high, sign=True)
    return f"{points(item.delta, sign=True)} ({low} to {high})"
