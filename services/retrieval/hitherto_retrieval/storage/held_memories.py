"""The current memories of one user as arrays in this process, and a search's candidates from them.

The candidates are those that `memory_candidates.among_filtered` finds in the same state of the
database, equal to the last bit of a cosine if pgvector uses the processor's half-precision
instructions: products of half floats are exact, and they are summed in its order. Sums in another
order differ by 1e-8, which decides between equally near vectors, and whether a cosine is exactly 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from hitherto_retrieval.storage.candidate import Candidate
from hitherto_retrieval.storage.filters import Filters
from hitherto_retrieval.storage.memories import accesses as accesses_of
from hitherto_retrieval.storage.memory_candidates import Sought, candidates_of
from hitherto_retrieval.storage.statement import Rows, Statement
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

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NEVER = np.iinfo(np.int64).max
_LANES = 8
"""Number of products that pgvector sums side by side."""
_DOUBT = 1e-6
"""Two ways to sum a cosine never differ by more than this."""
_BYTES_OF_A_MEMORY = 4_000
"""Approximate bytes of a memory besides its vectors: its objects and the look-up tables."""
_BYTES_OF_A_BYTE = 4
"""Bytes of memory per byte of text; free-form JSON becomes many small objects."""
_NEVER_USED: tuple[int, datetime | None] = (0, None)
_USE = [each.name for each in fields(Memory)].index("access_count")
"""The position of the first of the two usage fields of a memory."""

Vectors = NDArray[np.float32]
Places = NDArray[np.int64]


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

    def __init__(
        self, memories: Rows, whole: Sequence[Memory], mentions: Rows, dimensions: int
    ) -> None:
        self._whole = {memory.memory_id: _without_use(memory) for memory in whole}
        self._free: int = sum(row[11] for row in memories)
        self._facts: list[tuple[Any, ...]] = [row[:6] for row in memories]
        self._places: Mapping[UUID, int] = {row[0]: n for n, row in enumerate(memories)}
        self._by_number: Mapping[int, int] = {row[5]: n for n, row in enumerate(memories)}
        self._importance = np.asarray([row[1] for row in memories], dtype=np.float64)
        self._created = _microseconds([row[2] for row in memories])
        self._valid = _microseconds([row[3] for row in memories])
        self._expires = _microseconds([row[6] for row in memories])
        self._columns = _Columns(
            np.asarray([row[7] for row in memories], dtype=np.str_),
            np.asarray([row[8] for row in memories], dtype=np.str_),
            np.asarray([row[9] for row in memories], dtype=np.str_),
            [frozenset(row[10]) for row in memories],
        )
        self._vectors, self._has_vector = _stacked([row[12] for row in memories], dimensions)
        self._sources, self._has_source = _stacked([row[13] for row in memories], dimensions)
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
            self._vectors.nbytes
            + self._sources.nbytes
            + _BYTES_OF_A_MEMORY * len(self._facts)
            + _BYTES_OF_A_BYTE * self._free
        )

    def whole(self, scope: Scope, memory_ids: Sequence[UUID]) -> Statement[dict[UUID, Memory]]:
        """Whole memories by id; only their usage is read from the database.

        Ids that are not in the snapshot are left out, and all ids if the user was erased meanwhile.
        """
        found = {each: self._whole[each] for each in memory_ids if each in self._whole}

        def used(accesses: Mapping[UUID, tuple[int, datetime]] | None) -> dict[UUID, Memory]:
            if accesses is None:
                return {}
            made: dict[UUID, Memory] = {}
            for each, (before, behind) in found.items():
                values: list[Any] = [*before, *accesses.get(each, _NEVER_USED), *behind]
                made[each] = Memory(*values)
            return made

        return accesses_of(scope, list(found)).meaning(used)

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
        vector = None if sought.vector is None else _as_kept(sought.vector)
        pool = {
            *self._nearest(allowed, vector, sought.wanted),
            *self._worded(allowed, sought),
            *self._naming(allowed, entities, sought.wanted),
            *self._of_the_time(allowed, sought),
            *self._newest(allowed, sought.newest),
        }
        found = np.asarray(sorted(pool), dtype=np.int64)
        cosines = _cosines(self._vectors, self._has_vector, found, vector)
        compared = vector if sought.with_source else None
        sources = _cosines(self._sources, self._has_source, found, compared)
        return candidates_of(
            [
                (*self._facts[n], cosine, source, entities.get(n, 0))
                for n, cosine, source in zip(found.tolist(), cosines, sources, strict=True)
            ],
            sought,
        )

    def _allowed(self, filters: Filters, at: datetime) -> NDArray[np.bool_]:
        allowed = self._expires > (at - _EPOCH) // _MICROSECOND
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
            allowed &= self._created >= (filters.created_after - _EPOCH) // _MICROSECOND
        if filters.created_before is not None:
            allowed &= self._created < (filters.created_before - _EPOCH) // _MICROSECOND
        return allowed

    def _nearest(
        self, allowed: NDArray[np.bool_], vector: Vectors | None, wanted: int
    ) -> list[int]:
        """The nearest by vector; if these are too few, then the most important without a vector."""
        found: list[int] = []
        others = allowed
        if vector is not None:
            near = np.flatnonzero(allowed & self._has_vector)
            if len(near) > wanted:
                # BLAS would sum equal rows differently, and its threads cost more than they gain.
                about = np.einsum("ij,j->i", self._vectors, vector)[near]
                least = np.partition(about, -wanted)[-wanted]
                near = near[about >= least - _DOUBT]
            if len(near) > wanted:
                exact = _added_as_pgvector_adds(self._vectors[near], vector)
                near = near[np.lexsort((-near, -exact))][:wanted]
            found = near.tolist()
            others = allowed & ~self._has_vector
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
        since, until = ((at - _EPOCH) // _MICROSECOND for at in (sought.since, sought.until))
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


def _without_use(memory: Memory) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The fields before and after the usage fields of a memory."""
    values = tuple(getattr(memory, each.name) for each in fields(Memory))
    return values[:_USE], values[_USE + len(_NEVER_USED) :]


def _microseconds(moments: Sequence[datetime | None]) -> NDArray[np.int64]:
    return np.asarray(
        [_NEVER if at is None else (at - _EPOCH) // _MICROSECOND for at in moments], dtype=np.int64
    )


def _stacked(sent: Sequence[bytes | None], dimensions: int) -> tuple[Vectors, NDArray[np.bool_]]:
    """Vectors in pgvector's binary format as an array, one row each.

    Rows of zeros for missing ones.
    """
    has = np.asarray([each is not None for each in sent], dtype=bool)
    stacked = np.zeros((len(sent), dimensions), dtype=np.float32)
    if has.any():
        # The header: two bytes for the dimensions and two unused ones.
        halves = np.frombuffer(b"".join(each for each in sent if each is not None), dtype=">f2")
        stacked[has] = halves.reshape(-1, 2 + dimensions)[:, 2:]
    return stacked, has


def _as_kept(vector: Sequence[float] | NDArray[Any]) -> Vectors:
    """A question's vector in the precision of the comparison."""
    return np.asarray(vector).astype(np.float16).astype(np.float32)


def _cosines(
    vectors: Vectors, has: NDArray[np.bool_], places: Places, vector: Vectors | None
) -> list[float | None]:
    """Cosines of the rows at `places`; None for a row without a vector."""
    if vector is None or not len(places):
        return [None] * len(places)
    exact = _added_as_pgvector_adds(vectors[places], vector).tolist()
    return [
        cosine if known else None for cosine, known in zip(exact, has[places].tolist(), strict=True)
    ]


def _added_as_pgvector_adds(rows: Vectors, vector: Vectors) -> Vectors:
    """Inner products: summed in eight lanes, the lanes by halves, then the remaining elements."""
    count, dimensions = rows.shape
    blocks = dimensions // _LANES
    whole = blocks * _LANES
    lanes = rows[:, :whole].reshape(count, blocks, _LANES).transpose(1, 0, 2)
    products = np.multiply(lanes, vector[:whole].reshape(blocks, 1, _LANES), order="C")
    sums: Vectors = products.sum(axis=0, dtype=np.float32)
    sums = sums[:, :4] + sums[:, 4:]
    sums = sums[:, :2] + sums[:, 2:]
    found: Vectors = sums[:, 0] + sums[:, 1]
    for place in range(whole, dimensions):
        found += rows[:, place] * vector[place]
    return found
