"""Searches memories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast
from uuid import UUID

from hitherto_retrieval.search.corpora.corpus import CandidateQuery
from hitherto_retrieval.search.reads import UserReads
from hitherto_retrieval.storage import memory_candidates
from hitherto_retrieval.storage.candidate import Candidate, Kind
from hitherto_retrieval.storage.filters import Filters
from hitherto_retrieval.storage.memory_candidates import QuickResult
from hitherto_retrieval.storage.statement import Statement
from hitherto_shared.text.bm25 import Scores


class MemoryCorpus:
    """Current memories, or those that pass filters.

    Without filters, the legs read vectors and postings without joining the memories. If some of
    those memories are no longer current and displaced others, every memory is compared.

    Args:
        filters: Which memories count.
        count: Approximate number of the user's memories.
        reads: Finds them.
    """

    kind: Kind = "memory"

    def __init__(self, filters: Filters, count: int, reads: UserReads) -> None:
        self._filters = filters
        self._reads = reads
        self._count = count
        self._quick: Statement[QuickResult] | None = None
        self._exact: Statement[list[Candidate]] | None = None
        self._ranks: Statement[dict[UUID, float]] | None = None

    def first(self, looking: CandidateQuery, bm25: Scores) -> Sequence[Statement[Any]]:
        """See `Corpus.first`."""
        # An interrupted read starts again, possibly on another database.
        self._quick = self._exact = self._ranks = None
        self._looking = looking
        self._sought = sought = looking.of_index(bm25)
        # A ranking that uses ts_rank needs the ranks of the candidates: find them first, then rank.
        quick = self._filters.none and not looking.with_text_rank
        quick = quick and not self._reads.has_memories(self._filters)
        if quick and looking.vector is not None and self._count > looking.wanted:
            self._quick = memory_candidates.among_all(sought, memories=self._count)
            return [self._quick]
        return [self._compare_all()]

    def second(self) -> Sequence[Statement[Any]]:
        """See `Corpus.second`."""
        if self._quick is not None and not self._quick.answer.whole:
            return [self._compare_all()]
        if self._exact is not None and self._looking.with_text_rank:
            self._ranks = ranks_of(self._exact.answer, self._looking)
            return [self._ranks]
        return ()

    def candidates(self) -> list[Candidate]:
        """See `Corpus.candidates`."""
        if self._exact is not None:
            return with_ranks(self._exact.answer, self._ranks)
        assert self._quick is not None
        return self._quick.answer.candidates

    def _compare_all(self) -> Statement[list[Candidate]]:
        self._exact = self._reads.memories(self._sought, self._filters)
        return self._exact


def ranks_of(found: Sequence[Candidate], looking: CandidateQuery) -> Statement[dict[UUID, float]]:
    """The ts_rank of the candidates."""
    keys = [cast(UUID, candidate.key) for candidate in found]
    return memory_candidates.text_ranks(looking.scope, looking.text, keys)


def with_ranks(
    found: list[Candidate], ranks: Statement[dict[UUID, float]] | None
) -> list[Candidate]:
    """Candidates with their ts_rank, if it was requested."""
    if ranks is None:
        return found
    of = ranks.answer
    return [
        replace(candidate, text_rank=of.get(cast(UUID, candidate.key), 0.0)) for candidate in found
    ]
