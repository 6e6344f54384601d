"""Searches memories in a snapshot, without any statement."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from hitherto_retrieval.search.corpora.corpus import CandidateQuery
from hitherto_retrieval.search.corpora.memories import sought_of
from hitherto_retrieval.storage.candidate import Candidate, Kind
from hitherto_retrieval.storage.filters import Filters
from hitherto_retrieval.storage.held_memories import HeldMemories
from hitherto_retrieval.storage.statement import Statement
from hitherto_shared.text.bm25 import Scores


class MemoriesAtHand:
    """Current memories from a snapshot, or those that pass filters, as in `MemoryCorpus`.

    Args:
        held: The memories.
        filters: Which memories count; `HeldMemories.can_filter` has confirmed that it supports
            them.
        at: The database's clock, by which memories expire.
    """

    kind: Kind = "memory"

    def __init__(self, held: HeldMemories, filters: Filters, at: datetime) -> None:
        self._held = held
        self._filters = filters
        self._at = at
        self._found: list[Candidate] = []

    def first(self, looking: CandidateQuery, bm25: Scores) -> Sequence[Statement[Any]]:
        """See `Corpus.first`."""
        self._found = self._held.candidates(sought_of(looking, bm25), self._filters, self._at)
        return ()

    def second(self) -> Sequence[Statement[Any]]:
        """See `Corpus.second`."""
        return ()

    def candidates(self) -> list[Candidate]:
        """See `Corpus.candidates`."""
        return self._found
