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

# The one that was checked longest ago, so that no single job is the probe every time.
_WAKE_ONE = """
UPDATE jobs SET run_after = clock_timestamp()
WHERE job_id = (
    SELECT job_id FROM jobs
    WHERE state = 'failed' AND error_reason = ANY(%(reasons)s) AND kind = ANY(%(kinds)s)
      AND run_after > clock_timestamp()
    ORDER BY run_after
    LIMIT 1
    FOR UPDATE SKIP LOCKED)
"""

_WAKE_ALL = """
UPDATE jobs SET run_after = clock_timestamp()
WHERE state = 'failed' AND error_reason = ANY(%(reasons)s)
  AND (%(kinds)s::text[] IS NULL OR kind = ANY(%(kinds)s))
  AND run_after > clock_timestamp()
"""


async def wake_one(
    connection: Connection, *, reasons: Collection[str], kinds: Collection[str]
) -> int:
    """Wake one job of these kinds that waits for one of these reasons; returns 0 or 1."""
    return await _wake(connection, _WAKE_ONE, reasons, kinds)


async def wake_all(
    connection: Connection, *, reasons: Collection[str], kinds: Collection[str] | None = None
) -> int:
    """Wake all jobs of these kinds, or of any, that wait for these reasons; returns how many."""
    return await _wake(connection, _WAKE_ALL, reasons, kinds)


async def _wake(
    connection: Connection, statement: str, reasons: Collection[str], kinds: Collection[str] | None
) -> int:
    async with connection.transaction():
        cursor = await connection.execute(
            statement, {"reasons": list(reasons), "kinds": None if kinds is None else list(kinds)}
        )
        if cursor.rowcount:
            await announce(connection, "queued")
        return cursor.rowcount
