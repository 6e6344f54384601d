"""The messages and summaries of one user in this process, and a search's candidates from them.

The candidates are those that `message_candidates`, `summary_candidates`, `most_recent` and
`neighbours` find in the same state of the database. Rows are in the order of their keys by the
database's collation, so that a position here is a position in that order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hitherto_retrieval.storage.cached_memories import CachedMemories, first_of
from hitherto_retrieval.storage.cached_vectors import (
    CachedVectors,
    microseconds,
    since_epoch,
)
from hitherto_retrieval.storage.candidate import Candidate, MessageKey
from hitherto_retrieval.storage.item_query import ItemQuery
from hitherto_retrieval.storage.neighbours import EXCHANGE, Facts, MessageFlags
from hitherto_retrieval.storage.passage_filters import PassageFilters
from hitherto_shared.models import Message

_BYTES_OF_A_MESSAGE = 4_000
_BYTES_OF_A_SUMMARY = 500
"""Approximate bytes of a summary besides its vector and its text."""
_BYTES_OF_A_BYTE = 8
"""What a byte of text may take, as in `cached_memories`, and in the look-up tables."""

Mask = NDArray[np.bool_]


def can_filter(filters: PassageFilters) -> bool:
    """Whether `filters` are of times alone, which is all that a question sets."""
    return not (filters.conversation_id or filters.stored_by or filters.entity or filters.metadata)


class MessageRow(NamedTuple):
    """A message, and what a search needs of it besides; a `lexical_no` of 0 is none."""

    conversation_id: str
    message_no: int
    lexical_no: int
    accepted_at: datetime
    message: Message
    size: int


class SummaryRow(NamedTuple):
    """What a search needs of a summary; a `lexical_no` of 0 is none."""

    conversation_id: str
    lexical_no: int
    happened_at: datetime
    created_at: datetime


class _CachedPassages(ABC):
    """The common part of messages and summaries, in one state of the database; immutable.

    Args:
        rows: One for each, in the order of their keys, which begin with the conversation.
        happened: When each happened, in microseconds.
        vectors: Their vectors.
    """

    def __init__(
        self, rows: Sequence[Any], happened: NDArray[np.int64], vectors: CachedVectors
    ) -> None:
        self.rows = rows
        self.vectors = vectors
        self._happened = happened
        self._by_number: Mapping[int, int] = {
            row.lexical_no: place for place, row in enumerate(rows) if row.lexical_no
        }
        # Which of them are found, which are found as the most recent, and when they count as said.
        self._found = self._told = np.ones(len(rows), dtype=bool)
        self._newness = happened

    def find(self, query: ItemQuery, filters: PassageFilters) -> list[Candidate]:
        """See `PassageSearch.find`."""
        allowed, numbers = self._passing(filters), query.wanted
        # What is not found occupies a place, as long as there are no filters.
        if not filters.all_that_was_said:
            allowed, numbers = allowed & self._found, len(query.bm25)
        pool: set[int] = set()
        if query.vector is not None:
            pool.update(self.vectors.nearest(allowed, query.vector, query.wanted))
        pool.update(first_of(query.bm25.best(numbers), self._by_number, allowed, query.wanted))
        places = np.fromiter(pool, np.int64, len(pool))
        return self._candidates(query, np.sort(places[self._found[places]]).tolist())

    def most_recent(
        self, query: ItemQuery, filters: PassageFilters, *, limit: int
    ) -> list[Candidate]:
        """See `PassageSearch.newest`."""
        these = np.flatnonzero(self._told & self._passing(filters))
        order = np.lexsort((-these, -self._newness[these]))
        found = self._candidates(query, sorted(these[order][:limit].tolist()))
        for candidate in found:
            candidate.most_recent = True
        return found

    def _passing(self, filters: PassageFilters) -> Mask:
        """Those that pass the filters."""
        passing = np.ones(len(self.rows), dtype=bool)
        if filters.created_after is not None:
            passing &= self._happened >= since_epoch(filters.created_after)
        if filters.created_before is not None:
            passing &= self._happened < since_epoch(filters.created_before)
        return passing

    @abstractmethod
    def _candidates(self, query: ItemQuery, places: Sequence[int]) -> list[Candidate]:
        """The passages at some places."""


class _Learnt(NamedTuple):
    """The memories made of a message: their places, and their numbers in the keyword index."""

    places: Sequence[int]
    lexical_nos: Sequence[int]


class CachedMessages(_CachedPassages):
    """The messages of a user in one state of the database; immutable.

    Args:
        rows: The messages.
        vectors: Their vectors.
        caveats: What a prompt must know of some of them.
        memories: The current memories of the same state, some of them learnt from messages.
    """

    def __init__(
        self,
        rows: Sequence[MessageRow],
        vectors: CachedVectors,
        *,
        caveats: MessageFlags,
        memories: CachedMemories,
    ) -> None:
        happened = microseconds([row.message.said_at for row in rows])
        super().__init__(rows, happened, vectors)
        self.caveats = caveats
        self._memories = memories
        self._places: Mapping[MessageKey, int] = {
            (row.conversation_id, row.message_no): place for place, row in enumerate(rows)
        }
        self._newness = np.minimum(happened, microseconds([row.accepted_at for row in rows]))
        roles = [row.message.role for row in rows]
        self._found = np.asarray([role in ("user", "assistant") for role in roles], dtype=bool)
        self._told = self._by_user = np.asarray([role == "user" for role in roles], dtype=bool)
        self._keys: Sequence[MessageKey] = [(row.conversation_id, row.message_no) for row in rows]
        made_of = memories.made_of()
        said = (made_of.get((row.conversation_id, row.message.message_id)) for row in rows)
        self._learnt: Mapping[MessageKey, _Learnt] = {
            key: _Learnt(places, [memories.lexical_no(place) for place in places])
            for key, places in zip(self._keys, said, strict=True)
            if places is not None
        }
        # By the message and how far its neighbours may be.
        self._neighbours: dict[tuple[int, int, int], Sequence[int]] = {}

    def answered(self, keys: Iterable[MessageKey]) -> dict[MessageKey, int]:
        """See `neighbours.answered`."""
        found: dict[MessageKey, int] = {}
        for key in keys:
            before = self._places.get(key, 0) - 1
            while before >= 0 and self.rows[before].conversation_id == key[0]:
                number = self.rows[before].message_no
                if number < key[1] - EXCHANGE:
                    break
                if self._by_user[before]:
                    found[key] = number
                    break
                before -= 1
        return found

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        text: int = sum(row.size for row in self.rows)
        return self.vectors.size + _BYTES_OF_A_MESSAGE * len(self.rows) + _BYTES_OF_A_BYTE * text

    def whole(self, keys: Iterable[MessageKey]) -> dict[MessageKey, Message]:
        """Messages by their keys; missing keys are left out."""
        return {
            key: self.rows[place].message
            for key in keys
            if (place := self._places.get(key)) is not None
        }

    def around(
        self, query: ItemQuery, keys: Sequence[MessageKey], *, turns: int, farthest: int
    ) -> list[Candidate]:
        """See `neighbours.around`."""
        given = {place for key in keys if (place := self._places.get(key)) is not None}
        near = set().union(*(self._near(at, turns, farthest) for at in given))
        return self._candidates(query, sorted(near - given))

    def _near(self, at: int, turns: int, farthest: int) -> Sequence[int]:
        """The positions of the messages before and after one, found once."""
        found = self._neighbours.get((at, turns, farthest))
        if found is None:
            found = self._neighbours[at, turns, farthest] = tuple(
                place
                for direction in (-1, 1)
                for place in self._turns_from(at, direction, turns, farthest)
                if self._found[place]
            )
        return found

    def _turns_from(self, at: int, direction: int, turns: int, farthest: int) -> Iterator[int]:
        """The positions of the messages before or after one, as far as they are near."""
        rows, away, place = self.rows, 0, at + direction
        before = rows[at]
        conversation, number = self._keys[at]
        while 0 <= place < len(rows) and rows[place].conversation_id == conversation:
            row = rows[place]
            if abs(row.message_no - number) > farthest:
                return
            apart = abs(row.message_no - before.message_no)
            if (
                apart != 1
                or row.message.role != before.message.role
                or row.message.name != before.message.name
                or not self._found[place]
            ):
                away += apart
                if away > turns:
                    return
            yield place
            place, before = place + direction, row

    def facts_about(self, query: ItemQuery, keys: Iterable[MessageKey]) -> dict[MessageKey, Facts]:
        """See `neighbours.facts_about`."""
        learnt = self._learnt
        found = [(key, each) for key in keys if (each := learnt.get(key)) is not None]
        places = [place for _, each in found for place in each.places]
        cosines = self._memories.vectors.cosines(places, query.vector)
        facts: dict[MessageKey, Facts] = {}
        first = 0
        for key, each in found:
            nearest, end = cosines[first], first + len(each.places)
            if end > first + 1:
                known = (near for near in cosines[first:end] if near is not None)
                nearest = max(known, default=None)
            facts[key] = Facts(nearest, each.lexical_nos)
            first = end
        return facts

    def _candidates(self, query: ItemQuery, places: Sequence[int]) -> list[Candidate]:
        keys = self._keys
        rows = [self.rows[place] for place in places]
        cosines = self.vectors.cosines(places, query.vector)
        scores = query.bm25.of_each([row.lexical_no for row in rows])
        return [
            Candidate(
                "message",
                keys[place],
                min(row.message.said_at, row.accepted_at),
                row.accepted_at,
                row.conversation_id,
                score,
                cosine,
                row.message.name,
                row.message.role,
            )
            for place, row, cosine, score in zip(places, rows, cosines, scores, strict=True)
        ]


class CachedSummaries(_CachedPassages):
    """The summaries of a user in one state of the database, as a search compares them.

    Args:
        rows: The summaries, in the order of their keys.
        vectors: Their vectors.
    """

    def __init__(self, rows: Sequence[SummaryRow], vectors: CachedVectors) -> None:
        super().__init__(rows, microseconds([row.happened_at for row in rows]), vectors)

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        return self.vectors.size + _BYTES_OF_A_SUMMARY * len(self.rows)

    def _candidates(self, query: ItemQuery, places: Sequence[int]) -> list[Candidate]:
        cosines = self.vectors.cosines(places, query.vector)
        scores = query.bm25.of_each([self.rows[place].lexical_no for place in places])
        return [
            Candidate(
                "summary",
                row.conversation_id,
                row.happened_at,
                row.created_at,
                row.conversation_id,
                score,
                cosine,
            )
            for row, cosine, score in zip(
                (self.rows[place] for place in places), cosines, scores, strict=True
            )
        ]
