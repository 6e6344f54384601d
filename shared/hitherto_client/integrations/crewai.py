"""A storage for CrewAI's memory (extra `crewai`).

Example:
    storage = HithertoStorage(Hitherto(), user="ana")
    memory = Memory(storage=storage, embedder=storage.embedder)
    memory.remember("Ana lives in Porto.")

CrewAI asks a storage by a vector alone. The storage's own embedder calls no model and writes the
words into the vector, so that Hitherto searches by meaning and by words, with its own vectors.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Self

from hitherto_client._sync.client import Hitherto
from hitherto_client.errors import HithertoCallError
from hitherto_client.integrations import package_of
from hitherto_client.integrations.crewai_records import (
    RecordFilter,
    RecordMemories,
    children_of,
    info_of,
    marks_of_id,
    marks_of_scope,
    records_of,
)
from hitherto_client.integrations.crewai_vectors import WEIGHTS, score_of, vector_of, words_of
from hitherto_client.integrations.exchange import MOST_QUESTION
from hitherto_client.words import Origin

with package_of("crewai"):
    from crewai.memory.types import MemoryRecord, ScopeInfo

_MOST_RESULTS = 200
"""What one search returns at most."""


class HithertoStorage:
    """Keeps the records of CrewAI's `Memory` as memories of one user (a `StorageBackend`).

    A record is a saved memory: searches and contexts of Hitherto tell it, it keeps its earlier
    versions, and it is exported and erased with its user. The storage lists and deletes nothing
    but records. Memories that are no longer true, as Hitherto sees it, hold none. The asynchronous
    methods run in threads.
    """

    def __init__(
        self,
        memory: Hitherto,
        *,
        user: str,
        origin: Origin = "assistant",
        min_relevance: float = 0.25,
    ) -> None:
        """Open the storage.

        Args:
            memory: The client.
            user: Whose memories the records are.
            origin: On whose word they are saved. What the assistant saves never displaces what the
                user said.
            min_relevance: The relevance to the question from which a record is found, from 0 (all
                records) to 1.
        """
        self._memory = memory
        self._user = user
        self._kept = RecordMemories(memory, user, origin)
        self._min_relevance = min_relevance

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """The storage itself: CrewAI copies memories with their agents, but connections stay."""
        return self

    @staticmethod
    def embedder(texts: list[str]) -> list[list[float]]:
        """The vectors of texts, for `Memory(embedder=...)`: each holds its words."""
        return [vector_of(text) for text in texts]

    # --- writes

    def save(self, records: list[MemoryRecord]) -> None:
        """Save records, each as a memory, or with the one that has the same words.

        Raises:
            HithertoCallError: A record was refused, for example because it has more than 8 KiB,
                memory is switched off for the user (`MEMORY_DISABLED`), or the user forgot what it
                says (`MEMORY_STATUS_CONFLICT`). The others are saved.
            ValueError: What a record has is no JSON.
        """
        refused = []
        for record in records:
            try:
                self._kept.save(record)
            except HithertoCallError as error:
                refused.append(error)
        if refused:
            raise refused[0]

    def update(self, record: MemoryRecord) -> None:
        """Correct a record; its memory keeps the earlier version. An unknown one is saved.

        What was private stays private: CrewAI's consolidation does not say so again.

        Raises:
            HithertoCallError: It was refused, as by `save`.
            ValueError: What the record has is no JSON.
        """
        self._kept.correct(record)

    def delete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """Delete the records that meet all criteria; returns how many. Without any: all of them.

        Their memories are forgotten. Those that somebody more trusted stated stay.

        Raises:
            HithertoCallError: A call failed; some records may be deleted.
        """
        meant = RecordFilter(scope_prefix, categories, metadata_filter, record_ids, older_than)
        places = [marks_of_scope(scope_prefix)]
        if record_ids is not None:
            places = [marks_of_id(each) for each in record_ids]
        found = {each.id: each for marks in places for each in self._kept.marked(marks)}
        deleted = 0
        for memory in found.values():
            ids = [each.id for each in records_of(memory) if meant.meets(each)]
            if ids:
                self._kept.drop(memory, ids)
            deleted += len(ids)
        return deleted

    def reset(self, scope_prefix: str | None = None) -> None:
        """Delete all records of a scope; see `delete`."""
        self.delete(scope_prefix)

    # --- reads

    def search(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        """The records that are relevant to the words of the vector, best first, with their scores.

        A score is the cosine of meaning; words that are alike raise it by up to half of what it
        lacks to 1. Age and importance are for CrewAI to add. `categories` and `metadata_filter`
        select among the first 200 results.

        Raises:
            ValueError: The vector is not from `embedder`.
            HithertoCallError: The records could not be searched.
        """
        words = words_of(query_embedding)
        if limit <= 0:
            return []
        meant = RecordFilter(scope_prefix, categories, metadata_filter)
        results = self._memory.search(
            self._user,
            words[:MOST_QUESTION],
            limit=_MOST_RESULTS if categories or metadata_filter else min(limit, _MOST_RESULTS),
            min_relevance=self._min_relevance,
            metadata_filter=marks_of_scope(scope_prefix),
            weights=WEIGHTS,
            explain=True,
        )
        found = [
            (record, score)
            for result in results
            if result.memory is not None and (score := score_of(result)) >= min_score
            for record in records_of(result.memory)
            if meant.meets(record)
        ]
        return sorted(found, key=lambda each: each[1], reverse=True)[:limit]

    def get_record(self, record_id: str) -> MemoryRecord | None:
        """A record by its id; None if there is none."""
        return next(self._records(RecordFilter(ids={record_id}), marks_of_id(record_id)), None)

    def list_records(
        self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0
    ) -> list[MemoryRecord]:
        """The records of a scope, the newest first."""
        found = sorted(self._under(scope_prefix), key=lambda each: each.created_at, reverse=True)
        return found[max(offset, 0) :][: max(limit, 0)]

    def get_scope_info(self, scope: str) -> ScopeInfo:
        """What a scope holds, with those under it."""
        return info_of(scope, list(self._under(scope)))

    def list_scopes(self, parent: str = "/") -> list[str]:
        """The scopes directly under a scope."""
        return children_of(parent, self._under(parent))

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        """The categories of a scope, and how many records have each."""
        return dict(Counter(name for each in self._under(scope_prefix) for name in each.categories))

    def count(self, scope_prefix: str | None = None) -> int:
        """How many records a scope has, with those under it."""
        return sum(1 for _ in self._under(scope_prefix))

    def _under(self, scope: str | None) -> Iterator[MemoryRecord]:
        return self._records(RecordFilter(scope), marks_of_scope(scope))

    def _records(self, meant: RecordFilter, marks: dict[str, bool]) -> Iterator[MemoryRecord]:
        for memory in self._kept.marked(marks):
            yield from filter(meant.meets, records_of(memory))

    # --- asynchronous

    async def asave(self, records: list[MemoryRecord]) -> None:
        """See `save`."""
        await asyncio.to_thread(self.save, records)

    async def asearch(
        self, query_embedding: list[float], *args: Any, **kwargs: Any
    ) -> list[tuple[MemoryRecord, float]]:
        """See `search`, whose arguments these are."""
        return await asyncio.to_thread(self.search, query_embedding, *args, **kwargs)

    async def adelete(self, *args: Any, **kwargs: Any) -> int:
        """See `delete`, whose arguments these are."""
        return await asyncio.to_thread(self.delete, *args, **kwargs)
