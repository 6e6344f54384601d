"""A question to the memory, and the answer to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from recollect_retrieval.search.ranking.light import Ranking
from recollect_retrieval.storage.filters import Filters
from recollect_shared.embeddings.protocol import Vector
from recollect_shared.models import Entity, Memory


@dataclass(frozen=True, slots=True)
class Question:
    """What is searched for, and in which light.

    Attributes:
        text: In anybody's words; empty for a list of what counts most.
        limit: How many results.
        filters: Which memories count.
        reference_time: The moment from which "yesterday" is counted.
        ranking: By which formula.
        vector: The caller's own vector for the text, of unit length.
        weights: Weights that replace the ranking's own.
        min_score: What has less is left out.
    """

    text: str
    limit: int
    filters: Filters
    reference_time: datetime
    ranking: Ranking
    vector: Vector | None = None
    weights: Mapping[str, float] = field(default_factory=dict)
    min_score: float | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """One item found, with its score, the parts of it, and the legs that found it."""

    memory: Memory
    score: float
    breakdown: Mapping[str, float]
    legs: Sequence[str]


@dataclass(frozen=True, slots=True)
class Found:
    """The answer to a question; `scored` is how many items were weighed."""

    hits: Sequence[Hit] = ()
    entities: Sequence[Entity] = ()
    scored: int = 0
