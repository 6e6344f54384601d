"""Records of CrewAI's memory in the memories of a user.

A memory holds the records that state its words: usually one, and more if the same is remembered in
several scopes. Each is JSON in the memory's metadata, beside marks that lists and searches filter
by: its id, and every scope that it is under.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import grpc

from hitherto_client._sync.client import Hitherto
from hitherto_client.errors import HithertoCallError
from hitherto_client.integrations import package_of
from hitherto_client.integrations.exchange import storable
from hitherto_client.results.memories import Memory
from hitherto_client.words import Origin

with package_of("crewai"):
    from crewai.memory.types import MemoryRecord, ScopeInfo

_HELD, _RECORD, _ID, _SCOPE = "crewai", "crewai_record_", "crewai_id_", "crewai_scope_"
"""Keys of the metadata: the first of every memory that holds records, the others with a digest."""
_KEPT = {
    *("id", "scope", "categories", "metadata", "importance"),
    *("created_at", "last_accessed", "source", "private"),
}
"""What the JSON of a record has; its content is that of the memory."""
_MOST_TAGS, _MOST_TAG = 32, 64


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Which records are meant; what is None does not matter."""

    scope: str | None = None
    categories: Collection[str] | None = None
    metadata: Mapping[str, Any] | None = None
    ids: Collection[str] | None = None
    older_than: datetime | None = None

    def meets(self, record: MemoryRecord) -> bool:
        """Whether a record is meant."""
        return (
            path_of(self.scope) in _above(record.scope)
            and (not self.categories or not set(self.categories).isdisjoint(record.categories))
            and all(
                record.metadata.get(key) == value for key, value in (self.metadata or {}).items()
            )
            and (self.ids is None or record.id in self.ids)
            and (self.older_than is None or record.created_at < naive(self.older_than))
        )


def path_of(scope: str | None) -> str:
    """A scope as a path such as `/crew/research`; the root, `/`, if there is none."""
    return "/" + "/".join(part for part in (scope or "").split("/") if part)


def children_of(parent: str, records: Iterable[MemoryRecord]) -> list[str]:
    """The scopes directly under a scope, of records that are in it or under it."""
    depth = len(_above(parent))
    paths = (_above(each.scope) for each in records)
    return sorted({path[depth] for path in paths if len(path) > depth})


def info_of(scope: str, records: Collection[MemoryRecord]) -> ScopeInfo:
    """What CrewAI tells about a scope with these records, in it and under it."""
    times = [each.created_at for each in records]
    return ScopeInfo(
        path=path_of(scope),
        record_count=len(records),
        categories=sorted({name for each in records for name in each.categories}),
        oldest_record=min(times, default=None),
        newest_record=max(times, default=None),
        child_scopes=children_of(scope, records),
    )


def _above(scope: str) -> list[str]:
    """The root, the scopes that a scope is under, and the scope itself."""
    parts = path_of(scope)[1:].split("/")
    return ["/", *("/" + "/".join(parts[:end]) for end in range(1, len(parts) + 1) if parts[0])]


def naive(moment: datetime) -> datetime:
    """A time as CrewAI has it: in UTC, without saying so."""
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment


def marks_of_id(record_id: str) -> dict[str, bool]:
    """The metadata of the memory that holds a record."""
    return {_ID + _digest(record_id): True}


def marks_of_scope(scope: str | None) -> dict[str, bool]:
    """The metadata of all memories that hold a record in a scope or under it."""
    path = path_of(scope)
    return {_HELD: True} if path == "/" else {_SCOPE + _digest(path): True}


def records_of(memory: Memory) -> list[MemoryRecord]:
    """The records that a memory holds."""
    return [
        _record(memory, json.loads(kept))
        for name, kept in memory.metadata.items()
        if name.startswith(_RECORD)
    ]


def _record(memory: Memory, kept: dict[str, Any]) -> MemoryRecord:
    record = MemoryRecord(content=memory.content, **kept)
    used = memory.last_accessed_at
    last = max(record.last_accessed, naive(used)) if used else record.last_accessed
    return record.model_copy(update={"last_accessed": last})


def metadata_with(metadata: Mapping[str, Any], records: Iterable[MemoryRecord]) -> dict[str, Any]:
    """The metadata of a memory, so that it holds these records and no others.

    Raises:
        ValueError: What a record has is no JSON.
    """
    made: dict[str, Any] = {
        name: value
        for name, value in metadata.items()
        if name != _HELD and not name.startswith((_RECORD, _ID, _SCOPE))
    }
    for record in records:
        made |= marks_of_scope("/") | marks_of_id(record.id)
        for scope in _above(record.scope)[1:]:
            made |= marks_of_scope(scope)
        kept = record.model_dump(mode="json", include=_KEPT)
        kept["created_at"] = naive(record.created_at).isoformat()
        kept["last_accessed"] = naive(record.last_accessed).isoformat()
        # ASCII, so that the service stores every character as it is.
        made[_RECORD + _digest(record.id)] = json.dumps(
            kept, separators=(",", ":"), allow_nan=False
        )
    return made


def holds(memory: Memory, record: MemoryRecord) -> bool:
    """Whether a memory holds this record as it is."""
    return metadata_with({}, [record]).items() <= memory.metadata.items()


def tags_of(records: Iterable[MemoryRecord]) -> list[str]:
    """Categories as labels of a memory: as many as it may have, of those with a letter or digit."""
    names = (" ".join(name.split()) for record in records for name in record.categories)
    fit = (name for name in names if len(name) <= _MOST_TAG and any(map(str.isalnum, name)))
    return list(dict.fromkeys(fit))[:_MOST_TAGS]


def _digest(words: str) -> str:
    return hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()[:32]


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
        """Take records out of a memory, and forget it if it then holds none."""
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
