"""How many jobs wait: in the metrics of an operator, and against the limit of each tenant.

Counting for the limit stops there. Above a thousand jobs, each process counts once a second, and
adds what it accepted since. The limit is therefore approximate: a call that arrives while there is
room may exceed it by its own jobs, and several processes by what they accept in a second.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from hitherto_shared import metrics
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.errors import Exhausted

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

_COUNT = """
SELECT count(*) FROM (
    SELECT FROM jobs
    WHERE tenant_id = %(tenant_id)s AND state IN ('queued', 'failed', 'running')
    LIMIT %(limit)s
) AS waiting
"""

_COUNT_ALWAYS_BELOW = 1_000
_COUNT_SECONDS = 1.0
_RETRY_SECONDS = 10.0


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


@dataclass(slots=True)
class _Counted:
    waiting: int
    until: float


@dataclass(frozen=True, slots=True)
class QueueLimit:
    """The limit of each tenant's queue; 0 means no limit."""

    limit: int = 0
    _counted: dict[str, _Counted] = field(default_factory=dict)

    async def require(self, connection: Connection, tenant_id: str, coming: int = 1) -> None:
        """Check that the tenant's queue has room; `coming` jobs then count as queued.

        Raises:
            Exhausted: It has no room.
        """
        if not self.limit:
            return
        counted = await self._count(connection, tenant_id)
        if counted.waiting >= self.limit:
            raise Exhausted(
                f"{counted.waiting} jobs are queued, as many as HITHERTO_QUEUE_LIMIT allows; "
                "nothing was stored, try again later",
                reason="QUEUE_FULL",
                metadata={"queued": str(counted.waiting)},
                retry_after=_RETRY_SECONDS,
            )
        counted.waiting += coming

    async def _count(self, connection: Connection, tenant_id: str) -> _Counted:
        counted = self._counted.get(tenant_id)
        now = time.monotonic()
        if counted is None or now >= counted.until or counted.waiting < _COUNT_ALWAYS_BELOW:
            values = {"tenant_id": tenant_id, "limit": self.limit}
            waiting = int(await connection.fetch_value(_COUNT, values))
            counted = _Counted(waiting, now + _COUNT_SECONDS)
            self._counted[tenant_id] = counted
        return counted
