"""The default ranking, `balanced`: a sum of features, each kept on its own scale and shown.

    own = cosine(query, content) + 0.5 cosine(query, source words) + b/(b+8) + 0.4 date + 0.1 entity
    score = (own + 0.5 (best own of the same conversation)) / (3.0 · 1.5)

where b is BM25 over content and source words, `date` is 1 inside the time window the question
names, decaying outside, and `entity` is 1 where something is mentioned that the question names.
What surrounds an answer is often a part of it, so that items lift each other within a conversation.
Cosines below 0 count as 0, so that a score lies in 0..1. Adding scores keeps their size, which
fusing ranks throws away; on LoCoMo questions this sum finds 8 to 10 points more of the evidence
than cosine alone (docs/design.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from recollect_retrieval.search.dates.window import closeness
from recollect_retrieval.search.ranking.light import Light, Ranked
from recollect_retrieval.storage.candidate import Candidate

_WEIGHTS: Mapping[str, float] = {
    "semantic": 1.0,
    "source": 0.5,
    "keyword": 1.0,
    "date": 0.4,
    "entity": 0.1,
    "session": 0.5,
}
_NAMES = tuple(_WEIGHTS)
_DATE = _NAMES.index("date")
_BM25_HALF = 8.0
"""The BM25 score that counts half."""
_TIMELY = 0.05
"""The closeness to the window from which on a memory was found by its time."""


class Balanced:
    """The ranking `balanced`."""

    name = "balanced"
    weights = _WEIGHTS
    needs_text_rank = False

    def rank(
        self, candidates: Sequence[Candidate], light: Light, weights: Mapping[str, float]
    ) -> list[Ranked]:
        """See `Ranking.rank`; among equals importance decides, then the newest comes first."""
        weight = {**_WEIGHTS, **weights}
        share = weight.pop("session")
        # Without a window no candidate has anything to gain from it: the scale stays the same, so
        # that scores of different questions can be compared.
        scale = sum(weight.values()) * (1 + share) or 1.0
        parts = [_parts(candidate, light, weight, scale) for candidate in candidates]
        alone = [sum(part) for part in parts]
        best: dict[str, float] = {}
        for candidate, score in zip(candidates, alone, strict=True):
            session = candidate.conversation_id
            if session is not None and score > best.get(session, 0.0):
                best[session] = score
        ranked = []
        for candidate, part, score in zip(candidates, parts, alone, strict=True):
            lift = share * best.get(candidate.conversation_id or "", 0.0)
            timely = part[_DATE] >= _TIMELY * weight["date"] / scale > 0
            ranked.append(Ranked(candidate, score + lift, _NAMES, (*part, lift), timely))
        ranked.sort(key=_order, reverse=True)
        return ranked


def _parts(
    candidate: Candidate, light: Light, weight: Mapping[str, float], scale: float
) -> tuple[float, ...]:
    """All but the lift of the session, in the order of `_NAMES`."""
    bm25 = candidate.bm25
    window = light.window
    return (
        weight["semantic"] * max(0.0, candidate.cosine or 0.0) / scale,
        weight["source"] * max(0.0, candidate.source_cosine or 0.0) / scale,
        weight["keyword"] * bm25 / (bm25 + _BM25_HALF) / scale,
        weight["date"] * closeness(window, candidate.happened_at) / scale if window else 0.0,
        weight["entity"] / scale if candidate.entities else 0.0,
    )


def _order(item: Ranked) -> tuple[float, float, float, str]:
    candidate = item.candidate
    return (
        item.score,
        candidate.importance,
        candidate.created_at.timestamp(),
        str(candidate.key),
    )
