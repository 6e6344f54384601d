"""The bars that retrieval is held to (design, Q1 and Q3), and whether a run met them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.locomo.context import BLOCK, BUDGETS
from benchmarks.locomo.data import LOCOMO
from benchmarks.locomo.figures import METRICS, covered, mean
from benchmarks.locomo.measure import EmbedderRun
from benchmarks.locomo.variants import BALANCED, BOTH, COSINE, FACTS, MESSAGES

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
