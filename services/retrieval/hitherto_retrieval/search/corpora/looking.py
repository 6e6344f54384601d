"""What a search looks for, and what every kind of thing that is searched offers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from hitherto_retrieval.search.ranking.light import Light
from hitherto_retrieval.storage.candidate import Candidate, Kind
from hitherto_retrieval.storage.chunks import Chunk
from hitherto_retrieval.storage.statement import Statement
from hitherto_shared.embeddings.protocol import Vector
from hitherto_shared.models import Memory, Message, Scope, Summary
from hitherto_shared.text.bm25 import NO_SCORES, Scores

Item = Memory | Message | Summary | Chunk
"""What a search finds."""


@dataclass(frozen=True, slots=True)
class Looking:
    """What is sought.

    Attributes:
        scope: Whose.
        text: The question in its own words.
        vector: The question as a unit vector of `model`, or None.
        model: Name of the model in force.
        entity_ids: Entities that the question names.
        light: The question as rankings see it.
        wanted: How many each leg of a kind brings in, at most.
        newest: How many of the newest of a kind, or of a source, it asks for; 0 if it does not.
        learnt: Scores of the user's memories, whose words count for the messages they came from.
        with_source: Whether the ranking weighs `Candidate.source_cosine`.
        with_text_rank: Whether the ranking needs `Candidate.text_rank` and `Candidate.words`.
    """

    scope: Scope
    text: str
    vector: Vector | None
    model: str
    entity_ids: Sequence[UUID]
    light: Light
    wanted: int
    newest: int = 0
    learnt: Scores = field(default_factory=lambda: NO_SCORES)
    with_source: bool = True
    with_text_rank: bool = False


class Corpus(Protocol):
    """One kind of thing in one search.

    `first` is asked, then `second`, which may build on its answers and may be empty; then there are
    `candidates`.
    """

    @property
    def kind(self) -> Kind:
        """What it holds."""
        ...

    def first(self, looking: Looking, bm25: Scores) -> Sequence[Statement[Any]]:
        """Statements that look for candidates; `bm25` are the scores in this corpus' index."""
        ...

    def second(self) -> Sequence[Statement[Any]]:
        """What is to be asked once `first` has its answers."""
        ...

    def candidates(self) -> list[Candidate]:
        """What was found, each with all features."""
        ...
