"""What the scores of a run come to: means, intervals, and differences to the default ranking."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.comparison import (
    Difference,
    Draws,
    Floats,
    difference,
    draw,
    interval,
    ratio,
    ratios,
    values,
)
from benchmarks.locomo.context import ContextFigures
from benchmarks.locomo.measure import EmbedderRun
from benchmarks.locomo.scores import QuestionScore
from benchmarks.locomo.variants import BALANCED

ALL = "all"
METRICS = {"recall_10": "R@10", "recall_5": "R@5", "ndcg_10": "nDCG@10"}
"""What a score is made of, and how it is called."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A mean; `low` and `high` bound it with 95 %."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class FigureGroup:
    """The figures of a corpus over the questions of one category, or over all, by metric."""

    corpus: str
    category: str
    questions: int
    figures: dict[str, Figure]


@dataclass(frozen=True, slots=True)
class InText:
    """How much of the evidence stands in a text; `summed_up` counts summaries as well."""

    said: Figure
    summed_up: Figure


@dataclass(frozen=True, slots=True)
class RankingDifference:
    """Another ranking on a corpus, held against the default: differences by metric."""

    corpus: str
    variant: str
    differences: dict[str, Difference]


def groups(run: EmbedderRun) -> Iterator[FigureGroup]:
    """The default ranking on every corpus, over all questions and by category."""
    categories = [question.category for question in run.questions]
    for corpus, variants in run.scores.items():
        for category in (ALL, *sorted(set(categories))):
            scores = [
                score
                for score, of in zip(variants[BALANCED.name], categories, strict=True)
                if category in (ALL, of)
            ]
            yield FigureGroup(corpus, category, len(scores), _figures(scores))


def covered(told: ContextFigures, name: str, budget: int) -> InText:
    """The evidence in one kind of list at one budget, over all questions."""
    found = told.covered[name][budget]
    drawn = draw(len(found))
    said, summed_up = (
        Figure(ratio(of_rows), *interval(ratios(of_rows, drawn)))
        for of_rows in (values([each.said for each in found]), values([e.summed_up for e in found]))
    )
    return InText(said, summed_up)


def rankings(run: EmbedderRun) -> Iterator[RankingDifference]:
    """Every other ranking on every corpus, in the order in which they were asked."""
    drawn = draw(len(run.questions))
    for corpus, variants in run.scores.items():
        for name, scores in variants.items():
            if name != BALANCED.name:
                yield RankingDifference(
                    corpus, name, compared(variants[BALANCED.name], scores, drawn)
                )


def compared(
    before: Sequence[QuestionScore], after: Sequence[QuestionScore], drawn: Draws
) -> dict[str, Difference]:
    """Two rankings on the same questions, by metric."""
    return {
        metric: difference(metric, of(before, metric), of(after, metric), drawn)
        for metric in METRICS
    }


def of(scores: Sequence[QuestionScore], metric: str) -> Floats:
    """One metric of every question, as counts to draw from."""
    return values([getattr(score, metric) for score in scores])


def mean(run: EmbedderRun, corpus: str, variant: str, metric: str) -> float:
    """A mean over all questions."""
    return ratio(of(run.scores[corpus][variant], metric))


def _figures(scores: Sequence[QuestionScore]) -> dict[str, Figure]:
    drawn = draw(len(scores))
    found = {}
    for metric in METRICS:
        counted = of(scores, metric)
        found[metric] = Figure(ratio(counted), *interval(ratios(counted, drawn)))
    return found
