"""What the items of a user are compared with, and which features are wanted of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
from pgvector import HalfVector

from hitherto_shared.database.arrays import Uuids
from hitherto_shared.embeddings.protocol import Vector
from hitherto_shared.models import Scope
from hitherto_shared.text.bm25 import NO_SCORES, Scores


@dataclass(frozen=True, slots=True)
class ItemQuery:
    """A question to the items of one kind.

    Attributes:
        bm25: Score of every item that contains a word of the question, by its number in the index
            of its kind.
        vector: The question as a unit vector of `model`; None searches by words only, and every
            cosine is None.
        model: Name of the active model.
        wanted: Maximum number of candidates of each leg.
        entity_ids: Entities that the question names.
        since: With `until`, the period that it names.
        until: See `since`; exclusive.
        newest: How many of the newest items of a kind, or of a source, it asks for.
        with_source: Whether to compare the words that memories came from.
        text_query: The text of the question, for a ranking that needs `Candidate.text_rank` and
            `Candidate.words`; else None.
    """

    scope: Scope
    bm25: Scores = field(default_factory=lambda: NO_SCORES)
    vector: Vector | None = None
    model: str = ""
    wanted: int = 0
    entity_ids: Sequence[UUID] = ()
    since: datetime | None = None
    until: datetime | None = None
    newest: int = 0
    with_source: bool = True
    text_query: str | None = None

    def parameters(self) -> dict[str, Any]:
        """The query as statement parameters, without the scores."""
        return {
            **self.scope.parameters,
            "vector": None if self.vector is None else HalfVector(np.asarray(self.vector)),
            "model": self.model,
            "wanted": self.wanted,
            "entity_ids": Uuids(self.entity_ids),
            "since": self.since,
            "until": self.until,
            "newest": self.newest,
            "with_source": self.with_source,
            "with_words": self.text_query is not None,
            "text_query": self.text_query,
        }
