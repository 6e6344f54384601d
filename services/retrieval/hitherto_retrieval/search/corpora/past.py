"""Searches memories as they were at another time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from hitherto_retrieval.search.corpora.corpus import CandidateQuery
from hitherto_retrieval.search.corpora.memories import ranks_of, with_ranks
from hitherto_retrieval.search.term_index import TermIndex
from hitherto_retrieval.storage import filtered_candidates
from hitherto_retrieval.storage.candidate import Candidate, Kind
from hitherto_retrieval.storage.filtered_candidates import PastCandidate
from hitherto_retrieval.storage.filters import Filters
from hitherto_retrieval.storage.moment import Moment
from hitherto_retrieval.storage.statement import Statement
from hitherto_shared.text.bm25 import Scores


class PastMemoryCorpus:
    """Memories as of a moment, of those that passed filters then."""

    kind: Kind = "memory"

    def __init__(self, filters: Filters, moment: Moment, indexed: TermIndex) -> None:
        self._filters = filters
        self._moment = moment
        self._indexed = indexed
        self._found: Statement[list[PastCandidate]] | None = None
        self._ranks: Statement[dict[UUID, float]] | None = None

    def first(self, looking: CandidateQuery, bm25: Scores) -> Sequence[Statement[Any]]:
        """See `Corpus.first`."""
        self._looking = looking
        self._found = filtered_candidates.find_at(
            looking.of_index(bm25), self._moment, self._filters
        )
        return [self._found]

    def second(self) -> Sequence[Statement[Any]]:
        """See `Corpus.second`."""
        if not self._looking.with_text_rank:
            return ()
        self._ranks = ranks_of(self._scored(), self._looking)
        return [self._ranks]

    def candidates(self) -> list[Candidate]:
        """See `Corpus.candidates`."""
        return with_ranks(self._scored(), self._ranks)

    def _scored(self) -> list[Candidate]:
        assert self._found is not None
        return with_old_words(self._found.answer, self._indexed, wanted=self._looking.wanted)


def with_old_words(
    found: Sequence[PastCandidate], indexed: TermIndex, *, wanted: int
) -> list[Candidate]:
    """The candidates with the keyword scores of their earlier words.

    Args:
        found: The candidates from storage, with their earlier words.
        indexed: The index of present words.
        wanted: Maximum number of candidates found by earlier words alone, the best first; those
            without a word of the question do not count.
    """
    old = {place: item.old_words for place, item in enumerate(found) if item.old_words}
    if not indexed.terms or not old:
        return [item.candidate for item in found if item.chosen]
    earned = dict(zip(old, indexed.scores_of(list(old.values()), more=False), strict=True))
    by_words = [place for place in old if earned[place] > 0 and not found[place].chosen]
    by_words.sort(key=lambda place: -earned[place])
    admitted = set(by_words[:wanted])
    return [
        replace(item.candidate, bm25=earned.get(place, item.candidate.bm25))
        for place, item in enumerate(found)
        if item.chosen or place in admitted
    ]
