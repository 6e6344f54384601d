"""The current memories of one user as arrays in this process, and a search's candidates from them.

What is found is what `memory_candidates.among_filtered` finds in the same state of the database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from hitherto_retrieval.storage import memories as memories_of
from hitherto_retrieval.storage.candidate import Candidate
from hitherto_retrieval.storage.filters import Filters
from hitherto_retrieval.storage.held_vectors import (
    HeldVectors,
    Vectors,
    as_kept,
    microseconds,
    since_epoch,
)
from hitherto_retrieval.storage.memory_candidates import Sought, candidates_of
from hitherto_retrieval.storage.statement import Rows, Statement
from hitherto_retrieval.storage.uses import Uses
from hitherto_shared.models import CURRENT_STATUSES, Memory, Scope

# The vectors of the present wordings, null for a memory without one. Each is looked up by its full
# key, whatever the planner's estimate. In the order of the keys, so that a position in the arrays
# is a position in that order.
_CURRENT = """
SELECT m.memory_id, m.importance, m.created_at, m.valid_from, m.conversation_id, m.lexical_no,
       m.expires_at, m.type, m.source, m.confidence, m.tags,
       octet_length(m.content) + octet_length(m.detail) + octet_length(m.context::text)
           + octet_length(m.metadata::text),
       (SELECT halfvec_send(e.embedding) FROM memory_embeddings AS e
        WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
          AND e.memory_id = m.memory_id AND e.model = %(model)s
          AND e.text_version = m.text_version),
       (SELECT halfvec_send(s.embedding) FROM memory_source_embeddings AS s
        WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
          AND s.memory_id = m.memory_id AND s.model = %(model)s)
FROM memories AS m
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
  AND m.status IN ('active', 'achieved')
ORDER BY m.memory_id
"""

_MENTIONED = """
SELECT entity_id, memory_id
FROM entity_mentions
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""

FRESH = timedelta(days=7)
"""As in `memories.top`."""
_BYTES_OF_A_MEMORY = 4_000
"""Approximate bytes of a memory besides its vectors: its objects and the look-up tables."""
_BYTES_OF_A_BYTE = 4
"""What a byte of text may take; free JSON becomes many small objects."""


def current(scope: Scope, model: str) -> Statement[Rows]:
    """All current memories with their vectors of `model`, for `HeldMemories`."""
    return Statement(
        _CURRENT,
        {"tenant_id": scope.tenant_id, "user_id": scope.user_id, "model": model},
        lambda rows: rows,
    )


def mentioned(scope: Scope) -> Statement[Rows]:
    """Which entities all memories mention, for `HeldMemories`."""
    return Statement(
        _MENTIONED,
        {"tenant_id": scope.tenant_id, "user_id": scope.user_id},
        lambda rows: rows,
    )


@dataclass(frozen=True, slots=True)
class _Columns:
    """The fields that filters use, one value per memory."""

    types: NDArray[np.str_]
    sources: NDArray[np.str_]
    confidences: NDArray[np.str_]
    tags: Sequence[frozenset[str]]


class HeldMemories:
    """The current memories of a user in one state of the database; immutable.

    Args:
        memories: The answer of `current`.
        whole: The answer of `memories.current`.
        mentions: The answer of `mentioned`.
        dimensions: Dimensions of the model's vectors.
    """

    def __init__(self, memories: Rows, whole: Rows, mentions: Rows, dimensions: int) -> None:
        self._whole = {row[0]: row for row in whole}
        self._free: int = sum(row[11] for row in memories)
        self._facts: list[tuple[Any, ...]] = [row[:6] for row in memories]
        self._ids: list[UUID] = [row[0] for row in memories]
        self._places: Mapping[UUID, int] = {row[0]: n for n, row in enumerate(memories)}
        self._by_number: Mapping[int, int] = {row[5]: n for n, row in enumerate(memories)}
        self._importance = np.asarray([row[1] for row in memories], dtype=np.float64)
        self._created = microseconds([row[2] for row in memories])
        self._valid = microseconds([row[3] for row in memories])
        self._expires = microseconds([row[6] for row in memories])
        self._columns = _Columns(
            np.asarray([row[7] for row in memories], dtype=np.str_),
            np.asarray([row[8] for row in memories], dtype=np.str_),
            np.asarray([row[9] for row in memories], dtype=np.str_),
            [frozenset(row[10]) for row in memories],
        )
        self._vectors = HeldVectors([row[12] for row in memories], dimensions)
        self._sources = HeldVectors([row[13] for row in memories], dimensions)
        self._mentions: dict[UUID, list[int]] = {}
        for entity_id, memory_id in mentions:
            place = self._places.get(memory_id)
            if place is not None:
                self._mentions.setdefault(entity_id, []).append(place)

    def __len__(self) -> int:
        return len(self._facts)

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        return (
            self._vectors.size
            + self._sources.size
            + _BYTES_OF_A_MEMORY * len(self._facts)
            + _BYTES_OF_A_BYTE * self._free
        )

    def whole(self, memory_ids: Sequence[UUID], uses: Uses) -> dict[UUID, Memory]:
        """Whole memories by id, as they were used; ids that are not held are left out."""
        made: dict[UUID, Memory] = {}
        for each in memory_ids:
            row = self._whole.get(each)
            if row is not None:
                made[each] = memories_of.used(row, *uses.of(each))
        return made

    def top(self, uses: Uses, at: datetime, *, limit: int, fresh: int) -> list[Memory]:
        """As `memories.top`, by the database's clock `at`."""
        allowed = self._allowed(Filters(), at)
        recent = np.flatnonzero(allowed & (self._created > since_epoch(at - FRESH)))
        recent = recent[np.lexsort((-recent, -self._created[recent]))][:fresh]
        allowed[recent] = False
        others = np.flatnonzero(allowed)
        wanted = limit - len(recent)
        if len(others) > wanted:
            # The time of the last use decides among memories of the lowest importance in the list.
            ordered = np.sort(self._importance[others])
            least = ordered[-wanted] if wanted > 0 else np.inf
            others = others[self._importance[others] >= least]
        used = {
            place: uses.of(self._ids[place])[1] or self._facts[place][2]
            for place in (*recent.tolist(), *others.tolist())
        }

        def rank(place: int) -> tuple[float, datetime, int]:
            return self._facts[place][1], used[place], place

        listed = sorted(others.tolist(), key=rank, reverse=True)[: max(0, wanted)]
        listed = sorted((*recent.tolist(), *listed), key=rank, reverse=True)[:limit]
        return list(self.whole([self._ids[place] for place in listed], uses).values())

    def newest(self, uses: Uses, at: datetime, *, limit: int) -> list[Memory]:
        """As `memories.newest`, by the database's clock `at`."""
        these = np.flatnonzero(self._allowed(Filters(), at))
        listed = these[np.lexsort((-these, -self._created[these]))][:limit].tolist()
        return list(self.whole([self._ids[place] for place in listed], uses).values())

    def made_of(self) -> dict[tuple[str, str], list[int]]:
        """The places of the memories made of each message, by its conversation and its id."""
        found: dict[tuple[str, str], list[int]] = {}
        for place, memory_id in enumerate(self._ids):
            for source in memories_of.sources(self._whole[memory_id]):
                found.setdefault(source, []).append(place)
        return found

    def unexpired(self, places: Sequence[int], at: datetime) -> list[int]:
        """Those of the places whose memories have not expired."""
        moment = since_epoch(at)
        return [place for place in places if self._expires[place] > moment]

    def cosines(self, places: Sequence[int], vector: Vectors | None) -> list[float | None]:
        """Of the memories at `places`; None where there is no vector."""
        return self._vectors.cosines(places, vector)

    def lexical_no(self, place: int) -> int:
        """The number of the memory at `place` in the keyword index."""
        number: int = self._facts[place][5]
        return number

    @staticmethod
    def can_filter(filters: Filters) -> bool:
        """Whether the snapshot holds the fields that `filters` use."""
        return (
            filters.only_current
            and tuple(filters.statuses) == tuple(CURRENT_STATUSES)
            and not filters.metadata
            and filters.entity is None
            and filters.conversation_id is None
            and filters.sealed_ids is None
        )

    def candidates(self, sought: Sought, filters: Filters, at: datetime) -> list[Candidate]:
        """Candidates as from `memory_candidates.among_filtered`, by the database's clock `at`."""
        allowed = self._allowed(filters, at)
        entities = self._entities(sought.entity_ids)
        vector = None if sought.vector is None else as_kept(sought.vector)
        pool = {
            *self._nearest(allowed, vector, sought.wanted),
            *self._worded(allowed, sought),
            *self._naming(allowed, entities, sought.wanted),
            *self._of_the_time(allowed, sought),
            *self._newest(allowed, sought.newest),
        }
        found = sorted(pool)
        cosines = self._vectors.cosines(found, vector)
        compared = vector if sought.with_source else None
        sources = self._sources.cosines(found, compared)
        return candidates_of(
            [
                (*self._facts[n], cosine, source, entities.get(n, 0))
                for n, cosine, source in zip(found, cosines, sources, strict=True)
            ],
            sought,
        )

    def _allowed(self, filters: Filters, at: datetime) -> NDArray[np.bool_]:
        allowed = self._expires > since_epoch(at)
        columns = self._columns
        for wanted, held in (
            (filters.types, columns.types),
            (filters.sources, columns.sources),
            (filters.confidences, columns.confidences),
        ):
            if wanted:
                allowed &= np.isin(held, list(wanted))
        if filters.tags:
            tags = filters.tags
            allowed &= np.asarray([not each.isdisjoint(tags) for each in columns.tags], dtype=bool)
        if filters.created_after is not None:
            allowed &= self._created >= since_epoch(filters.created_after)
        if filters.created_before is not None:
            allowed &= self._created < since_epoch(filters.created_before)
        return allowed

    def _nearest(
        self, allowed: NDArray[np.bool_], vector: Vectors | None, wanted: int
    ) -> list[int]:
        """The nearest by vector; if these are too few, then the most important without a vector."""
        found: list[int] = []
        others = allowed
        if vector is not None:
            found = self._vectors.nearest(allowed, vector, wanted)
            others = allowed & ~self._vectors.has
        if len(found) < wanted:
            rest = np.flatnonzero(others)
            order = np.lexsort((-rest, -self._created[rest], -self._importance[rest]))
            found += rest[order][: wanted - len(found)].tolist()
        return found

    def _worded(self, allowed: NDArray[np.bool_], sought: Sought) -> list[int]:
        """The best by words."""
        found: list[int] = []
        for number in sought.bm25.best(len(sought.bm25)):
            place = self._by_number.get(number)
            if place is not None and allowed[place]:
                found.append(place)
                if len(found) == sought.wanted:
                    break
        return found

    def _entities(self, entity_ids: Sequence[UUID]) -> dict[int, int]:
        """How many of the entities each memory mentions, for memories that mention any."""
        counts: dict[int, int] = {}
        for entity_id in set(entity_ids):
            for place in self._mentions.get(entity_id, ()):
                counts[place] = counts.get(place, 0) + 1
        return counts

    @staticmethod
    def _naming(allowed: NDArray[np.bool_], entities: Mapping[int, int], wanted: int) -> list[int]:
        """Those that mention the most of the entities."""
        found = [place for place in entities if allowed[place]]
        found.sort(key=lambda place: (entities[place], place), reverse=True)
        return found[:wanted]

    def _of_the_time(self, allowed: NDArray[np.bool_], sought: Sought) -> list[int]:
        """The most important in the period that the question names."""
        if sought.since is None or sought.until is None:
            return []
        since, until = (since_epoch(at) for at in (sought.since, sought.until))
        within = np.flatnonzero(allowed & (self._valid >= since) & (self._valid < until))
        order = np.lexsort((-within, -self._valid[within], -self._importance[within]))
        found: list[int] = within[order][: sought.wanted].tolist()
        return found

    def _newest(self, allowed: NDArray[np.bool_], newest: int) -> list[int]:
        """The newest, by the time since when they hold."""
        if not newest:
            return []
        these = np.flatnonzero(allowed)
        found: list[int] = these[np.lexsort((-these, -self._valid[these]))][:newest].tolist()
        return found
