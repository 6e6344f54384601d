"""A search request and its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from hitherto_retrieval.search.corpora.corpus import Item
from hitherto_retrieval.search.ranking.ranking import RankedCandidate, Ranking
from hitherto_retrieval.storage.candidate import Kind
from hitherto_retrieval.storage.filters import Filters
from hitherto_retrieval.storage.moment import Moment
from hitherto_retrieval.storage.passage_filters import PassageFilters
from hitherto_shared.embeddings.protocol import Vector
from hitherto_shared.models import HIDDEN_STATUSES, Entity, Message, Summary


@dataclass(frozen=True, slots=True)
class Question:
    """The parameters of a search.

    Attributes:
        text: The question as asked; empty for a list of the most important items.
        limit: Maximum number of results.
        filters: Which memories count.
        reference_time: The time relative to which "yesterday" is resolved.
        ranking: The ranking formula.
        kinds: The kinds of items to search.
        passages: Which messages, summaries and documents count.
        moment: Another time to search; None for the present.
        vector: The caller's own vector for the text, of unit length.
        weights: Weights that replace the ranking's own.
        min_score: Minimum score of a result.
        min_relevance: Minimum relevance of a result; None for the floor of the installation.
        conversations: Number of past conversations about the question to return beside the results.
        excerpt: Number of messages before and after its sources to return with a result.
        further: Number of further candidates to return after the results.
        for_a_prompt: Whether the results go into a prompt: messages that only repeat the question
            are left out.
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
    min_relevance: float | None = None
    conversations: int = 0
    excerpt: int = 0
    further: int = 0
    for_a_prompt: bool = False

    @property
    def hides_forgotten(self) -> bool:
        """Whether messages and summaries are left out whose memory is forgotten or quarantined.

        Who asks for such memories gets their words too.
        """
        return self.for_a_prompt or HIDDEN_STATUSES.isdisjoint(self.filters.statuses)

    @property
    def empty(self) -> bool:
        """Whether there is no question."""
        return not self.text.strip() and self.vector is None

    def weighs(self, component: str) -> bool:
        """Whether a component of the ranking has weight, so that the search has to run it."""
        if component not in self.ranking.dispensable:
            return True
        return self.weights.get(component, self.ranking.weights[component]) > 0

    @property
    def of_the_present(self) -> bool:
        """Whether it searches present memories and the ranking needs no feature from Postgres."""
        return self.moment is None and "memory" in self.kinds and not self.ranking.needs_text_rank

    @property
    def compares(self) -> bool:
        """Whether vectors are compared."""
        return self.weighs("semantic") or ("memory" in self.kinds and self.weighs("source"))

    @property
    def embedded(self) -> bool:
        """Whether its text is to be embedded."""
        return self.vector is None and self.compares and bool(self.text.strip())


# Not frozen for the same reason as candidates are not.
@dataclass(slots=True)
class Hit:
    """One result with its score.

    Attributes:
        ranked: How it was ranked; None in a list without a question.
        excerpt: The messages around its sources, in the order in which they were said.
        unscored: The components of an item that was not ranked.
        partly_until: Of a message or summary in a prompt: until when something that was learnt from
            it holds, or held, according to a newer memory.
        instead: In a prompt, what holds in place of what has ended, if that is known.
        answers: Of a message in a prompt: the number of the user's last message before it.
    """

    item: Item
    score: float
    ranked: RankedCandidate | None = None
    excerpt: Sequence[Message] = ()
    unscored: Mapping[str, float] = field(default_factory=dict)
    partly_until: datetime | None = None
    instead: str = ""
    answers: int | None = None

    @property
    def breakdown(self) -> Mapping[str, float]:
        """What each component adds to the score, by name."""
        if self.ranked is None:
            return self.unscored
        return self.ranked.breakdown


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """The answer to a question.

    Attributes:
        hits: The results, best first.
        entities: The entities that the question names.
        scored: Number of scored candidates.
        conversations: Past conversations about the question, best first, including those that are
            not results.
        further: The next best candidates after the results; in a prompt also those whose words
            stand in a result.
        nearest: For a prompt whose question nothing answers, the nearest memories, best first.
        said_in: The summaries of the conversations in which messages of a prompt were said.
        terms: The question's words, with their weights among messages.
        broad: Whether the question asks for many things.
        addressed: Whether it asks what the assistant said.
    """

    hits: Sequence[Hit] = ()
    entities: Sequence[Entity] = ()
    scored: int = 0
    conversations: Sequence[Summary] = ()
    further: Sequence[Hit] = ()
    nearest: Sequence[Hit] = ()
    said_in: Sequence[Summary] = ()
    terms: Mapping[str, float] = field(default_factory=dict)
    broad: bool = False
    addressed: bool = False
