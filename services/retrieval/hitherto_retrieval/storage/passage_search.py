"""Finds the passages of one corpus for a question: its statements as data, and one way to ask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hitherto_retrieval.storage.candidate import Candidate
from hitherto_retrieval.storage.item_query import ItemQuery
from hitherto_retrieval.storage.passage_filters import PassageFilters
from hitherto_retrieval.storage.statement import Statement
from hitherto_shared.database.arrays import Integers


@dataclass(frozen=True, slots=True)
class PassageSearch:
    """The search of one corpus.

    Attributes:
        everything: The statement over all passages.
        filtered: The statement over those that pass filters.
        latest: The statement of the newest that pass filters.
        all_pass: Whether filters let every passage of the corpus pass.
        candidates: Converts the rows of both.
        expire: Whether passages expire, so that some of the best by words may be past.
    """

    everything: str
    filtered: str
    latest: str
    all_pass: Callable[[PassageFilters], bool]
    candidates: Callable[..., list[Candidate]]
    expire: bool = False

    def find(
        self, query: ItemQuery, filters: PassageFilters, *, among_all: bool = False
    ) -> Statement[list[Candidate]]:
        """Passages that pass `filters` near a question or with words of it, unordered.

        `among_all` looks for words beyond the best, too many of which have expired.
        """
        bm25 = query.bm25
        everything = self.all_pass(filters)
        ranked = query.wanted if everything and not among_all else len(bm25)
        return Statement(
            self.everything if everything else self.filtered,
            {
                **query.parameters(),
                **({} if everything else filters.parameters()),
                "lexical_nos": Integers(bm25.best(ranked, with_equals=self.expire)),
            },
            lambda rows: self.candidates(rows, bm25),
            planned_anew=not everything,
        )

    def newest(
        self, query: ItemQuery, filters: PassageFilters, *, limit: int
    ) -> Statement[list[Candidate]]:
        """The newest passages that pass `filters`, for a question for the most recent (D5)."""
        return Statement(
            self.latest,
            {**query.parameters(), **filters.parameters(), "limit": limit},
            lambda rows: self.candidates(rows, query.bm25, most_recent=True),
            planned_anew=True,
        )
