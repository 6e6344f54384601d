"""The columns of a user's cached memories that the filters of a search compare."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from hitherto_retrieval.storage.cached_surroundings import CachedEntity
from hitherto_retrieval.storage.cached_vectors import since_epoch
from hitherto_retrieval.storage.filters import Filters, can_compare, forms, has_all
from hitherto_shared.models import CURRENT_STATUSES

MemoryRow = namedtuple(
    "MemoryRow",
    "memory_id user_id type content importance confidence source origin status valid_from"
    " created_at updated_at detail tags keywords context metadata sensitive conversation_id"
    " valid_to expires_at superseded_by supersedes version job_id lexical_no size doubt"
    " may_replace last_confirmed_at",
)
"""A current memory: the fields of `Memory` up to the job, its number in the keyword index, the size
of its texts in bytes, and how it stands."""


def can_filter(filters: Filters) -> bool:
    """Whether a snapshot holds the fields that `filters` use."""
    return (
        filters.only_current
        and tuple(filters.statuses) == tuple(CURRENT_STATUSES)
        and can_compare(filters.metadata)
        and filters.sealed_ids is None
    )


class FilteredColumns:
    """What passes a filter, by the places of memories.

    Args:
        rows: The memories, as `CachedMemories` has them.
        doubtful: Which of them are in doubt.
        created: When each was stored, in microseconds.
        expires: When each expires.
        sources: Conversation, message and quote of what each came from.
        entities: The user's entities.
        mentioning: Which memories mention each entity.
    """

    def __init__(
        self,
        rows: Sequence[MemoryRow],
        *,
        doubtful: NDArray[np.bool_],
        created: NDArray[np.int64],
        expires: NDArray[np.int64],
        sources: Sequence[Sequence[tuple[str, str, str | None]]],
        entities: Sequence[CachedEntity],
        mentioning: Mapping[UUID, Sequence[int]],
    ) -> None:
        self._rows, self._sources = rows, sources
        self._entities, self._mentioning = entities, mentioning
        self._doubtful, self._created, self._expires = doubtful, created, expires
        self._types = np.asarray([row.type for row in rows], dtype=np.str_)
        self._confidences = np.asarray([row.confidence for row in rows], dtype=np.str_)
        self._made_by = np.asarray([row.source for row in rows], dtype=np.str_)
        self._tags = [frozenset(row.tags) for row in rows]

    def passing(self, filters: Filters, at: datetime) -> NDArray[np.bool_]:
        """Which memories pass all filters and have not expired by `at`."""
        passing = self._expires > since_epoch(at)
        for wanted, values in (
            (filters.types, self._types),
            (filters.sources, self._made_by),
            (filters.confidences, self._confidences),
        ):
            if wanted:
                passing &= np.isin(values, list(wanted))
        if filters.tags:
            tags = filters.tags
            passing &= np.asarray([not each.isdisjoint(tags) for each in self._tags], dtype=bool)
        if not filters.doubtful:
            passing &= ~self._doubtful
        if filters.created_after is not None:
            passing &= self._created >= since_epoch(filters.created_after)
        if filters.created_before is not None:
            passing &= self._created < since_epoch(filters.created_before)
        for wanted_only in self._rarer(filters):
            passing &= wanted_only
        return passing

    def called(self, name: str) -> list[UUID]:
        """The entities with this name, word of a name, alias or address."""
        wanted = forms(name)
        return [
            each.entity.entity_id for each in self._entities if not each.called.isdisjoint(wanted)
        ]

    def _rarer(self, filters: Filters) -> Iterator[NDArray[np.bool_]]:
        """What passes each of the filters for which there is no array."""
        count = len(self._rows)
        if filters.conversation_id is not None:
            named = filters.conversation_id
            yield np.fromiter(
                (
                    row.conversation_id == named or any(source[0] == named for source in sources)
                    for row, sources in zip(self._rows, self._sources, strict=True)
                ),
                bool,
                count,
            )
        if filters.metadata:
            wanted = filters.metadata
            yield np.fromiter((has_all(row.metadata, wanted) for row in self._rows), bool, count)
        if filters.entity:
            about = np.zeros(count, dtype=bool)
            for entity_id in self.called(filters.entity):
                about[self._mentioning.get(entity_id, [])] = True
            yield about
