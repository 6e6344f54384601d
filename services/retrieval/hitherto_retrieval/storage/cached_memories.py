"""The current memories of one user in this process, and a search's candidates from them.

What is found is what `filtered_candidates.find` finds in the same state of the database, or
`among_all` where that finds less: of many memories.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import cached_property
from operator import attrgetter
from struct import Struct
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from hitherto_retrieval.repetition import bytes_of_pairs
from hitherto_retrieval.storage import memory_candidates
from hitherto_retrieval.storage.cached_vectors import (
    CachedVectors,
    Vectors,
    microseconds,
    since_epoch,
)
from hitherto_retrieval.storage.candidate import Candidate
from hitherto_retrieval.storage.filters import Filters
from hitherto_retrieval.storage.item_query import ItemQuery
from hitherto_retrieval.storage.memory_candidates import candidates_of
from hitherto_retrieval.storage.standing import Standing, standing_of
from hitherto_shared.database.arrays import Uuids
from hitherto_shared.models import Memory

FRESH = timedelta(days=7)
"""As in `memories.top`."""
FRESH_PLACES = 5
"""Places of a list, at most, that the newest memories of the last week take."""
_BYTES_OF_A_MEMORY = 5_500
"""Approximate bytes of a memory besides its vectors: its objects and the look-up tables."""
_BYTES_OF_A_BYTE = 7
"""What a byte of text may take; free JSON becomes many small objects, and what is derived from a
text repeats it."""
_CERTAIN = Filters(doubtful=False)
_USE = Struct(">16sqq")
"""Of `UserReadState.usage`: a memory, how often it was returned, and when last."""
_BYTES_OF_A_KEY = 16
_ORIGIN = datetime(2000, 1, 1, tzinfo=UTC)
"""The origin of Postgres' microseconds."""
_NEVER_USED = (0, None)
_READ_ALONE = 4
"""Of so many memories one is looked up in the time in which all are read."""
_NAMES = [field.name for field in fields(Memory)]
_VALUES = attrgetter(*_NAMES)
_COUNT, _LAST = map(_NAMES.index, ("access_count", "last_accessed_at"))

Mask = NDArray[np.bool_]
_Use = tuple[int, datetime | None]
"""How often a memory was returned, and when last."""


class MemoryRow(NamedTuple):
    """A memory, and what a search needs of it besides.

    Attributes:
        memory: The memory, however often it was used.
        lexical_no: Its number in the keyword index.
        size: The size of its texts in bytes.
        entity_ids: The entities that it mentions.
    """

    memory: Memory
    lexical_no: int
    size: int
    entity_ids: Sequence[UUID]


class CachedMemories:
    """The current memories of a user in one state of the database, expired ones among them.

    Only their usage changes. What is derived from them, such as the last list, is kept as it is
    made.

    Args:
        rows: The memories, in the order of their keys.
        vectors: Their vectors.
        source_vectors: The vectors of the words that they came from.
        documents: Approximate number of the user's memories, as the user's row has it.
        compared: How many vectors the database compares by their signs, outdated ones included.
        at: When they were read, by the database's clock.

    Attributes:
        until: When one of them expires, or one of the newest ceases to be of the last week; None
            if none will.
    """

    def __init__(
        self,
        rows: Sequence[MemoryRow],
        vectors: CachedVectors,
        source_vectors: CachedVectors,
        *,
        documents: int,
        compared: int,
        at: datetime,
    ) -> None:
        self.vectors = vectors
        self.source_vectors = source_vectors
        self._documents = documents
        self._signs = vectors.signs() if documents > memory_candidates.CODES_ABOVE else None
        # A vector of an earlier wording, which is not cached, would be one of those compared.
        self._complete = self._signs is None or compared == int(vectors.has.sum())
        self._memories = [row.memory for row in rows]
        text: int = sum(row.size for row in rows)
        self.size = (
            vectors.size
            + source_vectors.size
            + _BYTES_OF_A_MEMORY * len(rows)
            + _BYTES_OF_A_BYTE * text
            + sum(bytes_of_pairs(memory.content) for memory in self._memories)
        )
        self._places = {memory.memory_id: place for place, memory in enumerate(self._memories)}
        self._keys = [memory.memory_id.bytes for memory in self._memories]
        self._by_number: Mapping[int, int] = {row.lexical_no: n for n, row in enumerate(rows)}
        self._importance = np.asarray([m.importance for m in self._memories], dtype=np.float64)
        self._created = microseconds([memory.created_at for memory in self._memories])
        self._valid = microseconds([memory.valid_from for memory in self._memories])
        self._facts: list[tuple[Any, ...]] = [
            (
                *(memory.memory_id, memory.importance, memory.created_at, memory.valid_from),
                *(memory.conversation_id, row.lexical_no),
            )
            for row in rows
            for memory in (row.memory,)
        ]
        unexpired = [m.expires_at is None or m.expires_at > at for m in self._memories]
        self._current = np.asarray(unexpired, dtype=bool)
        self._certain = self._current & np.asarray([m.doubt is None for m in self._memories], bool)
        self._fresh = [memory.created_at + FRESH > at for memory in self._memories]
        self._mentioning: dict[UUID, list[int]] = {}
        for place, row in enumerate(rows):
            for entity_id in row.entity_ids:
                self._mentioning.setdefault(entity_id, []).append(place)
        # With and without those in doubt.
        self._orders = {True: self._ordered(self._current), False: self._ordered(self._certain)}
        ends = [m.expires_at for m in self._memories if m.expires_at and m.expires_at > at]
        # Only the newest have places as such in a list.
        newest = {place for by_age, _ in self._orders.values() for place in by_age[:FRESH_PLACES]}
        ends += [end for n in newest if (end := self._memories[n].created_at + FRESH) > at]
        self.until = min(ends, default=None)
        self._usage: tuple[bytes, Mapping[bytes, int]] = (b"", {})
        self._last_list: tuple[Any, list[Memory]] = (None, [])
        self._last_told: tuple[Any, Uuids | None] = (None, None)

    def __len__(self) -> int:
        return len(self._memories)

    def whole(self, memory_ids: Sequence[UUID]) -> dict[UUID, Memory]:
        """Whole memories by id, without their usage; ids that are not cached are left out."""
        places, memories = self._places, self._memories
        return {
            each: memories[place] for each in memory_ids if (place := places.get(each)) is not None
        }

    def used(self, memories: Sequence[Memory], usage: bytes) -> list[Memory]:
        """Memories as they were used; those of the database have their usage already."""
        places = [
            None if memory.memo is None else self._places.get(memory.memory_id)
            for memory in memories
        ]
        used = iter(self._used([place for place in places if place is not None], usage))
        return [
            memory if place is None else next(used)
            for memory, place in zip(memories, places, strict=True)
        ]

    def _used(self, places: Sequence[int], usage: bytes) -> list[Memory]:
        """The memories at `places`, as they were used."""
        use, memories = self._use_of(usage), self._memories
        for place in places:
            memory = memories[place]
            count, last = use(place)
            if memory.access_count != count or memory.last_accessed_at != last:
                # A third of the time of `replace`; every answer changes dozens.
                values = [*_VALUES(memory)]
                values[_COUNT], values[_LAST] = count, last
                memories[place] = Memory(*values)
        return [memories[place] for place in places]

    def _use_of(self, usage: bytes) -> Callable[[int], _Use]:
        """The use of the memory at a place."""
        # What is returned together is counted together: most reads find the usage of the last one.
        if self._usage[0] != usage:
            starts = range(0, len(usage), _USE.size)
            self._usage = (usage, {usage[at : at + _BYTES_OF_A_KEY]: at for at in starts})
        starts_of, keys = self._usage[1], self._keys

        def use(place: int) -> _Use:
            at = starts_of.get(keys[place])
            if at is None:
                return _NEVER_USED
            _, count, last = _USE.unpack_from(usage, at)
            return count, _ORIGIN + timedelta(microseconds=last)

        return use

    @cached_property
    def standing(self) -> Standing:
        """As `standing.of_user` finds it."""
        return standing_of(
            (memory.memory_id, memory.doubt is not None, memory.may_replace)
            for memory in self._memories
            if memory.doubt is not None or memory.may_replace
        )

    def top(self, usage: bytes, *, limit: int, fresh: int, doubtful: bool = True) -> list[Memory]:
        """As `memories.top`.

        Usage, which changes with every answer, decides only among equally important memories, and
        is looked up for those alone.
        """
        given = (limit, fresh, doubtful, usage)
        if self._last_list[0] != given:
            memories, use = self._memories, self._use_of(usage)
            listed, others = self._competing(limit, fresh, doubtful)

            def rank(place: int) -> tuple[float, datetime, int]:
                memory = memories[place]
                return memory.importance, use(place)[1] or memory.created_at, place

            listed += sorted(others, key=rank, reverse=True)[: limit - len(listed)]
            listed.sort(key=rank, reverse=True)
            self._last_list = given, self._used(listed, usage)
        return self._last_list[1]

    def _competing(self, limit: int, fresh: int, doubtful: bool) -> tuple[list[int], list[int]]:
        """The places of those of a list that are in it as new, and of those that may be."""
        by_age, by_importance = self._orders[doubtful]
        memories = self._memories
        listed = [place for place in by_age[:fresh] if self._fresh[place]]
        wanted, others = limit - len(listed), list[int]()
        for place in by_importance:
            # Those as important as the last of the wanted ones compete for its place.
            if len(others) >= wanted and (
                not wanted or memories[place].importance < memories[others[wanted - 1]].importance
            ):
                break
            if place not in listed:
                others.append(place)
        return listed, others

    def told_of(
        self, *, limit: int, fresh: int, newest_first: bool, doubtful: bool = True
    ) -> Uuids | None:
        """The memories whose usage `newest` or `top` looks up.

        None if they are so many that the usage of all is read as quickly.
        """
        given = (limit, fresh, newest_first, doubtful)
        if self._last_told[0] != given:
            if newest_first:
                places = self._orders[doubtful][0][:limit]
            else:
                new, others = self._competing(limit, fresh, doubtful)
                places = new + others
            few = len(places) * _READ_ALONE <= len(self)
            told = Uuids(self._memories[place].memory_id for place in places) if few else None
            self._last_told = given, told
        return self._last_told[1]

    def newest(self, usage: bytes, *, limit: int, doubtful: bool = True) -> list[Memory]:
        """As `memories.newest`."""
        return self._used(self._orders[doubtful][0][:limit], usage)

    def _ordered(self, allowed: Mask) -> tuple[list[int], list[int]]:
        """The places of those allowed, the newest first, and the most important first."""
        places = np.flatnonzero(allowed)
        oldest_first = places[np.argsort(self._created[places], kind="stable")]
        by_importance = places[np.argsort(-self._importance[places])]
        return oldest_first[::-1].tolist(), by_importance.tolist()

    def made_of(self) -> dict[tuple[str, str], list[int]]:
        """The places of what has not expired of each message, by its conversation and its id."""
        found: dict[tuple[str, str], list[int]] = {}
        for place, memory in enumerate(self._memories):
            for source in memory.sources if self._current[place] else ():
                found.setdefault((source.conversation_id, source.message_id), []).append(place)
        return found

    def lexical_no(self, place: int) -> int:
        """The number of the memory at `place` in the keyword index."""
        number: int = self._facts[place][5]
        return number

    def can_answer(self, filters: Filters) -> bool:
        """Whether a search with these filters finds here what the database finds."""
        return self._complete if filters.none else filters == _CERTAIN

    def candidates(self, sought: ItemQuery, filters: Filters) -> list[Candidate]:
        """Candidates as from `filtered_candidates.find`, with filters that `can_answer` allows."""
        allowed = self._current if filters.doubtful else self._certain
        entities = self._mentioned(sought.entity_ids)
        vector = sought.vector
        quick = None
        if self._signs is not None and filters.none and self._documents > sought.wanted:
            quick = self._quickly(allowed, vector, sought)
        near, worded = quick or (
            self._nearest(allowed, vector, sought.wanted),
            first_of(sought.bm25.best(len(sought.bm25)), self._by_number, allowed, sought.wanted),
        )
        pool = {
            *near,
            *worded,
            *self._naming(allowed, entities, sought.wanted),
            *self._of_the_time(allowed, sought),
            *self._newest(allowed, sought.newest),
        }
        found = sorted(pool)
        cosines = self.vectors.cosines(found, vector)
        compared = vector if sought.with_source else None
        sources = self.source_vectors.cosines(found, compared)
        return candidates_of(
            [
                (*self._facts[n], cosine, source, entities.get(n, 0))
                for n, cosine, source in zip(found, cosines, sources, strict=True)
            ],
            sought,
        )

    def _nearest(self, allowed: Mask, vector: Vectors | None, wanted: int) -> list[int]:
        """The nearest by vector; if these are too few, then the most important without a vector."""
        found: list[int] = []
        others = allowed
        if vector is not None:
            found = self.vectors.nearest(allowed, vector, wanted)
            others = allowed & ~self.vectors.has
        if len(found) < wanted:
            rest = np.flatnonzero(others)
            order = np.lexsort((-rest, -self._created[rest], -self._importance[rest]))
            found += rest[order][: wanted - len(found)].tolist()
        return found

    def _quickly(
        self, allowed: Mask, vector: Vectors | None, sought: ItemQuery
    ) -> tuple[list[int], list[int]] | None:
        """The nearest among the nearest by signs, and the best by words of the first of them.

        As in `memory_candidates.among_all`. None if that might miss something, so that all must be
        compared.
        """
        if vector is None or self._signs is None:
            return None
        several = memory_candidates.ranked_again(sought.wanted)
        coarse = np.zeros(len(self), dtype=bool)
        coarse[self.vectors.nearest_by_signs(self._signs, vector, several)] = True
        found = self.vectors.nearest(coarse, vector, sought.wanted)
        if len(found) < sought.wanted or not allowed[found].all():
            return None
        numbers = sought.bm25.best(several)
        worded = first_of(numbers, self._by_number, allowed, sought.wanted)
        all_numbers = len(numbers) == len(sought.bm25)
        return (found, worded) if all_numbers or len(worded) == sought.wanted else None

    def _mentioned(self, entity_ids: Sequence[UUID]) -> Counter[int]:
        """How many of the entities each memory mentions, for memories that mention any."""
        return Counter(
            place for each in set(entity_ids) for place in self._mentioning.get(each, ())
        )

    @staticmethod
    def _naming(allowed: Mask, entities: Mapping[int, int], wanted: int) -> list[int]:
        """Those that mention the most of the entities."""
        found = [place for place in entities if allowed[place]]
        found.sort(key=lambda place: (entities[place], place), reverse=True)
        return found[:wanted]

    def _of_the_time(self, allowed: Mask, sought: ItemQuery) -> list[int]:
        """The most important in the period that the question names."""
        if sought.since is None or sought.until is None:
            return []
        since, until = (since_epoch(at) for at in (sought.since, sought.until))
        within = np.flatnonzero(allowed & (self._valid >= since) & (self._valid < until))
        order = np.lexsort((-within, -self._valid[within], -self._importance[within]))
        found: list[int] = within[order][: sought.wanted].tolist()
        return found

    def _newest(self, allowed: Mask, newest: int) -> list[int]:
        """The newest, by the time since when they hold, or that of their storing if it is ahead."""
        if not newest:
            return []
        these = np.flatnonzero(allowed)
        since = np.minimum(self._valid[these], self._created[these])
        found: list[int] = these[np.lexsort((-these, -since))][:newest].tolist()
        return found


def first_of(
    numbers: Iterable[int],
    places: Mapping[int, int],
    allowed: Mask,
    wanted: int,
) -> list[int]:
    """The first `wanted` allowed places of those with these numbers in a keyword index."""
    found: list[int] = []
    for number in numbers:
        place = places.get(number)
        if place is not None and allowed[place]:
            found.append(place)
            if len(found) == wanted:
                break
    return found
