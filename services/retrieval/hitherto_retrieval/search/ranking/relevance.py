"""How relevant an item is to a question: one scale for all kinds, rankings and embedders.

    match     = (cosine + 0.5 source + b/(b + 8)) / 1.5
    relevance = max((match - bulk) / (1 - bulk) / 0.72, words / 1.2)

`bulk` is what most of the user's own texts have in common with the question: the cosine that three
in four of the candidates exceed. It calibrates the floor for any model and language. Of a language
that a model does not know, all texts are near each other, and a match has to rise as far above them
as in one that it knows. An item that rises by a third of the way to 1 has 0.5, which is the floor,
and nothing has more than 1. What was said around an item, or elsewhere in its conversation, does
not count. Measured on what forty people in eight languages ask about and never told
(benchmarks/README.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hitherto_retrieval.search.ranking.ranking import QueryIntent, RankedCandidate
from hitherto_retrieval.storage.candidate import Candidate, Kind

FLOOR = 0.5
"""The relevance from which an item answers a question."""
BESIDE = FLOOR / 2
"""The relevance from which an item counts beside one that answers, or answers a question for many
things, of which each is a little. That something answers is surer than which of the texts near it
does."""
_NEARBY = FLOOR / 5
"""The same of an item in the conversation of one that answers."""
_ENOUGH = 0.36
"""How far a text that answers a question rises above the others, of the way to 1."""
_ENOUGH_WORDS = 0.6
"""A text with this share of the question's words, by their weight, answers it whatever the vectors
say."""
_SOURCE, _BM25_HALF, _SCALE = 0.5, 8.0, 1.5
"""A match counts cosines and words as the ranking `balanced` does."""
_TELLS = 0.1
"""The BM25 from which the words of a text tell it from others: nine in ten texts have a word of
less weight ("user"). If a question has no other words, the share of them counts."""
_ALIKE = 0.3
"""The cosine from which vectors of spelling count as a word."""
_MANY = 20
"""Fewer candidates tell nothing about the bulk."""
_BELOW = 4
"""One in so many candidates is below the bulk."""
_MOST_BULK = 0.9
"""Where all vectors are alike, they separate nothing, and words alone decide."""
_USUAL: Mapping[str, float] = {"text-embedding-ada": 0.7}
_OF_OTHERS = 0.05
"""The bulk among few candidates, by model: of most it keeps nothing back that answers."""


@dataclass(frozen=True, slots=True)
class Relevance:
    """Tells the relevance of candidates for one question.

    Attributes:
        model: The model that compared the vectors; empty if there are none.
        whole: By kind, the BM25 of a text of average length that has every word of the question.
    """

    intent: QueryIntent
    model: str
    whole: Mapping[Kind, float]

    def enough(
        self, ranked: Sequence[RankedCandidate], least: float | None
    ) -> Sequence[RankedCandidate]:
        """Those of `least` relevance; None: what counts if something is above the floor."""
        if least is not None and least <= 0:
            return ranked
        values = self._values(ranked)
        if least is not None:
            return [item for item, value in zip(ranked, values, strict=True) if value >= least]
        if max(values, default=0.0) < (BESIDE if self.intent.broad else FLOOR):
            return []
        answering = {
            item.candidate.conversation_id
            for item, value in zip(ranked, values, strict=True)
            if value >= FLOOR
        }
        answering.discard(None)
        return [
            item
            for item, value in zip(ranked, values, strict=True)
            if value >= BESIDE or (value >= _NEARBY and item.candidate.conversation_id in answering)
        ]

    def _bulk(self, candidates: Sequence[Candidate]) -> float:
        """The cosine that most candidates exceed."""
        cosines = sorted([each.cosine for each in candidates if each.cosine is not None])
        if len(cosines) < _MANY:
            usual = (bulk for name, bulk in _USUAL.items() if self.model.startswith(name))
            return next(usual, _OF_OTHERS)
        return min(_MOST_BULK, max(0.0, cosines[len(cosines) // _BELOW]))

    def _values(self, ranked: Sequence[RankedCandidate]) -> list[float]:
        """The relevance of each candidate, in 0..1."""
        intent, of_facts = self.intent, self.whole.get("memory", 0.0)
        bulk = self._bulk([item.candidate for item in ranked])
        above = (1.0 - bulk) * _ENOUGH
        by_meaning = bool(self.model) and not intent.by_spelling
        sources = intent.source_types
        found = []
        for item in ranked:
            # Written out, because this runs for every candidate of every search.
            candidate = item.candidate
            own, of_source = candidate.cosine, candidate.source_cosine
            of_fact, words, fact_bm25 = candidate.fact_cosine, candidate.bm25, candidate.fact_bm25
            whole = self.whole.get(candidate.kind)
            # The share of the question's words that it has, by their weight.
            share = words / whole if whole else 0.0
            if fact_bm25:
                if of_facts and fact_bm25 / of_facts > share:
                    share = fact_bm25 / of_facts
                words = max(words, fact_bm25)
            share = share if share < 1.0 else 1.0
            if by_meaning and not (own is None and of_source is None and of_fact is None):
                cosine = own if own is not None and own > 0.0 else 0.0
                if of_fact is not None and of_fact > cosine:
                    cosine = of_fact
                source = of_source if of_source is not None and of_source > 0.0 else 0.0
                match = (cosine + _SOURCE * source + words / (words + _BM25_HALF)) / _SCALE
                if candidate.role == "assistant":
                    trust = intent.trust_in(candidate)
                    match, share = match * trust, share * trust
                risen, by_words = (match - bulk) / above, share / _ENOUGH_WORDS
                value = (risen if risen > by_words else by_words) * FLOOR
                value = value if value < 1.0 else 1.0
            else:
                # Without meaning, words cannot tell how much is enough: any that tells is.
                alike = max(own or 0.0, of_source or 0.0, of_fact or 0.0) >= _ALIKE
                tells = share >= _TELLS or words >= _TELLS
                value = FLOOR + (1 - FLOOR) * share if tells or alike else 0.0
            if value < FLOOR and (
                candidate.entities
                or item.timely
                or candidate.most_recent
                or candidate.source_type in sources
            ):
                value = FLOOR
            found.append(value)
        return found
