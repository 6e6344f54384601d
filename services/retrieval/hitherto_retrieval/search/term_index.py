"""Keyword scores of texts that the index does not hold: earlier wordings, and sealed items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hitherto_shared.text.bm25 import Statistics, TermPostings, score
from hitherto_shared.text.terms import count_terms, occurrences

# Above every number that the index assigns.
_FIRST = 1 << 40
"""The first number of texts that are scored beside those of the index."""


@dataclass(frozen=True, slots=True)
class TermIndex:
    """The index entries of a question's terms, to score other texts on the same scale.

    A word that is rare among the texts of the index weighs much in the others too.
    """

    terms: Sequence[str]
    postings: Sequence[TermPostings]
    statistics: Statistics

    def scores_of(self, texts: Sequence[str], *, more: bool) -> list[float]:
        """The scores of texts beside those of the index.

        `more`: whether they are more texts than it counts, instead of other wordings of these.
        """
        if not self.terms or not texts:
            return [0.0] * len(texts)
        counted = {_FIRST + place: count_terms(text) for place, text in enumerate(texts)}
        documents, terms = self.statistics.documents, self.statistics.terms
        if more:
            documents += len(texts)
            terms += sum(counts.total() for counts in counted.values())
        scores = score([*self.postings, *self._postings_of(counted)], documents, terms)
        return scores.of_each(list(counted))

    def _postings_of(self, counted: Mapping[int, Counter[str]]) -> list[TermPostings]:
        """The entries that an index of the texts would have, by text number."""
        lengths = {number: counts.total() for number, counts in counted.items()}
        found = []
        for term in self.terms:
            having = {
                number: times
                for number, counts in counted.items()
                if (times := occurrences(counts, term))
            }
            found.append(
                TermPostings(
                    term, list(having), list(having.values()), [lengths[n] for n in having]
                )
            )
        return found
