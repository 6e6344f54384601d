"""Reads whole memories: by id, by importance and use, and in pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any
from uuid import UUID

from hitherto_retrieval.storage.filters import Filters
from hitherto_retrieval.storage.standing import Standing, standing_of
from hitherto_retrieval.storage.statement import Rows, Statement
from hitherto_shared.database.arrays import Uuids
from hitherto_shared.models import Memory, Scope, SourceRef

_BY_IDS = """
SELECT m.*
FROM unnest(%(memory_ids)s::uuid[]) WITH ORDINALITY AS wanted (memory_id, place)
JOIN @whole_memories AS m ON m.memory_id = wanted.memory_id
ORDER BY wanted.place
"""

_TOLD_BY_IDS = """
SELECT m.*
FROM unnest(%(memory_ids)s::uuid[]) WITH ORDINALITY AS wanted (memory_id, place)
JOIN @whole_memories AS m ON m.memory_id = wanted.memory_id
WHERE m.memory_id NOT IN (SELECT u.memory_id FROM @untold(%(memory_ids)s::uuid[]) AS u)
ORDER BY wanted.place
"""

_EXISTS = """
SELECT EXISTS (
    SELECT FROM memories
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = %(memory_id)s)
"""

# The newest `fresh` memories of the last seven days have places of their own, so that new memories
# appear; the other places go to the most important, then to the most recently used. All share one
# order. Memories below the importance of the last place are not read: the index returns the best of
# each status in order. Usage is looked up one by one, whatever the planner's estimate.
_TOP = """
WITH fresh AS (
    SELECT memory_id, importance, created_at FROM memories
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
      AND status IN ('active', 'achieved')
      AND (expires_at IS NULL OR expires_at > now()) AND (%(doubtful)s OR doubt IS NULL)
      AND created_at > now() - interval '7 days'
    ORDER BY created_at DESC, memory_id DESC
    LIMIT %(fresh)s
), eligible AS (
    (SELECT memory_id, importance, created_at, false AS is_fresh FROM memories
     WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND status = 'active'
       AND (expires_at IS NULL OR expires_at > now()) AND (%(doubtful)s OR doubt IS NULL)
     ORDER BY importance DESC
     FETCH FIRST %(limit)s ROWS WITH TIES)
    UNION ALL
    (SELECT memory_id, importance, created_at, false FROM memories
     WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND status = 'achieved'
       AND (expires_at IS NULL OR expires_at > now()) AND (%(doubtful)s OR doubt IS NULL)
     ORDER BY importance DESC
     FETCH FIRST %(limit)s ROWS WITH TIES)
), placed AS (
    SELECT m.memory_id, m.importance, coalesce(a.last_accessed_at, m.created_at) AS used_at
    FROM (SELECT *, true AS is_fresh FROM fresh
          UNION ALL
          SELECT * FROM eligible WHERE memory_id NOT IN (SELECT memory_id FROM fresh)) AS m
    LEFT JOIN LATERAL (
        SELECT last_accessed_at FROM memory_access
        WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = m.memory_id
        LIMIT 1) AS a ON true
    ORDER BY m.is_fresh DESC, m.importance DESC, used_at DESC, m.memory_id DESC
    LIMIT %(limit)s
)
SELECT m.*
FROM placed
JOIN @whole_memories AS m ON m.memory_id = placed.memory_id
ORDER BY placed.importance DESC, placed.used_at DESC, placed.memory_id DESC
"""

_NEWEST = """
SELECT m.*
FROM (SELECT memory_id, created_at
      FROM memories
      WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
        AND status IN ('active', 'achieved') AND (expires_at IS NULL OR expires_at > now())
        AND (%(doubtful)s OR doubt IS NULL)
      ORDER BY created_at DESC, memory_id DESC
      LIMIT %(limit)s) AS newest
JOIN @whole_memories AS m ON m.memory_id = newest.memory_id
ORDER BY newest.created_at DESC, newest.memory_id DESC
"""

_STANDING = """
SELECT memory_id, true, '{}'::uuid[]
FROM memories
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND doubt IS NOT NULL
UNION ALL
SELECT memory_id, false, may_replace
FROM memories
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND may_replace <> '{}'
"""

# A page of memories in one of four orders. Importance and use change while somebody reads page by
# page.
_PAGE = """
WITH listed AS MATERIALIZED (
    SELECT m.memory_id,
           sort_key_of_memory(
               %(order_by)s, m.importance, m.created_at, a.last_accessed_at) AS sort_key,
           greatest(
               m.updated_at,
               CASE WHEN %(order_by)s = 'last_accessed_at' AND a.last_accessed_at <= now()
                    THEN a.last_accessed_at END) AS changed_at
    FROM @filtered_memories AS m
    LEFT JOIN memory_access AS a ON a.tenant_id = %(tenant_id)s AND a.user_id = %(user_id)s
         AND a.memory_id = m.memory_id
    WHERE %(doubtful)s OR m.memory_id NOT IN (
        SELECT memory_id FROM memories
        WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND doubt IS NOT NULL)
)
SELECT memory_id, sort_key, total, changed_at, read_at FROM @page_of_listed AS p ORDER BY place
"""


_SOURCES = [each.name for each in fields(Memory)].index("sources")


def by_ids(scope: Scope, memory_ids: Sequence[UUID]) -> Statement[list[Memory]]:
    """Whole memories in the order of their ids; ids that do not belong to the user are left out."""
    return Statement(_BY_IDS, scope.bind(memory_ids=Uuids(memory_ids)), whole_memories)


def told_by_ids(scope: Scope, memory_ids: Sequence[UUID]) -> Statement[list[Memory]]:
    """Those of `by_ids` that are told: neither forgotten nor represented by what is forgotten."""
    return Statement(_TOLD_BY_IDS, scope.bind(memory_ids=Uuids(memory_ids)), whole_memories)


def exists(scope: Scope, memory_id: UUID) -> Statement[bool]:
    """Whether the user has this memory, in any status."""
    return Statement(_EXISTS, scope.bind(memory_id=memory_id), lambda rows: bool(rows[0][0]))


def standing(scope: Scope) -> Statement[Standing]:
    """Which of the user's memories are in doubt, and which may replace others."""
    return Statement(_STANDING, scope.parameters, standing_of)


def top(scope: Scope, *, limit: int, fresh: int, doubtful: bool = True) -> Statement[list[Memory]]:
    """The top list (D1); `fresh` of its places go to the newest memories of the last week.

    Without `doubtful`, of those that are not in doubt.
    """
    values = scope.bind(limit=limit, fresh=fresh, doubtful=doubtful)
    return Statement(_TOP, values, whole_memories)


def newest(scope: Scope, *, limit: int, doubtful: bool = True) -> Statement[list[Memory]]:
    """The newest current memories; without `doubtful`, of those that are not in doubt."""
    return Statement(_NEWEST, scope.bind(limit=limit, doubtful=doubtful), whole_memories)


class MemoryPage:
    """A page of a list: its ids, the start of the next page, and the total number.

    Args:
        rows: At least one more than `limit` if another page follows.
        limit: How many the page has.
        since: When the first page was read; empty for this one.
    """

    def __init__(self, rows: Rows, limit: int, since: str = "") -> None:
        self.ids: list[UUID] = [row[0] for row in rows[:limit]]
        last = rows[limit - 1] if len(rows) > limit else None
        self.following: tuple[str, ...] | None = None
        if last is not None:
            memory_id, key, _, changed, now = last
            self.following = (key, str(memory_id), since or now, changed or "")
        self.total = int(rows[0][2]) if rows else 0


def page(
    scope: Scope,
    filters: Filters,
    *,
    order_by: str,
    after: tuple[str, ...] | None,
    limit: int,
) -> Statement[MemoryPage]:
    """A page of memories that pass `filters`; `by_ids` reads them whole.

    `after` is `MemoryPage.following` of the page before.
    """
    return listed(_PAGE, scope.bind(**filters.parameters()), order_by, after, limit)


def listed(
    statement: str,
    parameters: Mapping[str, Any],
    order_by: str,
    after: tuple[str, ...] | None,
    limit: int,
) -> Statement[MemoryPage]:
    """The page after `after` of a list of memories, whose statement has these `parameters` too."""
    key, memory_id, since, change = (*(after or ()), *[""] * 4)[:4]
    place = {
        "order_by": order_by,
        "after_key": key if after else None,
        "after_id": memory_id or None,
        "after_change": change or None,
        # When a memory was made does not change.
        "since": since if since and order_by != "created_at" else None,
        "limit": limit + 1,
    }
    return Statement(
        statement,
        {**parameters, **place},
        lambda rows: MemoryPage(rows, limit, since),
        planned_anew=True,
    )


def whole_memories(rows: Rows) -> list[Memory]:
    """Converts rows of whole memories, whose columns are the fields of `Memory` in order."""
    return [
        Memory(
            *(
                *row[:_SOURCES],
                [SourceRef(*pair) for pair in row[_SOURCES]],
                row[_SOURCES + 1],
                None,
                *row[_SOURCES + 2 : -1],
                [(SourceRef(*source), quote) for *source, quote in row[-1]],
            )
        )
        for row in rows
    ]
