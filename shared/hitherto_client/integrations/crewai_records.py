"""Records of CrewAI's memory in the memories of a user.

A memory holds the records that state its words: usually one, and more if the same is remembered in
several scopes. Each is JSON in the memory's metadata, beside marks that lists and searches filter
by: its id, and every scope that it is under.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from hitherto_client.integrations import missing_package
from hitherto_client.results.memories import Memory

try:
    from crewai.memory.types import MemoryRecord, ScopeInfo
except ImportError as error:
    raise missing_package("crewai", error) from error

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
