"""The bars that retrieval is held to (design, Q1), and whether a run met them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.locomo.figures import METRICS, mean
from benchmarks.locomo.measure import Run
from benchmarks.locomo.variants import BALANCED, COSINE, FACTS, MESSAGES

_GAIN = 0.08
"""How far the default ranking must stand above cosine alone, on facts."""
_WITH_MODEL = (
    (FACTS, "recall_10", 0.68, 0.72),
    (FACTS, "ndcg_10", 0.58, 0.62),
    (MESSAGES, "recall_10", 0.80, 0.85),
)
_WITHOUT = (
    (FACTS, "recall_10", 0.65, None),
    (MESSAGES, "recall_10", 0.77, None),
)


@dataclass(frozen=True, slots=True)
class Bar:
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


def bars(run: Run) -> Iterator[Bar]:
    """All bars for an embedder of this kind, in order."""
    for corpus, metric, bar, aim in _WITHOUT if run.kind == "offline" else _WITH_MODEL:
        found = mean(run, corpus.name, BALANCED.name, metric)
        yield Bar(f"{corpus.name} {METRICS[metric]}", found, bar, aim)
    ours, cosine = (
        mean(run, FACTS.name, variant.name, "recall_10") for variant in (BALANCED, COSINE)
    )
    yield Bar(f"{FACTS.name} R@10 above cosine alone", ours - cosine, _GAIN)
