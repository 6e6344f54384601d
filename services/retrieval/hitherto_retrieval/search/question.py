"""A question to the memory, and the answer to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from hitherto_retrieval.search.corpora.looking import Item
from hitherto_retrieval.search.ranking.light import Ranking
from hitherto_retrieval.storage.candidate import Kind
from hitherto_retrieval.storage.filters import Filters
from hitherto_retrieval.storage.moment import Moment
from hitherto_retrieval.storage.passage_filters import PassageFilters
from hitherto_shared.embeddings.protocol import Vector
from hitherto_shared.models import Entity, Message, Summary


@dataclass(frozen=True, slots=True)
class Question:
    """What is searched for, and in which light.

    Attributes:
        text: In anybody's words; empty for a list of what counts most.
        limit: How many results.
        filters: Which memories count.
        reference_time: The moment from which "yesterday" is counted.
        ranking: By which formula.
        kinds: What is searched.
        passages: Which messages, summaries and documents count.
        moment: Another time that is asked about; None for the present.
        vector: The caller's own vector for the text, of unit length.
        weights: Weights that replace the ranking's own.
        min_score: What has less is left out.
        conversations: How many past conversations about it are wanted beside the results.
        excerpt: How many messages before and after its sources come with a result.
        further: How many of the next best are wanted behind the results.
        for_a_prompt: Whether an assistant is told what is found: messages are left out that only
            repeat the question, and those of which a memory was made that is held back.
    """

    text: str
    limit: int
    filters: Filters
    reference_time: datetime
    ranking: Ranking
    kinds: Sequence[Kind] = ("memory",)
    passages: PassageFilters = field(default_factory=PassageFilters)
    moment: Moment | None = None
    vector: Vector | None = None
    weights: Mapping[str, float] = field(default_factory=dict)
    min_score: float | None = None
    conversations: int = 0
    excerpt: int = 0
    further: int = 0
    for_a_prompt: bool = False

    @property
    def empty(self) -> bool:
        """Whether nothing is asked."""
        return not self.text.strip() and self.vector is None

    def weighs(self, component: str) -> bool:
        """Whether a component of the ranking has weight, so that a search has to look for it."""
        if component not in self.ranking.dispensable:
            return True
        return self.weights.get(component, self.ranking.weights[component]) > 0

    @property
    def of_the_present(self) -> bool:
        """Whether it asks for memories as they are, and the ranking needs nothing of Postgres."""
        return self.moment is None and "memory" in self.kinds and not self.ranking.needs_text_rank

    @property
    def compares(self) -> bool:
        """Whether vectors are compared."""
        return self.weighs("semantic") or ("memory" in self.kinds and self.weighs("source"))

    @property
    def embedded(self) -> bool:
        """Whether its words are to be embedded."""
        return self.vector is None and self.compares and bool(self.text.strip())


# Not frozen for the same reason as candidates are not.
@dataclass(slots=True)
class Hit:
    """One item found, with its score, the parts of it, and the legs that found it.

    `excerpt` is what was said where it came from, in the order it was said.
    """

    item: Item
    score: float
    breakdown: Mapping[str, float]
    legs: Sequence[str]
    excerpt: Sequence[Message] = ()


@dataclass(frozen=True, slots=True)
class SearchResults:
    """The answer to a question.

    Attributes:
        hits: The results, best first.
        further: The next best behind them.
        entities: What the question names.
        scored: How many items were weighed.
        conversations: Past conversations about it, best first, also those that are no results.
    """

    hits: Sequence[Hit] = ()
    entities: Sequence[Entity] = ()
    scored: int = 0
    conversations: Sequence[Summary] = ()
    further: Sequence[Hit] = ()
