"""Searches memories in a snapshot, without any statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from hitherto_retrieval.loading import Snapshot
from hitherto_retrieval.search.corpora.corpus import CandidateQuery, Corpus, Item
from hitherto_retrieval.search.corpora.memories import sought_of
from hitherto_retrieval.search.corpora.passages import FoundCandidates, StoredPassages
from hitherto_retrieval.search.ranking.turns import FARTHEST, TURNS
from hitherto_retrieval.storage.candidate import Candidate, Key, Kind, MessageKey
from hitherto_retrieval.storage.filters import Filters
from hitherto_retrieval.storage.held_passages import can_filter
from hitherto_retrieval.storage.neighbours import Caveats, Facts
from hitherto_retrieval.storage.passage_filters import PassageFilters
from hitherto_retrieval.storage.statement import Answered, Statement
from hitherto_retrieval.storage.uses import Uses
from hitherto_shared.text.bm25 import Scores


class AtHand:
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
    def caveats(self) -> Caveats | None:
        """See `neighbours.caveats`, of all messages; None if the snapshot has no messages."""
        return None if self.messages is None else self.messages.caveats


class MemoriesAtHand:
    """Current memories from a snapshot, or those that pass filters, as in `MemoryCorpus`.

    Args:
        held: The snapshot.
        filters: Which memories count; `HeldMemories.can_answer` has confirmed that it supports
            them.
    """

    kind: Kind = "memory"

    def __init__(self, held: AtHand, filters: Filters) -> None:
        self._held = held
        self._filters = filters
        self._found: list[Candidate] = []

    def first(self, looking: CandidateQuery, bm25: Scores) -> Sequence[Statement[Any]]:
        """See `Corpus.first`."""
        sought = sought_of(looking, bm25)
        self._found = self._held.memories.candidates(sought, self._filters, self._held.at)
        return ()

    def second(self) -> Sequence[Statement[Any]]:
        """See `Corpus.second`."""
        return ()

    def candidates(self) -> list[Candidate]:
        """See `Corpus.candidates`."""
        return self._found


class PassagesAtHand(StoredPassages):
    """Messages and summaries as in `StoredPassages`; the database finds those without a snapshot.

    Args:
        held: The snapshot.
    """

    def __init__(self, held: AtHand) -> None:
        self._held = held

    def messages(
        self, looking: CandidateQuery, filters: PassageFilters, bm25: Scores
    ) -> FoundCandidates:
        """See `StoredPassages`."""
        held = self._held.messages
        if held is None or not can_filter(filters):
            return super().messages(looking, filters, bm25)
        vector, wanted = looking.vector, looking.wanted
        return Answered(held.find(filters, vector=vector, bm25=bm25, wanted=wanted))

    def most_recent(
        self, looking: CandidateQuery, filters: PassageFilters, bm25: Scores
    ) -> FoundCandidates:
        """See `StoredPassages`."""
        held = self._held.messages
        if held is None or not can_filter(filters):
            return super().most_recent(looking, filters, bm25)
        vector, limit = looking.vector, looking.newest
        return Answered(held.most_recent(filters, limit=limit, vector=vector, bm25=bm25))

    def around(
        self, looking: CandidateQuery, keys: Sequence[MessageKey], bm25: Scores
    ) -> FoundCandidates:
        """See `StoredPassages`."""
        held = self._held.messages
        if held is None:
            return super().around(looking, keys, bm25)
        return Answered(
            held.around(keys, turns=TURNS, farthest=FARTHEST, vector=looking.vector, bm25=bm25)
        )

    def facts(
        self, looking: CandidateQuery, keys: Sequence[MessageKey]
    ) -> Statement[dict[MessageKey, Facts]] | Answered[dict[MessageKey, Facts]]:
        """See `StoredPassages`."""
        held = self._held.messages
        if held is None:
            return super().facts(looking, keys)
        return Answered(held.facts_about(keys, vector=looking.vector, at=self._held.at))

    def summaries(
        self, looking: CandidateQuery, filters: PassageFilters, bm25: Scores
    ) -> FoundCandidates:
        """See `StoredPassages`."""
        if not can_filter(filters):
            return super().summaries(looking, filters, bm25)
        held, vector, wanted = self._held.summaries, looking.vector, looking.wanted
        return Answered(held.find(filters, vector=vector, bm25=bm25, wanted=wanted))
