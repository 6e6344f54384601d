"""Retention: how long users keep what, and which memories and messages have exceeded it.

It only finds them; `removal` deletes. The clock is the database's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from hitherto_shared.database.pool import Connection
from hitherto_shared.database.user_rows import UserRows

MAX_DAYS = 36_500

# In each statement `l` holds the times before which a user's memories and messages have exceeded
# their retention.

# Across users: a bounded scan over the users of a tenant, with those marked who have expired items.
_DUE = """
WITH waiting AS MATERIALIZED @waiting_jobs(j.user_id), l AS MATERIALIZED (
    SELECT u.*
    FROM @retained_users(u.user_id) AS u
    WHERE u.user_id > %(after)s
    ORDER BY u.user_id
    LIMIT %(limit)s
), due AS (
    SELECT l.user_id
    FROM l
    JOIN @memory_ages(m.user_id) AS m ON m.user_id = l.user_id
    WHERE @is_unused(m, l)
    UNION
    SELECT l.user_id
    FROM l
    JOIN messages AS g ON g.tenant_id = l.tenant_id AND g.user_id = l.user_id
    WHERE @is_outlived(g, l, g.user_id)
)
SELECT l.user_id, due.user_id IS NOT NULL
FROM l LEFT JOIN due USING (user_id)
ORDER BY l.user_id
"""

_EXPIRED_MEMORIES = """
WITH l AS MATERIALIZED @retained_users(%(user_id)s)
SELECT m.memory_id
FROM l
CROSS JOIN @memory_ages(%(user_id)s) AS m
WHERE @is_unused(m, l) AND NOT (@keeps_untold(m))
  AND (%(among)s::uuid[] IS NULL OR m.memory_id = ANY(%(among)s))
ORDER BY m.memory_id
LIMIT %(limit)s
"""

_OUTLIVED_MESSAGES = """
WITH waiting AS MATERIALIZED @waiting_jobs(%(user_id)s), l AS MATERIALIZED (
    SELECT u.messages_before FROM @retained_users(%(user_id)s) AS u
)
SELECT g.conversation_id, g.message_no, g.message_id
FROM l
JOIN messages AS g ON g.tenant_id = %(tenant_id)s AND g.user_id = %(user_id)s
WHERE @is_outlived(g, l, %(user_id)s)
  AND (%(among)s::text[] IS NULL OR g.conversation_id = ANY(%(among)s))
ORDER BY g.conversation_id, g.message_no
LIMIT %(limit)s
"""

# Across users, or for one. Memories that stay because they keep words from being told count too: to
# find them takes sub-queries that a cluster cannot answer across users.
_COUNT = """
WITH waiting AS MATERIALIZED @waiting_jobs(j.user_id), l AS MATERIALIZED (
    SELECT u.*
    FROM @retained_users(u.user_id) AS u
    WHERE %(user_id)s::text IS NULL OR u.user_id = %(user_id)s
), expired AS MATERIALIZED (
    SELECT m.tenant_id, m.user_id, m.memory_id
    FROM l
    JOIN @memory_ages(m.user_id) AS m ON m.user_id = l.user_id
    WHERE @is_unused(m, l)
)
SELECT (SELECT count(*) FROM expired),
       (SELECT count(*) FROM expired JOIN memory_versions USING (tenant_id, user_id, memory_id)),
       (SELECT count(*) FROM expired JOIN memory_embeddings USING (tenant_id, user_id, memory_id))
       + (SELECT count(*) FROM expired
          JOIN memory_source_embeddings USING (tenant_id, user_id, memory_id))
       + (SELECT count(*) FROM expired
          JOIN sealed_embeddings USING (tenant_id, user_id, memory_id)),
       (SELECT count(*) FROM l
        JOIN messages AS g ON g.tenant_id = l.tenant_id AND g.user_id = l.user_id
        WHERE @is_outlived(g, l, g.user_id))
"""

# The nodes of a cluster are asked for a column.
_ANY_LIMIT = """
SELECT EXISTS (
    SELECT 1 FROM users
    WHERE tenant_id = %(tenant_id)s AND erased_at IS NULL
      AND (coalesce(retention_days, %(memory_days)s) > 0
           OR coalesce(message_retention_days, %(message_days)s) > 0))
"""


@dataclass(frozen=True, slots=True)
class RetentionDays:
    """The default number of days for memories and messages; 0: for ever."""

    memory_days: int
    message_days: int


@dataclass(frozen=True, slots=True)
class HeldMessage:
    """A message by its conversation, its number there, and the id its sender gave it."""

    conversation_id: str
    message_no: int
    message_id: str

    @property
    def key(self) -> tuple[str, int]:
        """Its key among the user's messages."""
        return self.conversation_id, self.message_no


async def find_due(
    connection: Connection, tenant_id: str, keep: RetentionDays, *, after: str, limit: int
) -> tuple[list[str], str | None]:
    """Among the next `limit` users those with something to delete, and the last one scanned.

    None as the last one is the end.
    """
    rows = await connection.fetch_rows(
        _DUE, {**_of(tenant_id, keep), "after": after, "limit": limit}
    )
    return [row[0] for row in rows if row[1]], rows[-1][0] if rows else None


async def find_memories(
    user: UserRows, keep: RetentionDays, *, limit: int, among: Sequence[UUID] | None = None
) -> list[UUID]:
    """Memories of the user past their retention; `among` restricts the check to these."""
    return await user.fetch_values(
        _EXPIRED_MEMORIES,
        **_of(user.scope.tenant_id, keep),
        among=None if among is None else list(among),
        limit=limit,
    )


async def find_messages(
    user: UserRows, keep: RetentionDays, *, limit: int, among: Sequence[str] | None = None
) -> list[HeldMessage]:
    """Messages of the user past their retention; `among` restricts the check to conversations."""
    return await user.fetch(
        HeldMessage,
        _OUTLIVED_MESSAGES,
        **_of(user.scope.tenant_id, keep),
        among=None if among is None else list(among),
        limit=limit,
    )


async def count(
    connection: Connection, tenant_id: str, keep: RetentionDays, *, user_id: str | None
) -> tuple[int, int, int, int]:
    """How much is due now: memories, their versions, their vectors, messages."""
    values = {**_of(tenant_id, keep), "user_id": user_id}
    [(memories, versions, vectors, messages)] = await connection.fetch_rows(_COUNT, values)
    return memories, versions, vectors, messages


async def anything_kept_for_a_time(
    connection: Connection, tenant_id: str, keep: RetentionDays
) -> bool:
    """Whether any user of the tenant has a retention at all."""
    return bool(await connection.fetch_value(_ANY_LIMIT, _of(tenant_id, keep)))


def _of(tenant_id: str, keep: RetentionDays) -> dict[str, Any]:
    return {
        "tenant_id": tenant_id,
        "memory_days": keep.memory_days,
        "message_days": keep.message_days,
        "most_days": MAX_DAYS,
    }
