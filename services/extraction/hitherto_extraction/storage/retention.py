"""Retention: how long users keep what, and which memories and messages have exceeded it.

It only finds them; `removal` deletes. The clock is the database's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from hitherto_shared.database.pool import Connection
from hitherto_shared.models import Scope

MAX_DAYS = 36_500

# How long each user's memories and messages are kept; a user's own setting takes precedence over
# the installation's, and 0 keeps them for ever.
_LIMITS = f"""
    SELECT u.tenant_id, u.user_id,
           least(coalesce(u.retention_days, %(memory_days)s), {MAX_DAYS}) AS memory_days,
           least(coalesce(u.message_retention_days, %(message_days)s), {MAX_DAYS}) AS message_days
    FROM users AS u
    WHERE u.tenant_id = %(tenant_id)s AND u.erased_at IS NULL"""

_MEMORY_CUTOFF = "now() - make_interval(days => l.memory_days)"
_MESSAGE_CUTOFF = "now() - make_interval(days => l.message_days)"

_ACCESS = """memory_access AS a ON a.tenant_id = m.tenant_id AND a.user_id = m.user_id
     AND a.memory_id = m.memory_id"""

# For that long, the user said nothing, no answer used the memory, and nobody changed it. Changes by
# upkeep do not count as use.
_EXPIRED = f"""l.memory_days > 0
  AND m.created_at < {_MEMORY_CUTOFF}
  AND coalesce(a.last_accessed_at, m.created_at) < {_MEMORY_CUTOFF}
  AND NOT EXISTS (
      SELECT FROM conversations AS c
      WHERE c.tenant_id = l.tenant_id AND c.user_id = l.user_id
        AND c.updated_at >= {_MEMORY_CUTOFF})
  AND NOT EXISTS (
      SELECT FROM history AS h
      WHERE h.tenant_id = m.tenant_id AND h.user_id = m.user_id AND h.memory_id = m.memory_id
        AND h.recorded_at >= {_MEMORY_CUTOFF}
        AND h.actor NOT IN ('consolidation', 'decay', 'retention'))"""

# By the time it was said; but a message that still waits for a job stays until it has been stored
# that long, however old it was on arrival.
_OUTLIVED = f"""l.message_days > 0
  AND (g.accepted_at < {_MESSAGE_CUTOFF}
       OR (g.said_at < {_MESSAGE_CUTOFF}
           AND g.message_no <= (
               SELECT c.watermark FROM conversations AS c
               WHERE c.tenant_id = g.tenant_id AND c.user_id = g.user_id
                 AND c.conversation_id = g.conversation_id)
           AND NOT EXISTS (
               SELECT FROM jobs AS j
               WHERE j.tenant_id = g.tenant_id AND j.user_id = g.user_id
                 AND j.conversation_id = g.conversation_id
                 AND j.state NOT IN ('succeeded', 'cancelled')
                 AND g.message_no BETWEEN j.range_from AND j.range_to)))"""

_MEMORIES_OF = f"""memories AS m ON m.tenant_id = l.tenant_id AND m.user_id = l.user_id
LEFT JOIN {_ACCESS}"""
_MESSAGES_OF = "messages AS g ON g.tenant_id = l.tenant_id AND g.user_id = l.user_id"

# Across users: a bounded scan over the users of a tenant, with those marked who have something to
# delete.
_DUE = f"""
WITH l AS MATERIALIZED ({_LIMITS} AND u.user_id > %(after)s ORDER BY u.user_id LIMIT %(limit)s),
due AS (
    SELECT l.user_id FROM l JOIN {_MEMORIES_OF} WHERE {_EXPIRED}
    UNION
    SELECT l.user_id FROM l JOIN {_MESSAGES_OF} WHERE {_OUTLIVED}
)
SELECT l.user_id, due.user_id IS NOT NULL
FROM l LEFT JOIN due USING (user_id)
ORDER BY l.user_id
"""

_EXPIRED_MEMORIES = f"""
WITH l AS MATERIALIZED ({_LIMITS} AND u.user_id = %(user_id)s)
SELECT m.memory_id
FROM l JOIN {_MEMORIES_OF}
WHERE {_EXPIRED} AND (%(among)s::uuid[] IS NULL OR m.memory_id = ANY(%(among)s))
ORDER BY m.memory_id
LIMIT %(limit)s
"""

_OUTLIVED_MESSAGES = f"""
WITH l AS MATERIALIZED ({_LIMITS} AND u.user_id = %(user_id)s)
SELECT g.conversation_id, g.message_no, g.message_id
FROM l JOIN {_MESSAGES_OF}
WHERE {_OUTLIVED}
  AND (%(among)s::text[] IS NULL OR g.conversation_id = ANY(%(among)s))
ORDER BY g.conversation_id, g.message_no
LIMIT %(limit)s
"""

# Across users, or of one.
_COUNT = f"""
WITH l AS MATERIALIZED ({_LIMITS} /* of */),
expired AS MATERIALIZED (
    SELECT m.tenant_id, m.user_id, m.memory_id FROM l JOIN {_MEMORIES_OF} WHERE {_EXPIRED})
SELECT (SELECT count(*) FROM expired),
       (SELECT count(*) FROM expired JOIN memory_versions USING (tenant_id, user_id, memory_id)),
       (SELECT count(*) FROM expired JOIN memory_embeddings USING (tenant_id, user_id, memory_id))
       + (SELECT count(*) FROM expired
          JOIN memory_source_embeddings USING (tenant_id, user_id, memory_id))
       + (SELECT count(*) FROM expired
          JOIN sealed_embeddings USING (tenant_id, user_id, memory_id)),
       (SELECT count(*) FROM l JOIN {_MESSAGES_OF} WHERE {_OUTLIVED})
"""
_COUNT_OF_ONE = _COUNT.replace("/* of */", "AND u.user_id = %(user_id)s")

_ANY_LIMIT = """
SELECT EXISTS (
    SELECT FROM users
    WHERE tenant_id = %(tenant_id)s AND erased_at IS NULL
      AND (coalesce(retention_days, %(memory_days)s) > 0
           OR coalesce(message_retention_days, %(message_days)s) > 0))
"""


@dataclass(frozen=True, slots=True)
class KeepFor:
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
    connection: Connection, tenant_id: str, keep: KeepFor, *, after: str, limit: int
) -> tuple[list[str], str | None]:
    """Among the next `limit` users those with something to delete, and the last one scanned.

    None as the last one is the end.
    """
    cursor = await connection.execute(
        _DUE, {**_of(tenant_id, keep), "after": after, "limit": limit}
    )
    rows = await cursor.fetchall()
    return [row[0] for row in rows if row[1]], rows[-1][0] if rows else None


async def find_memories(
    connection: Connection,
    scope: Scope,
    keep: KeepFor,
    *,
    limit: int,
    among: Sequence[UUID] | None = None,
) -> list[UUID]:
    """Memories of the user past their retention; `among` restricts the check to these."""
    cursor = await connection.execute(
        _EXPIRED_MEMORIES,
        {
            **_of(scope.tenant_id, keep),
            "user_id": scope.user_id,
            "among": None if among is None else list(among),
            "limit": limit,
        },
    )
    return [row[0] for row in await cursor.fetchall()]


async def find_messages(
    connection: Connection,
    scope: Scope,
    keep: KeepFor,
    *,
    limit: int,
    among: Sequence[str] | None = None,
) -> list[HeldMessage]:
    """Messages of the user past their retention; `among` restricts the check to conversations."""
    cursor = await connection.execute(
        _OUTLIVED_MESSAGES,
        {
            **_of(scope.tenant_id, keep),
            "user_id": scope.user_id,
            "among": None if among is None else list(among),
            "limit": limit,
        },
    )
    return [HeldMessage(*row) for row in await cursor.fetchall()]


async def count(
    connection: Connection, tenant_id: str, keep: KeepFor, *, user_id: str | None
) -> tuple[int, int, int, int]:
    """How much is due now: memories, their versions, their vectors, messages."""
    cursor = await connection.execute(
        _COUNT if user_id is None else _COUNT_OF_ONE,
        {**_of(tenant_id, keep), "user_id": user_id},
    )
    row = await cursor.fetchone()
    assert row is not None
    return row[0], row[1], row[2], row[3]


async def anything_kept_for_a_time(connection: Connection, tenant_id: str, keep: KeepFor) -> bool:
    """Whether any user of the tenant has a retention at all."""
    cursor = await connection.execute(_ANY_LIMIT, _of(tenant_id, keep))
    row = await cursor.fetchone()
    return row is not None and bool(row[0])


def _of(tenant_id: str, keep: KeepFor) -> dict[str, Any]:
    return {
        "tenant_id": tenant_id,
        "memory_days": keep.memory_days,
        "message_days": keep.message_days,
    }
