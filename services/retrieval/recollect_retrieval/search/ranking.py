"""The default ranking, `balanced`: a sum of features, each kept on its own scale and shown.

    score = (cosine(query, content) + 0.5 cosine(query, source words) + b/(b+8) + 0.4 date)
            / sum of the weights

where b is BM25 over content and source words and `date` is 1 inside the time window the question
names, decaying outside. Cosines below 0 count as 0, so that a score lies in 0..1. Adding scores
keeps their size, which fusing ranks throws away; on LoCoMo questions this sum finds 8 to 10 points
more of the evidence than cosine alone (docs/design.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from recollect_retrieval.search.dates.window import Window, closeness
from recollect_retrieval.storage.memories import Candidate

BALANCED: Mapping[str, float] = {"semantic": 1.0, "source": 0.5, "keyword": 1.0, "date": 0.4}
_BM25_HALF = 8.0
"""The BM25 score that counts half."""
_TIMELY = 0.05
"""The closeness to the window from which on a memory was found by its time."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate with its score and what it is made of; the parts add up to the score.

    `timely` is True where the memory lies in the time the question names, or near it.
    """

    candidate: Candidate
    score: float
    breakdown: Mapping[str, float]
    timely: bool


def rank(
    candidates: Sequence[Candidate], window: Window | None, weights: Mapping[str, float]
) -> list[Ranked]:
    """Candidates by score; among equal scores by importance, then the newest first.

    Args:
        candidates: What may be an answer.
        window: The time the question is about, if it names one.
        weights: Weight of each component; those not named keep their default.
    """
    weight = {**BALANCED, **weights}
    # Without a window no candidate has anything to gain from it: the scale stays the same, so that
    # scores of different questions can be compared.
    scale = sum(weight.values())
    ranked = [_ranked(candidate, window, weight, scale) for candidate in candidates]
    ranked.sort(
        key=lambda r: (r.score, r.candidate.importance, r.candidate.created_at), reverse=True
    )
    return ranked


def _ranked(
    candidate: Candidate, window: Window | None, weight: Mapping[str, float], scale: float
) -> Ranked:
    features = {
        "semantic": max(0.0, candidate.cosine or 0.0),
        "source": max(0.0, candidate.source_cosine or 0.0),
        "keyword": candidate.bm25 / (candidate.bm25 + _BM25_HALF),
        "date": closeness(window, candidate.valid_from) if window is not None else 0.0,
    }
    breakdown = {name: weight[name] * value / scale for name, value in features.items()}
    return Ranked(candidate, sum(breakdown.values()), breakdown, timely=features["date"] >= _TIMELY)
