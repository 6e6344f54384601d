"""Searches memories, at present or as they were at another time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast
from uuid import UUID

from hitherto_retrieval.search.reads import UserReads
from hitherto_retrieval.search.term_index import TermIndex
from hitherto_retrieval.storage import filtered_candidates, memory_candidates
from hitherto_retrieval.storage.candidate import Candidate, Kind
from hitherto_retrieval.storage.filtered_candidates import PastCandidate
from hitherto_retrieval.storage.filters import Filters
from hitherto_retrieval.storage.item_query import ItemQuery
from hitherto_retrieval.storage.memory_candidates import QuickResult
from hitherto_retrieval.storage.statement import Statement


class MemoryCorpus:
    """Memories that pass filters.

    Without filters, the legs read vectors and postings without joining the memories. If some of
    those memories are no longer current and displaced others, every memory is compared. At another
    time every one is.

    Args:
        filters: Which memories count.
        count: Approximate number of the user's memories.
        reads: Finds them.
        indexed: The index of present words, to score earlier ones; at another time.
    """

    kind: Kind = "memory"

    def __init__(
        self, filters: Filters, count: int, reads: UserReads, indexed: TermIndex | None = None
    ) -> None:
        self._filters = filters
        self._reads = reads
        self._count = count
        self._indexed = indexed
        self._quick: Statement[QuickResult] | None = None
        self._exact: Statement[list[Candidate]] | None = None
        self._ranks: Statement[dict[UUID, float]] | None = None

    def first(self, query: ItemQuery) -> Sequence[Statement[Any]]:
        """See `Corpus.first`."""
        # An interrupted read starts again, possibly on another database.
        self._quick = self._exact = self._ranks = None
        self._query = query
        # A ranking that uses ts_rank needs the ranks of the candidates: find them first, then rank.
        quick = self._filters.none and query.text_query is None and self._reads.moment is None
        quick = quick and not self._reads.has_memories(self._filters)
        if quick and query.vector is not None and self._count > query.wanted:
            self._quick = memory_candidates.among_all(query, memories=self._count)
            return [self._quick]
        return [self._compare_all()]

    def second(self) -> Sequence[Statement[Any]]:
        """See `Corpus.second`."""
        if self._quick is not None and not self._quick.answer.whole:
            return [self._compare_all()]
        query = self._query
        if self._exact is not None and query.text_query is not None:
            keys = [cast(UUID, candidate.key) for candidate in self._exact.answer]
            self._ranks = memory_candidates.text_ranks(query.scope, query.text_query, keys)
            return [self._ranks]
        return ()

    def candidates(self) -> list[Candidate]:
        """See `Corpus.candidates`."""
        if self._exact is None:
            assert self._quick is not None
            return self._quick.answer.candidates
        if self._ranks is None:
            return self._exact.answer
        ranks = self._ranks.answer
        return [
            replace(candidate, text_rank=ranks.get(cast(UUID, candidate.key), 0.0))
            for candidate in self._exact.answer
        ]

    def _compare_all(self) -> Statement[list[Candidate]]:
        query, moment, indexed = self._query, self._reads.moment, self._indexed
        if moment is None or indexed is None:
            self._exact = self._reads.memories(query, self._filters)
        else:
            self._exact = filtered_candidates.find_at(query, moment, self._filters).meaning(
                lambda found: with_old_words(found, indexed, wanted=query.wanted)
            )
        return self._exact


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
