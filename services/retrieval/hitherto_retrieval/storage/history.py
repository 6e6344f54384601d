"""Reads the history of memories and profiles, newest first, in pages.

It says what happened; what changed is read from the versions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from hitherto_retrieval.storage.statement import Rows, Statement
from hitherto_shared.encryption.rows import MEMORY, PROFILE_VERSION, Place
from hitherto_shared.models import Scope

# A page starts after the last event of the previous page. Times are the database's; ids only order
# events of the same instant.
_OF_MEMORY = """
SELECT event_id, recorded_at, action, version, actor, reason, job_id,
       related_memory_id AS related, before -> 'entities' AS named_before,
       after -> 'entities' AS named_after
FROM history
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND subject = 'memory' AND memory_id = %(memory_id)s
  AND (%(after_at)s::timestamptz IS NULL
       OR (recorded_at, event_id) < (%(after_at)s::timestamptz, %(after_id)s::uuid))
ORDER BY recorded_at DESC, event_id DESC
LIMIT %(limit)s
"""

_OF_PROFILE = """
SELECT event_id, recorded_at, action, version, actor, reason, job_id,
       related_memory_id AS related, before -> 'entities' AS named_before,
       after -> 'entities' AS named_after
FROM history
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND subject = 'profile'
  AND (%(after_at)s::timestamptz IS NULL
       OR (recorded_at, event_id) < (%(after_at)s::timestamptz, %(after_id)s::uuid))
ORDER BY recorded_at DESC, event_id DESC
LIMIT %(limit)s
"""

# The present version is with the memory, as is what no version holds; earlier ones are separate.
_VERSIONS_OF_MEMORY = """
SELECT m.version, @sealed_of_memory(m.memory_id, m.version, m.text_version, m.sealed),
       m.type, m.content, m.detail, m.importance, m.confidence, m.origin, m.status, m.tags,
       m.keywords, m.context, m.metadata, m.valid_from, m.valid_to, m.expires_at, m.superseded_by,
       m.supersedes, m.sensitive, m.doubt, m.may_replace, m.source,
       coalesce(m.conversation_id, '') AS conversation_id
FROM memories AS m
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.memory_id = %(memory_id)s
  AND m.version = ANY(%(versions)s)
UNION ALL
SELECT v.version, @sealed_of_memory(v.memory_id, v.version, 0, v.sealed),
       v.type, v.content, v.detail, v.importance, v.confidence, v.origin, v.status, v.tags,
       v.keywords, v.context, v.metadata, v.valid_from, v.valid_to, v.expires_at, v.superseded_by,
       v.supersedes, v.sensitive, v.doubt, v.may_replace, m.source, coalesce(m.conversation_id, '')
FROM memory_versions AS v
JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
     AND m.memory_id = v.memory_id
WHERE v.tenant_id = %(tenant_id)s AND v.user_id = %(user_id)s AND v.memory_id = %(memory_id)s
  AND v.version = ANY(%(versions)s)
"""

_VERSIONS_OF_PROFILE = """
SELECT version, sealed, profile
FROM profile_versions
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND version = ANY(%(versions)s)
"""

_TOLD_OF_MEMORY = (
    *("type", "content", "detail", "importance", "confidence", "origin", "status", "tags"),
    *("keywords", "context", "metadata", "valid_from", "valid_to", "expires_at", "superseded_by"),
    *("supersedes", "sensitive", "doubt", "may_replace", "source", "conversation_id"),
)


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """One change: who made which version, when and why.

    Attributes:
        named_before: The entities of a memory before it; None if a change by hand left them.
        named_after: Those after it.
    """

    event_id: UUID
    recorded_at: datetime
    action: str
    version: int
    actor: str
    reason: str
    job_id: UUID | None
    related: UUID | None
    named_before: list[str] | None
    named_after: list[str] | None


@dataclass(frozen=True, slots=True)
class ToldVersion:
    """The fields of a version as the history tells them.

    Attributes:
        place: What `sealed` is bound to.
        fields: In clear; empty or without their words if those are sealed.
    """

    sealed: bytes | None
    place: Place
    fields: Mapping[str, Any]


HistoryPage = tuple[list[HistoryEvent], list[str] | None]


def of_memory(
    scope: Scope, memory_id: UUID, *, after: Sequence[str] | None, limit: int
) -> Statement[HistoryPage]:
    """A page of a memory's changes, and the start of the next one (None at the end)."""
    return _page(_OF_MEMORY, scope.bind(memory_id=memory_id), after, limit)


def of_profile(scope: Scope, *, after: Sequence[str] | None, limit: int) -> Statement[HistoryPage]:
    """A page of the profile's changes, and the start of the next one (None at the end)."""
    return _page(_OF_PROFILE, scope.parameters, after, limit)


def _page(
    sql: str, values: dict[str, Any], after: Sequence[str] | None, limit: int
) -> Statement[HistoryPage]:
    def read(rows: Rows) -> HistoryPage:
        shown = [HistoryEvent(*row) for row in rows[:limit]]
        last = shown[-1] if len(rows) > limit else None
        return shown, [last.recorded_at.isoformat(), str(last.event_id)] if last else None

    after_at, after_id = after or (None, None)
    values |= {"after_at": after_at, "after_id": after_id, "limit": limit + 1}
    return Statement(sql, values, read)


def versions_of_memory(
    scope: Scope, memory_id: UUID, versions: Sequence[int]
) -> Statement[dict[int, ToldVersion]]:
    """These versions of a memory, by number."""
    place = MEMORY.place(memory_id)

    def read(rows: Rows) -> dict[int, ToldVersion]:
        return {
            version: ToldVersion(
                sealed, place, dict(zip(_TOLD_OF_MEMORY, map(_as_json, fields), strict=True))
            )
            for version, sealed, *fields in rows
        }

    values = scope.bind(memory_id=memory_id, versions=list(versions))
    return Statement(_VERSIONS_OF_MEMORY, values, read)


def versions_of_profile(scope: Scope, versions: Sequence[int]) -> Statement[dict[int, ToldVersion]]:
    """The same of the user's profile."""
    return Statement(
        _VERSIONS_OF_PROFILE,
        scope.bind(versions=list(versions)),
        lambda rows: {
            version: ToldVersion(sealed, PROFILE_VERSION.place(version), profile)
            for version, sealed, profile in rows
        },
    )


def _as_json(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list):
        return [*map(_as_json, value)]
    return str(value) if isinstance(value, UUID) else value
