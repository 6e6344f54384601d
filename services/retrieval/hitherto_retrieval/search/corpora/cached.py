"""Searches a snapshot: memories, messages and summaries, without any statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from hitherto_retrieval.loading import Snapshot
from hitherto_retrieval.search.corpora.corpus import CandidateQuery, Corpus, Item
from hitherto_retrieval.search.corpora.memories import sought_of
from hitherto_retrieval.search.ranking.turns import FARTHEST, TURNS
from hitherto_retrieval.storage import (
    message_candidates,
    most_recent,
    neighbours,
    summary_candidates,
)
from hitherto_retrieval.storage.cached_passages import CachedMessages, can_filter
from hitherto_retrieval.storage.candidate import Candidate, Key, Kind, MessageKey
from hitherto_retrieval.storage.filters import Filters
from hitherto_retrieval.storage.neighbours import Facts, MessageFlags
from hitherto_retrieval.storage.passage_filters import PassageFilters
from hitherto_retrieval.storage.passage_search import PassageQuery
from hitherto_retrieval.storage.statement import Answered, Statement
from hitherto_retrieval.storage.uses import Uses
from hitherto_shared.text.bm25 import Scores

FoundCandidates = Statement[list[Candidate]] | Answered[list[Candidate]]
FoundFacts = Statement[dict[MessageKey, Facts]] | Answered[dict[MessageKey, Facts]]


class CachedUser:
    """The confirmed snapshot of a user, with the usage of the memories from the database.

    Args:
        snapshot: The snapshot.
        uses: The usage of the memories.
        at: The database's clock, by which memories expire.
    """

    def __init__(self, snapshot: Snapshot, uses: Uses, at: datetime) -> None:
        self.memories = snapshot.memories
        self.messages = snapshot.messages
        self.summaries = snapshot.summaries
        self.at = at
        self._surroundings = snapshot.surroundings
        self._uses = uses

    def whole(self, kind: Kind, keys: Sequence[Key]) -> Mapping[Key, Item] | None:
        """Whole items by their keys, without missing ones; None where the database must read them.

        That is so for a kind that the snapshot lacks, and if one of the memories is not current:
        a search may ask for other statuses. A memory comes with its usage.
        """
        found: Mapping[Any, Item] | None = None
        if kind == "memory":
            current = self.memories.whole(cast(Sequence[UUID], keys), self._uses)
            found = current if len(current) == len(set(keys)) else None
        elif kind == "message" and self.messages is not None:
            found = self.messages.whole(cast(Sequence[MessageKey], keys))
        elif kind == "summary":
            found = self._surroundings.summaries(cast(Sequence[str], keys))
        return found

    def answers(self, corpus: Corpus, filters: PassageFilters) -> bool:
        """Whether a corpus needs no statement for the messages and summaries of `filters`."""
        if isinstance(corpus, MemoriesAtHand):
            return True
        if corpus.kind == "message":
            return self.messages is not None and can_filter(filters)
        return corpus.kind == "summary" and can_filter(filters)

    @property
    def caveats(self) -> MessageFlags | None:
        """See `neighbours.caveats`, of all messages; None if the snapshot has no messages."""
        return None if self.messages is None else self.messages.caveats.by(self.at)

    def answered(self, keys: Sequence[MessageKey]) -> Mapping[MessageKey, int] | None:
        """See `neighbours.answered`; None if the snapshot has no messages."""
        return None if self.messages is None else self.messages.answered(keys)


class MemoriesAtHand:
    """Current memories from a snapshot, or those that pass filters, as in `MemoryCorpus`.

    Args:
        cached: The snapshot.
        filters: Which memories count; `HeldMemories.can_answer` has confirmed that it supports
            them.
    """

    kind: Kind = "memory"

    def __init__(self, cached: CachedUser, filters: Filters) -> None:
        self._cached = cached
        self._filters = filters
        self._found: list[Candidate] = []

    def first(self, looking: CandidateQuery, bm25: Scores) -> Sequence[Statement[Any]]:
        """See `Corpus.first`."""
        sought = sought_of(looking, bm25)
        self._found = self._cached.memories.candidates(sought, self._filters, self._cached.at)
        return ()

    def second(self) -> Sequence[Statement[Any]]:
        """See `Corpus.second`."""
        return ()

    def candidates(self) -> list[Candidate]:
        """See `Corpus.candidates`."""
        return self._found


class Passages:
    """Messages and summaries from a snapshot; the database finds those without one.

    Args:
        cached: The snapshot, if there is one.
    """

    def __init__(self, cached: CachedUser | None = None) -> None:
        self._cached = cached

    def messages(self, query: PassageQuery, filters: PassageFilters) -> FoundCandidates:
        """Those near to the question or with words of it."""
        cached = self._cached_messages(filters)
        if cached is None:
            return message_candidates.find(query, filters)
        return Answered(cached.find(query, filters))

    def most_recent(
        self, query: PassageQuery, filters: PassageFilters, *, limit: int
    ) -> FoundCandidates:
        """What the user said last."""
        cached = self._cached_messages(filters)
        if cached is None:
            return most_recent.messages(query, filters, limit=limit)
        return Answered(cached.most_recent(query, filters, limit=limit))

    def around(self, query: PassageQuery, keys: Sequence[MessageKey]) -> FoundCandidates:
        """What was said right before and after messages."""
        cached = self._cached_messages()
        if cached is None:
            return neighbours.around(query, keys, turns=TURNS, farthest=FARTHEST)
        return Answered(cached.around(query, keys, turns=TURNS, farthest=FARTHEST))

    def facts(self, query: PassageQuery, keys: Sequence[MessageKey]) -> FoundFacts:
        """What was learnt from messages."""
        cached = self._cached
        if cached is None or cached.messages is None:
            return neighbours.facts_about(query, keys)
        return Answered(cached.messages.facts_about(query, keys, at=cached.at))

    def summaries(self, query: PassageQuery, filters: PassageFilters) -> FoundCandidates:
        """Summaries near to the question or with words of it."""
        if self._cached is None or not can_filter(filters):
            return summary_candidates.find(query, filters)
        return Answered(self._cached.summaries.find(query, filters))

    def latest_summaries(
        self, query: PassageQuery, filters: PassageFilters, *, limit: int
    ) -> FoundCandidates:
        """Summaries of the latest conversations."""
        if self._cached is None or not can_filter(filters):
            return most_recent.summaries(query, filters, limit=limit)
        return Answered(self._cached.summaries.most_recent(query, filters, limit=limit))

    def _cached_messages(self, filters: PassageFilters | None = None) -> CachedMessages | None:
        """The messages of the snapshot, if it has some and the fields that the filters use."""
        if self._cached is None or not (filters is None or can_filter(filters)):
            return None
        return self._cached.messages
