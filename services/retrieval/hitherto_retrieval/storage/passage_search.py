"""Finds the passages of one corpus for a question: its statements as data, and one way to ask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import numpy as np
from pgvector import HalfVector

from hitherto_retrieval.storage.candidate import Candidate
from hitherto_retrieval.storage.passage_filters import PassageFilters
from hitherto_retrieval.storage.statement import Rows, Statement
from hitherto_shared.database.arrays import Integers, Uuids
from hitherto_shared.embeddings.protocol import Vector
from hitherto_shared.models import Scope
from hitherto_shared.text.bm25 import NO_SCORES, Scores


@dataclass(frozen=True, slots=True)
class PassageQuery:
    """What the passages of a user are compared with, and which features are wanted of them.

    Attributes:
        scope: The user.
        bm25: Score of every passage that contains a word of the question, by its number in the
            index of its corpus.
        vector: The question as a unit vector of `model`; None searches by words only, and every
            cosine is None.
        model: Name of the active model.
        wanted: Maximum number of candidates of each leg.
        named: Entities that the question names; documents about them are found as well.
        with_words: Whether to fill `Candidate.words` with the text of a message or summary.
        text_query: The text of the question, if `Candidate.text_rank` of chunks is needed.
    """

    scope: Scope
    bm25: Scores = field(default_factory=lambda: NO_SCORES)
    vector: Vector | None = None
    model: str = ""
    wanted: int = 0
    named: Sequence[UUID] = ()
    with_words: bool = False
    text_query: str | None = None

    def parameters(self) -> dict[str, Any]:
        """The query as statement parameters, without the scores."""
        return {
            **self.scope.parameters,
            "vector": None if self.vector is None else HalfVector(np.asarray(self.vector)),
            "model": self.model,
            "wanted": self.wanted,
            "named": Uuids(self.named),
            "with_words": self.with_words,
            "text_query": self.text_query,
        }


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
        self, query: PassageQuery, filters: PassageFilters, *, among_all: bool = False
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
