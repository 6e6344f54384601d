"""Searches memories as they were at another time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from hitherto_retrieval.search.corpora.corpus import CandidateQuery
from hitherto_retrieval.search.corpora.memories import ranks_of, sought_of, with_ranks
from hitherto_retrieval.search.past import with_old_words
from hitherto_retrieval.storage import past_candidates
from hitherto_retrieval.storage.candidate import Candidate, Kind
from hitherto_retrieval.storage.filters import Filters
from hitherto_retrieval.storage.moment import Moment
from hitherto_retrieval.storage.past_candidates import PastCandidate
from hitherto_retrieval.storage.statement import Statement
from hitherto_shared.text.bm25 import Scores, Statistics, TermPostings


@dataclass(frozen=True, slots=True)
class TermIndex:
    """The index entries of a question's terms, to score earlier wordings on the same scale."""

    terms: Sequence[str]
    postings: Sequence[TermPostings]
    statistics: Statistics


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
        sought = sought_of(looking, bm25)
        self._looking = looking
        self._found = past_candidates.candidates(looking.scope, sought, self._moment, self._filters)
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
        return with_old_words(
            self._found.answer,
            self._indexed.terms,
            self._indexed.postings,
            self._indexed.statistics,
            wanted=self._looking.wanted,
        )
