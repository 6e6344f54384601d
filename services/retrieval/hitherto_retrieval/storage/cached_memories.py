"""The current memories of one user as arrays in this process, and a search's candidates from them.

What is found is what `filtered_candidates.find` finds in the same state of the database, or
`among_all` where that finds less: of many memories.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from hitherto_retrieval.storage import memories as memories_of
from hitherto_retrieval.storage import memory_candidates
from hitherto_retrieval.storage.cached_filters import FilteredColumns, MemoryRow, can_filter
from hitherto_retrieval.storage.cached_lists import CachedLists
from hitherto_retrieval.storage.cached_surroundings import CachedEntity
from hitherto_retrieval.storage.cached_vectors import (
    NEVER,
    CachedVectors,
    Vectors,
    microseconds,
    moment_at,
    since_epoch,
)
from hitherto_retrieval.storage.candidate import Candidate
from hitherto_retrieval.storage.filters import Filters
from hitherto_retrieval.storage.item_query import ItemQuery
from hitherto_retrieval.storage.memory_candidates import candidates_of
from hitherto_retrieval.storage.standing import Standing, standing_of
from hitherto_retrieval.storage.statement import Rows
from hitherto_retrieval.storage.uses import PlacesOfUses, UseOf, Uses
from hitherto_shared.models import Memory

_BYTES_OF_A_MEMORY = 5_500
"""Approximate bytes of a memory besides its vectors: its objects and the look-up tables."""
_BYTES_OF_A_BYTE = 7
"""What a byte of text may take; free JSON becomes many small objects, and what is derived from a
text repeats it."""
_ALWAYS_EXPIRED = np.iinfo(np.int64).min


class CachedMemories:
    """The current memories of a user in one state of the database.

    They never change. What is derived from them, such as the last list, is kept as it is made.

    Args:
        stamps: What tells each of them from other versions of it, in the order of their keys.
        rows: The memories.
        vectors: Their vectors.
        source_vectors: The vectors of the words that they came from.
        made_from: Which messages all memories of the user came from, current or not, in order.
        mentions: Which entities all memories mention.
        entities: The entities.
        documents: Approximate number of the user's memories, as the user's row has it.
        compared: How many vectors the database compares by their signs, outdated ones included.
    """

    def __init__(
        self,
        stamps: Sequence[bytes],
        rows: Sequence[MemoryRow],
        vectors: CachedVectors,
        source_vectors: CachedVectors,
        *,
        made_from: Rows,
        mentions: Rows,
        entities: Sequence[CachedEntity],
        documents: int,
        compared: int,
    ) -> None:
        self.stamps = stamps
        self.rows = rows
        self.vectors = vectors
        self.source_vectors = source_vectors
        self._documents = documents
        coded = documents > memory_candidates.CODES_ABOVE
        self._signs = vectors.signs() if coded else None
        # A vector of an earlier wording, which is not cached, would be one of those compared.
        self._complete = not coded or compared == int(vectors.has.sum())
        self._places: Mapping[UUID, int] = {row.memory_id: n for n, row in enumerate(rows)}
        self._places_of_uses = PlacesOfUses([row.memory_id.bytes for row in rows])
        self._by_number: Mapping[int, int] = {row.lexical_no: n for n, row in enumerate(rows)}
        self._importance = np.asarray([row.importance for row in rows], dtype=np.float64)
        self._created = microseconds([row.created_at for row in rows])
        self._valid = microseconds([row.valid_from for row in rows])
        self._expires = microseconds([row.expires_at for row in rows])
        self._first_expires: int = self._expires.min(initial=NEVER)
        self._lists = CachedLists(self._importance, self._created, self._expires)
        self._facts: list[tuple[Any, ...]] = [
            (
                *(row.memory_id, row.importance, row.created_at, row.valid_from),
                *(row.conversation_id, row.lexical_no),
            )
            for row in rows
        ]
        self._made_from, self._mentions = made_from, mentions
        self._sources: list[list[tuple[str, str, str | None]]] = [[] for _ in rows]
        for memory_id, *source in made_from:
            place = self._places.get(memory_id)
            if place is not None:
                self._sources[place].append(tuple(source))
        self._doubtful = np.fromiter((row.doubt is not None for row in rows), bool, len(rows))
        self._mentioning: dict[UUID, list[int]] = {}
        for entity_id, memory_id in mentions:
            place = self._places.get(memory_id)
            if place is not None:
                self._mentioning.setdefault(entity_id, []).append(place)
        self._called_by: list[list[str]] = [[] for _ in rows]
        # In the order of the entities' names.
        for each in entities:
            for place in self._mentioning.get(each.entity.entity_id, ()):
                self._called_by[place].append(each.entity.name)
        self._last_list: tuple[Hashable, list[Memory]] = (None, [])
        # Made when they are first shown, by their places.
        self._shown: dict[int, memories_of.UnusedMemory] = {}
        self._columns = FilteredColumns(
            rows,
            doubtful=self._doubtful,
            created=self._created,
            expires=self._expires,
            sources=self._sources,
            entities=entities,
            mentioning=self._mentioning,
        )

    def __len__(self) -> int:
        return len(self._facts)

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        text: int = sum(row.size for row in self.rows)
        return (
            self.vectors.size
            + self.source_vectors.size
            + _BYTES_OF_A_MEMORY * len(self._facts)
            + _BYTES_OF_A_BYTE * text
        )

    def whole(self, memory_ids: Sequence[UUID], uses: Uses) -> dict[UUID, Memory]:
        """Whole memories by id, as they were used; ids that are not cached are left out."""
        cached = [place for each in memory_ids if (place := self._places.get(each)) is not None]
        used = self._with_usage(cached, uses.of(self._places_of_uses))
        return {memory.memory_id: memory for memory in used}

    def _with_usage(self, places: Sequence[int], use: UseOf) -> list[Memory]:
        """The memories at `places`, as they were used."""
        shown, made = self._shown, []
        for place in places:
            unused = shown.get(place)
            if unused is None:
                unused = shown[place] = memories_of.UnusedMemory(
                    self.rows[place],
                    self._sources[place],
                    self._called_by[place],
                    self._standing(place),
                )
            used = use(place)
            made.append(
                unused.used(0, None) if used is None else unused.used(used[0], moment_at(used[1]))
            )
        return made

    def _standing(self, place: int) -> tuple[Any, ...]:
        """Why a memory is in doubt, which current ones it may replace, when it was confirmed."""
        row = self.rows[place]
        may_replace = sorted(each for each in row.may_replace if each in self._places)
        return row.doubt, may_replace, row.last_confirmed_at

    @cached_property
    def standing(self) -> Standing:
        """As `standing.of_user` finds it."""
        return standing_of(
            (row.memory_id, row.doubt is not None, row.may_replace)
            for row in self.rows
            if row.doubt is not None or row.may_replace
        )

    def top(
        self, uses: Uses, at: datetime, *, limit: int, fresh: int, doubtful: bool = True
    ) -> list[Memory]:
        """As `memories.top`, by the database's clock `at`."""
        lists = self._lists if doubtful else self._certain_lists
        return self._listed(
            uses,
            at,
            (limit, fresh, doubtful),
            lambda use: lists.top(use, at, limit=limit, fresh=fresh),
        )

    def newest(
        self, uses: Uses, at: datetime, *, limit: int, doubtful: bool = True
    ) -> list[Memory]:
        """As `memories.newest`, by the database's clock `at`."""
        lists = self._lists if doubtful else self._certain_lists
        return self._listed(uses, at, (limit, None, doubtful), lambda _: lists.newest(at, limit))

    @cached_property
    def _certain_lists(self) -> CachedLists:
        """The lists of what is not in doubt: the rest counts as expired."""
        expires = np.where(self._doubtful, _ALWAYS_EXPIRED, self._expires)
        return CachedLists(self._importance, self._created, expires)

    def _listed(
        self, uses: Uses, at: datetime, of: Hashable, places: Callable[[UseOf], list[int]]
    ) -> list[Memory]:
        """The memories of a list, which is the last one unless usage or time changes it."""
        given = (of, self._lists.interval(at), uses.packed)
        of_last, listed = self._last_list
        if of_last != given:
            use = uses.of(self._places_of_uses)
            listed = self._with_usage(places(use), use)
            self._last_list = given, listed
        return listed

    def made_of(self) -> dict[tuple[str, str], list[int]]:
        """The places of the memories made of each message, by its conversation and its id."""
        found: dict[tuple[str, str], list[int]] = {}
        for place, sources in enumerate(self._sources):
            for conversation_id, message_id, _ in sources:
                found.setdefault((conversation_id, message_id), []).append(place)
        return found

    def said_of(self, name: str) -> set[tuple[str, str]]:
        """The messages from which a memory came that mentions an entity of this name.

        Each by its conversation and its id; also of memories that are not current any more.
        """
        called = set(self._columns.called(name))
        about = {memory_id for entity_id, memory_id in self._mentions if entity_id in called}
        return {(row[1], row[2]) for row in self._made_from if row[0] in about}

    def some_expired(self, at: datetime) -> bool:
        """Whether any memory has expired."""
        return self._first_expires <= since_epoch(at)

    def unexpired(self, places: Sequence[int], at: datetime) -> list[int]:
        """Those of the places whose memories have not expired."""
        moment = since_epoch(at)
        return [place for place in places if self._expires[place] > moment]

    def cosines(self, places: Sequence[int], vector: Vectors | None) -> list[float | None]:
        """Of the memories at `places`; None where there is no vector."""
        return self.vectors.cosines(places, vector)

    def lexical_no(self, place: int) -> int:
        """The number of the memory at `place` in the keyword index."""
        number: int = self.rows[place].lexical_no
        return number

    def can_answer(self, filters: Filters) -> bool:
        """Whether a search with these filters finds here what the database finds."""
        return (self._complete or not filters.none) and can_filter(filters)

    def candidates(self, sought: ItemQuery, filters: Filters, at: datetime) -> list[Candidate]:
        """Candidates as from `filtered_candidates.find`, by the database's clock `at`."""
        allowed = self._columns.passing(filters, at)
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

    def _nearest(
        self, allowed: NDArray[np.bool_], vector: Vectors | None, wanted: int
    ) -> list[int]:
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
        self, allowed: NDArray[np.bool_], vector: Vectors | None, sought: ItemQuery
    ) -> tuple[list[int], list[int]] | None:
        """The nearest among the nearest by signs, and the best by words of the first of them.

        As in `memory_candidates.among_all`. None if that might miss something, so that all must be
        compared.
        """
        if vector is None or self._signs is None:
            return None
        several = memory_candidates.ranked_again(sought.wanted)
        coarse = np.zeros(len(self.rows), dtype=bool)
        coarse[self.vectors.nearest_by_signs(self._signs, vector, several)] = True
        found = self.vectors.nearest(coarse, vector, sought.wanted)
        if len(found) < sought.wanted or not allowed[found].all():
            return None
        numbers = sought.bm25.best(several)
        worded = first_of(numbers, self._by_number, allowed, sought.wanted)
        all_numbers = len(numbers) == len(sought.bm25)
        return (found, worded) if all_numbers or len(worded) == sought.wanted else None

    def _mentioned(self, entity_ids: Sequence[UUID]) -> dict[int, int]:
        """How many of the entities each memory mentions, for memories that mention any."""
        counts: dict[int, int] = {}
        for entity_id in set(entity_ids):
            for place in self._mentioning.get(entity_id, ()):
                counts[place] = counts.get(place, 0) + 1
        return counts

    @staticmethod
    def _naming(allowed: NDArray[np.bool_], entities: Mapping[int, int], wanted: int) -> list[int]:
        """Those that mention the most of the entities."""
        found = [place for place in entities if allowed[place]]
        found.sort(key=lambda place: (entities[place], place), reverse=True)
        return found[:wanted]

    def _of_the_time(self, allowed: NDArray[np.bool_], sought: ItemQuery) -> list[int]:
        """The most important in the period that the question names."""
        if sought.since is None or sought.until is None:
            return []
        since, until = (since_epoch(at) for at in (sought.since, sought.until))
        within = np.flatnonzero(allowed & (self._valid >= since) & (self._valid < until))
        order = np.lexsort((-within, -self._valid[within], -self._importance[within]))
        found: list[int] = within[order][: sought.wanted].tolist()
        return found

    def _newest(self, allowed: NDArray[np.bool_], newest: int) -> list[int]:
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
    allowed: NDArray[np.bool_],
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
