"""How many jobs wait, run or are dead, and for how long: for the metrics of an operator."""

from __future__ import annotations

from hitherto_shared import metrics
from hitherto_shared.database.pool import Connection, Database

_TIMEOUT_SECONDS = 10.0

# Across users. Each half has a partial index of its own.
_DEPTH = """
SELECT kind, state, count(*)::int,
       extract(epoch FROM max(statement_timestamp() - created_at))::float8
FROM jobs
WHERE state IN ('queued', 'failed', 'running')
GROUP BY kind, state
UNION ALL
SELECT kind, state, count(*)::int,
       extract(epoch FROM max(statement_timestamp() - created_at))::float8
FROM jobs
WHERE state = 'dead'
GROUP BY kind, state
"""


class QueueDepth:
    """Writes the depth of the queue into the metrics. The role is hitherto_maintenance."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._shown: set[tuple[str, str]] = set()

    async def measure(self) -> None:
        """Count the jobs of all users now."""
        found = await self._database.run(_depth, timeout=_TIMEOUT_SECONDS, repeatable=True)
        now = {(kind, state): (count, age) for kind, state, count, age in found}
        for at in self._shown - now.keys():
            now[at] = (0, 0.0)
        for (kind, state), (count, age) in now.items():
            metrics.JOBS.labels(kind, state).set(count)
            metrics.OLDEST_JOB_SECONDS.labels(kind, state).set(max(age, 0.0))
        self._shown.update(now)


async def _depth(connection: Connection) -> list[tuple[str, str, int, float]]:
    cursor = await connection.execute(_DEPTH.encode(), {})
    return [(row[0], row[1], row[2], row[3]) for row in await cursor.fetchall()]
