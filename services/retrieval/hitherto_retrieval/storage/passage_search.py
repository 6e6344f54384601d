"""Finds the passages of one corpus for a question: its statements as data, and one way to ask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from hitherto_retrieval.storage.candidate import Candidate
from hitherto_retrieval.storage.passage_filters import PassageFilters, compared
from hitherto_retrieval.storage.statement import Rows, Statement
from hitherto_shared.database.arrays import Integers, Uuids
from hitherto_shared.embeddings.protocol import Vector
from hitherto_shared.models import Scope
from hitherto_shared.text.bm25 import Scores


@dataclass(frozen=True, slots=True)
class PassageSearch:
    """The search of one corpus.

    Attributes:
        everything: The statement over all passages.
        filtered: The statement over those that pass filters.
        all_pass: Whether filters let every passage of the corpus pass.
        candidates: Converts the rows of both.
        expire: Whether passages expire, so that some of the best by words may be past.
    """

    everything: str
    filtered: str
    all_pass: Callable[[PassageFilters], bool]
    candidates: Callable[[Rows, Scores], list[Candidate]]
    expire: bool = False

    def find(
        self,
        scope: Scope,
        filters: PassageFilters,
        *,
        vector: Vector | None,
        model: str,
        bm25: Scores,
        wanted: int,
        with_words: bool = False,
        named: Sequence[UUID] = (),
        text_query: str | None = None,
        among_all: bool = False,
    ) -> Statement[list[Candidate]]:
        """Passages near a question or with words of it, unordered.

        Args:
            scope: The user.
            filters: Which passages count.
            vector: The question as a unit vector of `model`; None searches by words only.
            model: Name of the active model.
            bm25: Score of every passage that contains a word of the question, by its number in the
                index.
            wanted: Maximum number of candidates of each leg.
            with_words: Whether to fill `Candidate.words` with the text of a message or summary.
            named: Entities that the question names; documents about them are found as well.
            text_query: The text of the question, if `Candidate.text_rank` of chunks is needed.
            among_all: Whether to look for words beyond the best, too many of which have expired.
        """
        everything = self.all_pass(filters)
        ranked = wanted if everything and not among_all else len(bm25)
        return Statement(
            self.everything if everything else self.filtered,
            {
                **scope.parameters,
                **compared(vector, model),
                **({} if everything else filters.parameters()),
                "lexical_nos": Integers(bm25.best(ranked, with_equals=self.expire)),
                "wanted": wanted,
                "with_words": with_words,
                "named": Uuids(named),
                "text_query": text_query,
            },
            lambda rows: self.candidates(rows, bm25),
            planned_anew=not everything,
        )
