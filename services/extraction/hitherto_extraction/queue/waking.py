"""Wakes jobs that wait, as soon as the condition that they wait for may hold again.

A job that wakes early only checks again: if the condition does not hold yet, it waits as before.
The statements concern all users and tenants, with the role hitherto_maintenance.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hitherto_extraction.queue.jobs import announce
from hitherto_shared.database.pool import Connection

OF_A_MODEL: Sequence[str] = ("MODEL_UNAVAILABLE", "MODEL_MISCONFIGURED")
"""Reasons of jobs that wait for a model."""
OF_THE_SETTINGS: Sequence[str] = (*OF_A_MODEL, "BUDGET_EXHAUSTED")
"""Reasons that changed settings may have removed by the time the service starts."""

# Those first that were checked longest ago, so that no single job is the probe every time. One that
# is locked may stay so for long, and holds up no other one.
_WAKE = """
UPDATE jobs SET run_after = clock_timestamp()
WHERE job_id = ANY(ARRAY(
    SELECT job_id FROM jobs
    WHERE state = 'failed' AND error_reason = ANY(%(reasons)s)
      AND (%(kinds)s::text[] IS NULL OR kind = ANY(%(kinds)s))
      AND run_after > clock_timestamp()
    ORDER BY run_after
    LIMIT %(most)s::bigint
    FOR UPDATE SKIP LOCKED))
"""


async def wake(
    connection: Connection,
    *,
    reasons: Collection[str],
    kinds: Collection[str] | None = None,
    most: int | None = None,
) -> int:
    """Wake `most` jobs of these kinds that wait for these reasons; None: all, of any kind.

    Returns how many.
    """
    kinds = None if kinds is None else list(kinds)
    values = {"reasons": list(reasons), "kinds": kinds, "most": most}
    async with connection.transaction():
        cursor = await connection.execute(_WAKE, values)
        if cursor.rowcount:
            await announce(connection, "queued")
        return cursor.rowcount
