"""Reads the history of memories and profiles, newest first, in pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from hitherto_retrieval.storage.statement import Rows, Statement
from hitherto_shared.models import Scope

# A page starts after the last event of the previous page. Times are the database's; ids only order
# events of the same instant.
_OF_MEMORY = """
SELECT event_id, recorded_at, action, version, actor, reason, job_id, before, after,
       related_memory_id AS related
FROM history
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND subject = 'memory' AND memory_id = %(memory_id)s
  AND (%(after_at)s::timestamptz IS NULL
       OR (recorded_at, event_id) < (%(after_at)s::timestamptz, %(after_id)s::uuid))
ORDER BY recorded_at DESC, event_id DESC
LIMIT %(limit)s
"""

_OF_PROFILE = """
SELECT event_id, recorded_at, action, version, actor, reason, job_id, before, after,
       related_memory_id AS related
FROM history
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND subject = 'profile'
  AND (%(after_at)s::timestamptz IS NULL
       OR (recorded_at, event_id) < (%(after_at)s::timestamptz, %(after_id)s::uuid))
ORDER BY recorded_at DESC, event_id DESC
LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """One change; `before` and `after` hold the fields that changed."""

    event_id: UUID
    recorded_at: datetime
    action: str
    version: int
    actor: str
    reason: str
    job_id: UUID | None
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    related: UUID | None


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
        shown = [_changed(HistoryEvent(*row)) for row in rows[:limit]]
        last = shown[-1] if len(rows) > limit else None
        return shown, [last.recorded_at.isoformat(), str(last.event_id)] if last else None

    after_at, after_id = after or (None, None)
    values |= {"after_at": after_at, "after_id": after_id, "limit": limit + 1}
    return Statement(sql, values, read)


def _changed(event: HistoryEvent) -> HistoryEvent:
    """The event with only the fields that differ; all fields for a creation."""
    before, after = event.before or {}, event.after or {}
    if before:
        names = [n for n in {**before, **after} if before.get(n) != after.get(n)]
        before = {name: before[name] for name in names if name in before}
        after = {name: after[name] for name in names if name in after}
    return replace(event, before=before, after=after)
