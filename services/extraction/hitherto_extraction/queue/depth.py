"""How many jobs wait, in the metrics of an operator."""

from __future__ import annotations

from dataclasses import dataclass, field

from hitherto_shared import metrics
from hitherto_shared.database.pool import Database

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


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """Writes the depth of the queue into the metrics. The role is hitherto_maintenance."""

    database: Database
    _shown: set[tuple[str, str]] = field(default_factory=set)

    async def measure(self) -> None:
        """Count the jobs of all users now."""
        found = await self.database.run(
            lambda connection: connection.fetch_rows(_DEPTH, {}),
            timeout=_TIMEOUT_SECONDS,
            repeatable=True,
        )
        now = {(kind, state): (count, age) for kind, state, count, age in found}
        for at in self._shown - now.keys():
            now[at] = (0, 0.0)
        for (kind, state), (count, age) in now.items():
            metrics.JOBS.labels(kind, state).set(count)
            metrics.OLDEST_JOB_SECONDS.labels(kind, state).set(max(age, 0.0))
        self._shown.update(now)
