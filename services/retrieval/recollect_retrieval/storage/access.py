"""Counting that memories were told: the one thing this service writes, in batches."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from recollect_shared.database.pool import Connection

# Memories that vanished in between are passed over; locks are taken in one order.
_COUNT = """
INSERT INTO memory_access (tenant_id, user_id, memory_id, access_count, last_accessed_at)
SELECT told.tenant_id, told.user_id, told.memory_id, told.times, now()
FROM unnest(%(tenant_ids)s::text[], %(user_ids)s::text[], %(memory_ids)s::uuid[],
            %(times)s::bigint[]) AS told (tenant_id, user_id, memory_id, times)
JOIN memories AS m ON m.tenant_id = told.tenant_id AND m.user_id = told.user_id
     AND m.memory_id = told.memory_id
ORDER BY told.tenant_id, told.user_id, told.memory_id
ON CONFLICT (tenant_id, user_id, memory_id) DO UPDATE
SET access_count = memory_access.access_count + EXCLUDED.access_count,
    last_accessed_at = EXCLUDED.last_accessed_at
"""

Told = tuple[str, str, UUID, int]
"""Tenant, user, memory, and how often."""


async def count_access(connection: Connection, told: Sequence[Told]) -> None:
    """Add to the access counters."""
    await connection.execute(
        _COUNT,
        {
            "tenant_ids": [item[0] for item in told],
            "user_ids": [item[1] for item in told],
            "memory_ids": [item[2] for item in told],
            "times": [item[3] for item in told],
        },
    )
