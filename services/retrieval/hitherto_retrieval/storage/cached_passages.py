"""The messages and summaries of one user in this process, and a search's candidates from them.

The candidates are those that `message_candidates`, `summary_candidates`, `most_recent` and
`neighbours` find in the same state of the database. Rows are in the order of their keys by the
database's collation, so that a position here is a position in that order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hitherto_retrieval.repetition import bytes_of_pairs
from hitherto_retrieval.storage.cached_memories import CachedMemories, first_of
from hitherto_retrieval.storage.cached_vectors import (
    CachedVectors,
    microseconds,
    since_epoch,
)
from hitherto_retrieval.storage.candidate import Candidate, Key, Kind, MessageKey
from hitherto_retrieval.storage.item_query import ItemQuery
from hitherto_retrieval.storage.neighbours import EXCHANGE, Facts, MessageFlags
from hitherto_retrieval.storage.passage_filters import PassageFilters
from hitherto_shared.models import Message

_BYTES_OF_A_MESSAGE = 4_000
_BYTES_OF_A_BYTE = 8
"""What a byte of text may take, as in `cached_memories`, and in the look-up tables."""

Mask = NDArray[np.bool_]


def can_filter(filters: PassageFilters) -> bool:
    """Whether `filters` are of times alone, which is all that a question sets."""
    return not (filters.conversation_id or filters.stored_by or filters.entity or filters.metadata)


class PassageRow(NamedTuple):
    """A message or summary, as a search compares it.

    Attributes:
        features: The first ones of its `Candidate`, up to the conversation.
        lexical_no: Its number in the keyword index; 0 for none.
        happened_at: When it happened, for filters.
        author: Name and role of a message's speaker.
    """

    features: tuple[Kind, Key, datetime, datetime, str]
    lexical_no: int
    happened_at: datetime
    author: tuple[str, str] = ("", "")


class CachedPassages:
    """The messages or summaries of a user in one state of the database; immutable.

    Args:
        rows: One for each, in the order of their keys, which begin with the conversation.
        vectors: Their vectors.
        bytes_of_each: Approximate bytes of one, besides its vector.

    Attributes:
        size: Approximate size in bytes.
    """

    def __init__(
        self, rows: Sequence[PassageRow], vectors: CachedVectors, bytes_of_each: int
    ) -> None:
        self._rows = rows
        self._vectors = vectors
        self.size = vectors.size + bytes_of_each * len(rows)
        self._happened = microseconds([row.happened_at for row in rows])
        self._newness = microseconds([row.features[2] for row in rows])
        self._by_number: Mapping[int, int] = {
            row.lexical_no: place for place, row in enumerate(rows) if row.lexical_no
        }
        # Which of them are found, and which are found as the most recent.
        self._found = self._told = np.ones(len(rows), dtype=bool)

    def __len__(self) -> int:
        return len(self._rows)

    def find(self, query: ItemQuery, filters: PassageFilters) -> list[Candidate]:
        """See `PassageSearch.find`."""
        allowed, numbers = self._passing(filters), query.wanted
        # What is not found occupies a place, as long as there are no filters.
        if not filters.all_that_was_said:
            allowed, numbers = allowed & self._found, len(query.bm25)
        pool: set[int] = set()
        if query.vector is not None:
            pool.update(self._vectors.nearest(allowed, query.vector, query.wanted))
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
        passing = np.ones(len(self), dtype=bool)
        if filters.created_after is not None:
            passing &= self._happened >= since_epoch(filters.created_after)
        if filters.created_before is not None:
            passing &= self._happened < since_epoch(filters.created_before)
        return passing

    def _candidates(self, query: ItemQuery, places: Sequence[int]) -> list[Candidate]:
        """The passages at some places."""
        rows = [self._rows[place] for place in places]
        cosines = self._vectors.cosines(places, query.vector)
        scores = query.bm25.of_each([row.lexical_no for row in rows])
        return [
            Candidate(*features, score, cosine, *author)
            for (features, _, _, author), score, cosine in zip(rows, scores, cosines, strict=True)
        ]


class _Learnt(NamedTuple):
    """The memories made of a message: their places, and their numbers in the keyword index."""

    places: Sequence[int]
    lexical_nos: Sequence[int]


class CachedMessages(CachedPassages):
    """The messages of a user in one state of the database; immutable.

    Args:
        messages: The messages, with the numbers of each in its conversation and in the keyword
            index, and when it was stored, in the order of their keys.
        text: The bytes of all their texts.
        vectors: Their vectors.
        caveats: What a prompt must know of some of them.
        memories: The current memories of the same state, some of them learnt from messages.

    Attributes:
        answered: See `neighbours.answered`.
    """

    def __init__(
        self,
        messages: Sequence[tuple[Message, int, int, datetime]],
        text: int,
        vectors: CachedVectors,
        *,
        caveats: MessageFlags,
        memories: CachedMemories,
    ) -> None:
        self._messages = [message for message, *_ in messages]
        self._keys: Sequence[MessageKey] = [
            (message.conversation_id, number) for message, number, _, _ in messages
        ]
        rows = [
            PassageRow(
                ("message", key, min(each.said_at, stored_at), stored_at, each.conversation_id),
                lexical_no,
                each.said_at,
                (each.name, each.role),
            )
            for key, (each, _, lexical_no, stored_at) in zip(self._keys, messages, strict=True)
        ]
        super().__init__(rows, vectors, _BYTES_OF_A_MESSAGE)
        self.size += _BYTES_OF_A_BYTE * text
        self.size += sum(bytes_of_pairs(message.content) for message in self._messages)
        self.caveats = caveats
        self._memories = memories
        self._places = {key: place for place, key in enumerate(self._keys)}
        roles = [message.role for message in self._messages]
        self._found = np.asarray([role in ("user", "assistant") for role in roles], dtype=bool)
        self._told = np.asarray([role == "user" for role in roles], dtype=bool)
        made_of = memories.made_of()
        said = (made_of.get((each.conversation_id, each.message_id)) for each in self._messages)
        self._learnt: Mapping[MessageKey, _Learnt] = {
            key: _Learnt(places, [memories.lexical_no(place) for place in places])
            for key, places in zip(self._keys, said, strict=True)
            if places is not None
        }
        self.answered = self._answered()
        # By the message and how far its neighbours may be.
        self._neighbours: dict[tuple[int, int, int], Sequence[int]] = {}

    def _answered(self) -> dict[MessageKey, int]:
        """As `neighbours.answered` finds it of each message."""
        found: dict[MessageKey, int] = {}
        said_in, asked = "", -EXCHANGE
        for key, by_user in zip(self._keys, self._told.tolist(), strict=True):
            conversation, number = key
            if conversation != said_in:
                said_in, asked = conversation, -EXCHANGE
            if asked > 0 and number - asked <= EXCHANGE:
                found[key] = asked
            if by_user:
                asked = number
        return found

    def whole(self, keys: Iterable[MessageKey]) -> dict[MessageKey, Message]:
        """Messages by their keys; missing keys are left out."""
        return {
            key: self._messages[place]
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
        keys, away, place = self._keys, 0, at + direction
        conversation, first = keys[at]
        before = at
        while 0 <= place < len(keys) and keys[place][0] == conversation:
            number = keys[place][1]
            if abs(number - first) > farthest:
                return
            apart = abs(number - keys[before][1])
            if (
                apart != 1
                or self._rows[place].author != self._rows[before].author
                or not self._found[place]
            ):
                away += apart
                if away > turns:
                    return
            yield place
            place, before = place + direction, place

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
