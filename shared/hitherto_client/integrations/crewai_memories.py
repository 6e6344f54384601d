"""The memories of one user that hold records of CrewAI: found, saved, corrected, forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import grpc

from hitherto_client._sync.client import Hitherto
from hitherto_client.errors import HithertoCallError
from hitherto_client.integrations import missing_package
from hitherto_client.integrations.crewai_records import (
    holds,
    marks_of_id,
    metadata_with,
    records_of,
    tags_of,
)
from hitherto_client.integrations.wording import storable
from hitherto_client.results.memories import Memory
from hitherto_client.words import Origin

try:
    from crewai.memory.types import MemoryRecord
except ImportError as error:
    raise missing_package("crewai", error) from error

_PAGE = 1_000
_ATTEMPTS = 5
"""How often a memory is written whose version another call changes at the same time."""
_REASON = "deleted in CrewAI"
"""Why a memory was forgotten, in its history."""


@dataclass(frozen=True, slots=True)
class RecordMemories:
    """The memories that hold records, and the records in them.

    A memory of a more trusted origin holds records whose words it has, and is not changed or
    forgotten with them.
    """

    memory: Hitherto
    user: str
    origin: Origin

    def marked(self, marks: Mapping[str, bool]) -> Iterator[Memory]:
        """Those in force that have these marks, the newest first."""
        return iter(self.memory.memories(self.user, metadata_filter=marks, page_size=_PAGE))

    def save(self, record: MemoryRecord) -> Memory:
        """The memory that holds a record from now on: a new one, or one with the same words.

        Raises:
            HithertoCallError: It was refused, or the user forgot what it says.
            ValueError: What the record has is no JSON.
        """
        saved = self.memory.save_memory(
            self.user,
            storable(record.content),
            importance=record.importance,
            tags=tags_of([record]),
            origin=self.origin,
            metadata=metadata_with({}, [record]),
            valid_from=record.created_at,
        ).memory
        if saved.status == "forgotten":
            return self._save_again(saved, record)
        # A memory that was known from somebody more trusted has taken nothing over.
        return saved if holds(saved, record) else self._hold(saved, _with(record))

    def _save_again(self, forgotten: Memory, record: MemoryRecord) -> Memory:
        """Correct a forgotten memory by what is near to it, if it was CrewAI that deleted it.

        CrewAI's consolidation deletes a record to save another in its place. What anybody else
        forgot stays forgotten.
        """
        events = self.memory.memory_history(self.user, forgotten.id)
        if next((each.reason for each in events if each.kind == "forgotten"), "") != _REASON:
            raise HithertoCallError(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"what this record says was forgotten and stays so: restore {forgotten.id} to "
                "remember it again",
                reason="MEMORY_STATUS_CONFLICT",
            )
        restored = self.memory.restore_memory(self.user, forgotten.id)
        return self._hold(restored, _with(record), **_changes(record))

    def correct(self, record: MemoryRecord) -> None:
        """Replace the record with the same id; an unknown one is saved.

        Raises:
            HithertoCallError: It was refused, as by `save`.
            ValueError: What the record has is no JSON.
        """
        memory = next(self.marked(marks_of_id(record.id)), None)
        if memory is None:
            self.save(record)
            return
        held = records_of(memory)
        [known] = (each for each in held if each.id == record.id)
        source = known.source if record.source is None else record.source
        private = known.private or record.private
        record = record.model_copy(update={"source": source, "private": private})
        content = storable(record.content).strip()
        alone = len(held) == 1 and memory.origin == self.origin
        if alone:
            self._hold(memory, _with(record), **_changes(record))
        elif content == memory.content:
            self._hold(memory, _with(record))
        elif self.save(record).id != memory.id:
            # Somebody else says the earlier words, and goes on to.
            self.drop(memory, {record.id})

    def drop(self, memory: Memory, ids: Iterable[str]) -> None:
        """Take records out of a memory, and forget it if it then holds none.

        Raises:
            HithertoCallError: A call failed.
        """
        gone = set(ids)
        left = self._hold(memory, lambda held: [each for each in held if each.id not in gone])
        if not records_of(left) and left.origin == self.origin:
            self.memory.forget_memory(self.user, left.id, reason=_REASON)

    def _hold(
        self,
        memory: Memory,
        change: Callable[[list[MemoryRecord]], list[MemoryRecord]],
        **changes: Any,
    ) -> Memory:
        """Write which records a memory holds, with other changes, as its next version."""
        for attempt in range(1, _ATTEMPTS + 1):
            metadata = metadata_with(memory.metadata, change(records_of(memory)))
            try:
                return self.memory.update_memory(
                    self.user, memory.id, metadata=metadata, version=memory.version, **changes
                )
            except HithertoCallError as error:
                if error.reason != "VERSION_MISMATCH" or attempt == _ATTEMPTS:
                    raise
            memory = self.memory.get_memory(self.user, memory.id) or memory
        raise AssertionError("unreachable: the last attempt returns or raises")


def _changes(record: MemoryRecord) -> dict[str, Any]:
    """What a memory takes over from its only record."""
    content = storable(record.content)
    return {"content": content, "tags": tags_of([record]), "importance": record.importance}


def _with(record: MemoryRecord) -> Callable[[list[MemoryRecord]], list[MemoryRecord]]:
    """Adds a record to others, or replaces the one with its id."""
    return lambda held: [*(each for each in held if each.id != record.id), record]
