"""The limit on the number of waiting jobs of a tenant.

Reconciliations do not count: an import of many people's memories, which queues them, would
otherwise keep the tenant's conversations out.

Above a thousand jobs, each process counts once a second, adds what it accepted since, and counts
again before these additions alone make it refuse a call. The limit is therefore approximate.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from hitherto_shared.database.pool import Connection
from hitherto_shared.errors import Exhausted

_COUNT = """
SELECT least(count(*) FILTER (WHERE kind <> 'reconciliation'), %(limit)s), count(*)
FROM jobs
WHERE tenant_id = %(tenant_id)s AND state IN ('queued', 'failed', 'running')
"""

_COUNT_ALWAYS_BELOW = 1_000
_COUNT_SECONDS = 1.0
_RETRY_SECONDS = 10.0


@dataclass(slots=True)
class _Counted:
    """The waiting jobs, those coming, all that were `read`, and until when that counts."""

    stored: int
    read: int
    until: float
    coming: int = 0

    @property
    def waiting(self) -> int:
        return self.stored + self.coming


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
        counted = self._counted.get(tenant_id)
        if (
            counted is None
            or counted.read + counted.coming < _COUNT_ALWAYS_BELOW
            or time.monotonic() >= counted.until
            # Those coming may include the jobs of this very call, sent a moment ago.
            or counted.stored < self.limit <= counted.waiting
        ):
            counted = await self._count(connection, tenant_id)
        if counted.waiting >= self.limit:
            raise Exhausted(
                f"{counted.waiting} jobs are queued, as many as HITHERTO_QUEUE_LIMIT allows; "
                "nothing was stored, try again later",
                reason="QUEUE_FULL",
                metadata={"queued": str(counted.waiting)},
                retry_after=_RETRY_SECONDS,
            )
        counted.coming += coming

    async def _count(self, connection: Connection, tenant_id: str) -> _Counted:
        until = time.monotonic() + _COUNT_SECONDS
        values = {"tenant_id": tenant_id, "limit": self.limit}
        [(stored, read)] = await connection.fetch_rows(_COUNT, values)
        counted = _Counted(stored, read, until)
        self._counted[tenant_id] = counted
        return counted
