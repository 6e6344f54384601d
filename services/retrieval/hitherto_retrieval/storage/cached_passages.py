"""The messages and summaries of one user in this process, and a search's candidates from them.

The candidates are those that `message_candidates`, `summary_candidates`, `most_recent` and
`neighbours` find in the same state of the database. Rows are in the order of their keys by the
database's collation, so that a position here is a position in that order.
"""

from __future__ import annotations

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
from hitherto_retrieval.storage.filters import can_compare, has_all
from hitherto_retrieval.storage.neighbours import EXCHANGE, Facts, MessageFlags
from hitherto_retrieval.storage.passage_filters import PassageFilters
from hitherto_retrieval.storage.passage_search import PassageQuery
from hitherto_shared.models import Message

_BYTES_OF_A_MESSAGE = 4_000
_BYTES_OF_A_SUMMARY = 500
"""Approximate bytes of a summary besides its vector and its text."""
_BYTES_OF_A_BYTE = 8
"""As in `cached_memories`."""

Mask = NDArray[np.bool_]


def can_filter(filters: PassageFilters) -> bool:
    """Whether the snapshot holds the fields that `filters` use for messages and summaries."""
    return filters.stored_by is None and can_compare(filters.metadata)


class _Passages:
    """The common part of messages and summaries: conversation, time, number and vector.

    Args:
        conversations: The conversation of each.
        lexical_nos: Their numbers in the keyword index; 0 for none.
        happened: When each happened, in microseconds.
        vectors: Their vectors.
    """

    def __init__(
        self,
        conversations: Sequence[str],
        lexical_nos: Sequence[int],
        happened: NDArray[np.int64],
        vectors: CachedVectors,
    ) -> None:
        self.lexical_nos = lexical_nos
        self.happened = happened
        self.vectors = vectors
        self._conversations = np.asarray(conversations, dtype=np.object_)
        self._by_number: Mapping[int, int] = {
            number: place for place, number in enumerate(lexical_nos) if number
        }

    def passing(self, filters: PassageFilters) -> Mask:
        """Those that pass the filters."""
        passing = np.ones(len(self.lexical_nos), dtype=bool)
        if filters.all_that_was_said:
            return passing
        if filters.conversation_id is not None:
            passing &= self._conversations == filters.conversation_id
        if filters.created_after is not None:
            passing &= self.happened >= since_epoch(filters.created_after)
        if filters.created_before is not None:
            passing &= self.happened < since_epoch(filters.created_before)
        return passing

    def pool(self, query: PassageQuery, allowed: Mask, numbers: int) -> set[int]:
        """The nearest by vector, and the best by words of the best `numbers` of the index."""
        found: set[int] = set()
        if query.vector is not None:
            found.update(self.vectors.nearest(allowed, query.vector, query.wanted))
        found.update(first_of(query.bm25.best(numbers), self._by_number, allowed, query.wanted))
        return found


class _Learnt(NamedTuple):
    """The memories made of a message: their places, and their numbers in the keyword index."""

    places: Sequence[int]
    lexical_nos: Sequence[int]


class CachedMessages:
    """The messages of a user in one state of the database; immutable.

    Args:
        stamps: What tells each of them from other versions of it, in the order of their keys.
        rows: The messages: key, number in the keyword index, times, and what is told of each; then
            the size of the text.
        vectors: Their vectors.
        caveats: What a prompt must know of some of them.
        memories: The current memories of the same state, some of them learnt from messages.
    """

    def __init__(
        self,
        stamps: Sequence[tuple[str, bytes]],
        rows: Sequence[tuple[Any, ...]],
        vectors: CachedVectors,
        *,
        caveats: MessageFlags,
        memories: CachedMemories,
    ) -> None:
        self.stamps = stamps
        self.rows = rows
        self.vectors = vectors
        self.caveats = caveats
        self._memories = memories
        self._places: Mapping[MessageKey, int] = {
            (row[0], row[1]): place for place, row in enumerate(rows)
        }
        self._passages = _Passages(
            [row[0] for row in rows],
            [row[2] for row in rows],
            microseconds([row[3] for row in rows]),
            vectors,
        )
        self._said = np.asarray([row[6] in ("user", "assistant") for row in rows], dtype=bool)
        self._said_by_then = np.minimum(
            self._passages.happened, microseconds([row[4] for row in rows])
        )
        self._by_user = np.asarray([row[6] == "user" for row in rows], dtype=bool)
        # Made when they are first shown.
        self._shown: dict[MessageKey, Message] = {}
        self._keys: Sequence[MessageKey] = [(row[0], row[1]) for row in rows]
        made_of = memories.made_of()
        self._learnt: Mapping[MessageKey, _Learnt] = {
            (row[0], row[1]): self._learnt_at(made_of[row[0], row[5]])
            for row in rows
            if (row[0], row[5]) in made_of
        }
        # By the message and how far its neighbours may be.
        self._neighbours: dict[tuple[int, int, int], Sequence[int]] = {}

    def answered(self, keys: Iterable[MessageKey]) -> dict[MessageKey, int]:
        """See `neighbours.answered`."""
        found: dict[MessageKey, int] = {}
        for key in keys:
            before = self._places.get(key, 0) - 1
            while before >= 0 and self.rows[before][0] == key[0]:
                number = self.rows[before][1]
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
        text: int = sum(row[12] for row in self.rows)
        return self.vectors.size + _BYTES_OF_A_MESSAGE * len(self.rows) + _BYTES_OF_A_BYTE * text

    def whole(self, keys: Iterable[MessageKey]) -> dict[MessageKey, Message]:
        """Messages by their keys; missing keys are left out."""
        found: dict[MessageKey, Message] = {}
        for key in keys:
            shown = self._shown.get(key)
            if shown is None:
                place = self._places.get(key)
                if place is None:
                    continue
                row = self.rows[place]
                shown = self._shown[key] = Message(
                    *(row[0], row[5], row[6], row[7], row[8], row[3], row[9], row[10], row[11]),
                    memo={},
                )
            found[key] = shown
        return found

    def find(self, query: PassageQuery, filters: PassageFilters) -> list[Candidate]:
        """See `message_candidates.find`."""
        if filters.all_that_was_said:
            # Messages of other roles occupy a place, but are not returned.
            pool = self._passages.pool(query, self._passing(filters), query.wanted)
        else:
            allowed = self._said & self._passing(filters)
            pool = self._passages.pool(query, allowed, len(query.bm25))
        return self._candidates(query, (place for place in pool if self._said[place]))

    def most_recent(
        self, query: PassageQuery, filters: PassageFilters, *, limit: int
    ) -> list[Candidate]:
        """See `most_recent.messages`."""
        these = np.flatnonzero(self._by_user & self._passing(filters))
        order = np.lexsort((-these, -self._said_by_then[these]))
        newest = these[order][:limit].tolist()
        found = self._candidates(query, newest)
        for candidate in found:
            candidate.most_recent = True
        return found

    def _passing(self, filters: PassageFilters) -> Mask:
        """The messages that pass the filters."""
        passing = self._passages.passing(filters)
        if filters.metadata:
            wanted = filters.metadata
            passing &= np.fromiter((has_all(row[11], wanted) for row in self.rows), bool)
        if filters.entity:
            said = self._memories.said_of(filters.entity)
            passing &= np.fromiter(((row[0], row[5]) in said for row in self.rows), bool)
        return passing

    def around(
        self, query: PassageQuery, keys: Sequence[MessageKey], *, turns: int, farthest: int
    ) -> list[Candidate]:
        """See `neighbours.around`."""
        given = {place for key in keys if (place := self._places.get(key)) is not None}
        near = set().union(*(self._near(at, turns, farthest) for at in given))
        return self._candidates(query, near - given)

    def _near(self, at: int, turns: int, farthest: int) -> Sequence[int]:
        """The positions of the messages before and after one, found once."""
        found = self._neighbours.get((at, turns, farthest))
        if found is None:
            found = self._neighbours[at, turns, farthest] = tuple(
                place
                for direction in (-1, 1)
                for place in self._turns_from(at, direction, turns, farthest)
                if self._said[place]
            )
        return found

    def _turns_from(self, at: int, direction: int, turns: int, farthest: int) -> Iterator[int]:
        """The positions of the messages before or after one, as far as they are near."""
        rows, away, place = self.rows, 0, at + direction
        before = rows[at]
        conversation, number = self._keys[at]
        while 0 <= place < len(rows) and rows[place][0] == conversation:
            row = rows[place]
            if abs(row[1] - number) > farthest:
                return
            apart = abs(row[1] - before[1])
            if apart != 1 or row[6] != before[6] or row[7] != before[7] or not self._said[place]:
                away += apart
                if away > turns:
                    return
            yield place
            place, before = place + direction, row

    def facts_about(
        self, query: PassageQuery, keys: Iterable[MessageKey], *, at: datetime
    ) -> dict[MessageKey, Facts]:
        """See `neighbours.facts_about`; by the database's clock `at`."""
        memories, learnt = self._memories, self._learnt
        found = [(key, each) for key in keys if (each := learnt.get(key)) is not None]
        if memories.some_expired(at):
            current = ((key, memories.unexpired(each.places, at)) for key, each in found)
            found = [(key, self._learnt_at(places)) for key, places in current if places]
        cosines = memories.cosines([n for _, each in found for n in each.places], query.vector)
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

    def _learnt_at(self, places: Sequence[int]) -> _Learnt:
        return _Learnt(places, [self._memories.lexical_no(place) for place in places])

    def _candidates(self, query: PassageQuery, found: Iterable[int]) -> list[Candidate]:
        places, keys = sorted(found), self._keys
        rows = [self.rows[place] for place in places]
        cosines = self.vectors.cosines(places, query.vector)
        scores = query.bm25.of_each([row[2] for row in rows])
        return [
            Candidate(
                *("message", keys[place], min(row[3], row[4]), row[4], row[0], score, cosine),
                *(row[7], row[6]),
            )
            for place, row, cosine, score in zip(places, rows, cosines, scores, strict=True)
        ]


class CachedSummaries:
    """The summaries of a user in one state of the database, as a search compares them.

    Args:
        rows: Their keys, numbers in the keyword index, and times, in the order of their keys; then
            what tells the vector of each from earlier ones.
        vectors: Their vectors.
        memories: The current memories of the same state.
    """

    def __init__(
        self, rows: Sequence[tuple[Any, ...]], vectors: CachedVectors, memories: CachedMemories
    ) -> None:
        self.rows = rows
        self.vectors = vectors
        self._memories = memories
        self._passages = _Passages(
            [row[0] for row in rows],
            [row[1] for row in rows],
            microseconds([row[2] for row in rows]),
            vectors,
        )

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        return self.vectors.size + _BYTES_OF_A_SUMMARY * len(self.rows)

    def find(self, query: PassageQuery, filters: PassageFilters) -> list[Candidate]:
        """See `summary_candidates.find`."""
        numbers = query.wanted if filters.all_that_was_said else len(query.bm25)
        passing = self._passing(filters)
        return self._candidates(query, sorted(self._passages.pool(query, passing, numbers)))

    def most_recent(
        self, query: PassageQuery, filters: PassageFilters, *, limit: int
    ) -> list[Candidate]:
        """See `most_recent.summaries`."""
        these = np.flatnonzero(self._passing(filters))
        order = np.lexsort((-these, -self._passages.happened[these]))
        found = self._candidates(query, these[order][:limit].tolist())
        for candidate in found:
            candidate.most_recent = True
        return found

    def _passing(self, filters: PassageFilters) -> Mask:
        """The summaries that pass the filters."""
        passing = self._passages.passing(filters)
        if filters.metadata:
            # A summary has none.
            passing &= False
        if filters.entity:
            said_in = {source[0] for source in self._memories.said_of(filters.entity)}
            passing &= np.fromiter((row[0] in said_in for row in self.rows), bool)
        return passing

    def _candidates(self, query: PassageQuery, places: Sequence[int]) -> list[Candidate]:
        cosines = self.vectors.cosines(places, query.vector)
        scores = query.bm25.of_each([self.rows[place][1] for place in places])
        return [
            Candidate("summary", row[0], row[2], row[3], row[0], score, cosine)
            for row, cosine, score in zip(
                (self.rows[place] for place in places), cosines, scores, strict=True
            )
        ]
