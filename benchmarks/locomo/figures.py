"""What the scores of a run come to: means, intervals, differences to the default, and bars."""

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
from benchmarks.locomo.context import BLOCK, BUDGETS, ContextFigures
from benchmarks.locomo.data import LOCOMO
from benchmarks.locomo.measure import EmbedderRun
from benchmarks.locomo.scores import QuestionScore
from benchmarks.locomo.variants import BALANCED, BOTH, COSINE, FACTS, MESSAGES

ALL = "all"
METRICS = {"recall_10": "R@10", "recall_5": "R@5", "ndcg_10": "nDCG@10"}
"""What a score is made of, and how it is called."""
_GAIN = 0.08
"""How far the default ranking must stand above cosine alone, on facts."""
_WITH_MODEL = (
    (FACTS, "recall_10", 0.69, 0.72),
    (FACTS, "ndcg_10", 0.60, 0.62),
    (MESSAGES, "recall_10", 0.81, 0.85),
)
_WITHOUT = (
    (FACTS, "recall_10", 0.65, None),
    (MESSAGES, "recall_10", 0.79, None),
)
_BLOCK_WITH_MODEL = (0.80, 0.86, 0.91, 0.94)
_BLOCK_WITHOUT = (0.76, 0.82, 0.88, 0.91)
"""The share of the evidence in the block, at each of `BUDGETS`."""


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


@dataclass(frozen=True, slots=True)
class QualityBar:
    """One bar: what was compared, what it came to, the bar, and what is aimed at, if anything."""

    figure: str
    measured: float
    bar: float
    aim: float | None = None

    @property
    def met(self) -> bool:
        """Whether the bar is reached."""
        return self.measured >= self.bar

    @property
    def verdict(self) -> str:
        """`aim met`, `met` or `missed`."""
        if self.aim is not None and self.measured >= self.aim:
            return "aim met"
        return "met" if self.met else "missed"


def bars(run: EmbedderRun) -> Iterator[QualityBar]:
    """All bars for an embedder of this kind, in order."""
    if run.data != LOCOMO:
        return
    offline = run.kind == "offline"
    if run.told is not None:
        for budget, bar in zip(
            BUDGETS, _BLOCK_WITHOUT if offline else _BLOCK_WITH_MODEL, strict=True
        ):
            found = covered(run.told, BLOCK, budget).said.value
            yield QualityBar(f"evidence in {budget:,} tokens", found, bar)
    if not run.scores:
        return
    for corpus, metric, bar, aim in _WITHOUT if offline else _WITH_MODEL:
        found = mean(run, corpus.name, BALANCED.name, metric)
        yield QualityBar(f"{corpus.name} {METRICS[metric]}", found, bar, aim)
    both, said = (mean(run, of.name, BALANCED.name, "recall_10") for of in (BOTH, MESSAGES))
    yield QualityBar(f"both {METRICS['recall_10']}, at least that of messages", both, said)
    ours, cosine = (
        mean(run, FACTS.name, variant.name, "recall_10") for variant in (BALANCED, COSINE)
    )
    yield QualityBar(f"{FACTS.name} R@10 above cosine alone", ours - cosine, _GAIN)
