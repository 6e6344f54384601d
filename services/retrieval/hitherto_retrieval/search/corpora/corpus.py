"""The input of a search, and the interface of every corpus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from hitherto_retrieval.search.ranking.ranking import QueryIntent
from hitherto_retrieval.storage.candidate import Candidate, Kind
from hitherto_retrieval.storage.chunks import Chunk
from hitherto_retrieval.storage.item_query import ItemQuery
from hitherto_retrieval.storage.statement import Statement
from hitherto_shared.embeddings.protocol import Vector
from hitherto_shared.models import Memory, Message, Scope, Summary
from hitherto_shared.text.bm25 import NO_SCORES, Scores

Item = Memory | Message | Summary | Chunk
"""An item that a search can return."""


@dataclass(frozen=True, slots=True)
class CandidateQuery:
    """The input of a search.

    Attributes:
        scope: The user.
        text: The question as asked.
        vector: The question as a unit vector of `model`, or None.
        model: Name of the active model.
        entity_ids: Entities that the question names.
        intent: The question as rankings see it.
        wanted: Maximum number of candidates of each leg of a corpus.
        newest: How many of the newest items of a kind, or of a source, it asks for; 0 if none.
        learnt: Scores of the user's memories, whose words count for the messages they came from.
        with_source: Whether the ranking uses `Candidate.source_cosine`.
        with_text_rank: Whether the ranking needs `Candidate.text_rank` and `Candidate.words`.
    """

    scope: Scope
    text: str
    vector: Vector | None
    model: str
    entity_ids: Sequence[UUID]
    intent: QueryIntent
    wanted: int
    newest: int = 0
    learnt: Scores = field(default_factory=lambda: NO_SCORES)
    with_source: bool = True
    with_text_rank: bool = False

    def of_index(self, bm25: Scores) -> ItemQuery:
        """What the items of a kind are compared with; `bm25` are the scores in their index."""
        window = self.intent.window
        return ItemQuery(
            self.scope,
            bm25,
            self.vector,
            self.model,
            self.wanted,
            self.entity_ids,
            since=window.start if window else None,
            until=window.end if window else None,
            newest=self.newest,
            with_source=self.with_source,
            with_words=self.with_text_rank,
            text_query=self.text if self.with_text_rank else None,
        )


class Corpus(Protocol):
    """One kind of item in one search.

    Run the statements of `first`, then those of `second`, which may use the answers of the first
    and may be empty; then read `candidates`.
    """

    @property
    def kind(self) -> Kind:
        """The kind of its items."""
        ...

    def first(self, looking: CandidateQuery, bm25: Scores) -> Sequence[Statement[Any]]:
        """Statements that find candidates; `bm25` are the scores in the index of this corpus."""
        ...

    def second(self) -> Sequence[Statement[Any]]:
        """Statements that depend on the answers of `first`."""
        ...

    def candidates(self) -> list[Candidate]:
        """The candidates, each with all features."""
        ...
