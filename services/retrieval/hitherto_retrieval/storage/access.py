"""Writes this service's counts in batches: memories returned, queries embedded."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from hitherto_shared.database.arrays import Integers, Texts, Uuids
from hitherto_shared.database.pool import Connection

# Memories deleted in the meantime are skipped; rows are locked in one order.
_COUNT = """
INSERT INTO memory_access (tenant_id, user_id, memory_id, access_count, last_accessed_at)
SELECT m.tenant_id, returned.user_id, returned.memory_id, returned.times, now()
FROM unnest(%(user_ids)s::text[], %(memory_ids)s::uuid[], %(times)s::int[])
     AS returned (user_id, memory_id, times)
JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = returned.user_id
     AND m.memory_id = returned.memory_id
ORDER BY returned.user_id, returned.memory_id
ON CONFLICT (tenant_id, user_id, memory_id) DO UPDATE
SET access_count = memory_access.access_count + EXCLUDED.access_count,
    last_accessed_at = EXCLUDED.last_accessed_at
"""

# The extraction service charges for them (B14).
_COUNT_QUESTIONS = """
INSERT INTO query_usage (tenant_id, model, calls, tokens)
VALUES (%(tenant_id)s, %(model)s, %(calls)s, %(tokens)s)
ON CONFLICT (tenant_id, model) DO UPDATE
SET calls = query_usage.calls + EXCLUDED.calls, tokens = query_usage.tokens + EXCLUDED.tokens
"""

Returned = tuple[str, UUID, int]
"""User, memory, and number of times."""


async def count_access(
    connection: Connection, tenant_id: str, returned: Sequence[Returned]
) -> None:
    """Add to the access counts of one tenant's memories."""
    await connection.execute(
        _COUNT,
        {
            "tenant_id": tenant_id,
            "user_ids": Texts([user_id for user_id, _, _ in returned]),
            "memory_ids": Uuids([memory_id for _, memory_id, _ in returned]),
            "times": Integers([times for _, _, times in returned]),
        },
    )


async def count_questions(
    connection: Connection, tenant_id: str, model: str, *, calls: int, tokens: int
) -> None:
    """Add to the usage to charge to a tenant for queries that `model` embedded."""
    await connection.execute(
        _COUNT_QUESTIONS,
        {"tenant_id": tenant_id, "model": model, "calls": calls, "tokens": tokens},
    )
