"""How relevant an item is to a question: one scale for all kinds, rankings and embedders.

    relevance = max((cosine + 0.3 words) / unrelated, words / 0.5) / 2

`words` is the share of the question's words that an item has, by their weight.

`unrelated` belongs to the embedder: what the best of some hundred texts that do not answer a
question has. Such a text has 0.5, which is the floor, and nothing has more than 1. What was said
around an item, or elsewhere in its conversation, does not count. Measured with MiniLM on questions
to another person's conversations (benchmarks/README.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hitherto_retrieval.search.ranking.ranking import QueryIntent, RankedCandidate
from hitherto_retrieval.storage.candidate import Candidate, Kind

FLOOR = 0.5
"""The relevance from which an item answers a question."""
BESIDE = FLOOR / 2
"""The relevance from which an item counts that stands in the conversation of one that answers."""
_WORDS = 0.3
_ENOUGH_WORDS = 0.5
"""A text with this share of the question's words answers it, whatever the vectors say: 95 in 100
questions to another person's conversations find none."""
_ALIKE = 0.3
"""The cosine from which vectors of spelling count as a word."""
_UNRELATED: Mapping[str, float] = {
    "text-embedding-3": 0.3,
    "text-embedding-ada": 0.8,
    "onnx:all-MiniLM": 0.45,
}
_OF_OTHERS = 0.3
"""Of models that were not measured: with most it keeps nothing back that answers."""


def unrelated(model: str) -> float:
    """What the best text that does not answer a question has with this model."""
    return next((value for name, value in _UNRELATED.items() if model.startswith(name)), _OF_OTHERS)


@dataclass(frozen=True, slots=True)
class Relevance:
    """Tells the relevance of candidates for one question.

    Attributes:
        intent: The question.
        model: The model that compared the vectors; empty if there are none.
        whole: By kind, the BM25 of a text of average length that has every word of the question.
    """

    intent: QueryIntent
    model: str
    whole: Mapping[Kind, float]

    def enough(
        self, ranked: Sequence[RankedCandidate], least: float | None
    ) -> Sequence[RankedCandidate]:
        """Those of `least` relevance; None: those above the floor, and what stands beside them."""
        if least is not None and least <= 0:
            return ranked
        values = [self.of(item.candidate, timely=item.timely) for item in ranked]
        if least is not None:
            return [item for item, value in zip(ranked, values, strict=True) if value >= least]
        # Many things are each a little of what a question for all of them asks.
        floor = BESIDE if self.intent.broad else FLOOR
        answering = {
            item.candidate.conversation_id
            for item, value in zip(ranked, values, strict=True)
            if value >= floor
        }
        return [
            item
            for item, value in zip(ranked, values, strict=True)
            if value >= floor
            or (value >= BESIDE and item.candidate.conversation_id in answering - {None})
        ]

    def of(self, candidate: Candidate, *, timely: bool = False) -> float:
        """The relevance of one candidate, in 0..1; `timely` if it is of the time that is asked."""
        named = candidate.entities > 0 or candidate.source_type in self.intent.source_types
        least = FLOOR if named or timely or candidate.most_recent else 0.0
        whole = self.whole.get(candidate.kind, 0.0)
        of_facts = self.whole.get("memory", 0.0)
        share = max(
            candidate.bm25 / whole if whole else 0.0,
            candidate.fact_bm25 / of_facts if of_facts else 0.0,
        )
        share = min(1.0, share)
        cosines = (candidate.cosine, candidate.source_cosine, candidate.fact_cosine)
        compared = [cosine for cosine in cosines if cosine is not None]
        if not compared or not self.model or self.intent.by_spelling:
            # Without meaning, words cannot tell how much is enough: any of them is.
            alike = max(0.0, *compared, 0.0) >= _ALIKE
            by_words = FLOOR + (1 - FLOOR) * share if share or alike else 0.0
            return max(least, by_words)
        meant = (max(0.0, *compared) + _WORDS * share) / unrelated(self.model)
        found = max(meant, share / _ENOUGH_WORDS) * FLOOR * self.intent.trust_in(candidate)
        return max(least, min(1.0, found))
