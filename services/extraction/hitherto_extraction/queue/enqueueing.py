"""The queue of jobs, as those who add to it see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from hitherto_extraction.queue.attempts import WHY_NOT
from hitherto_extraction.queue.jobs import announce
from hitherto_extraction.queue.limit import QueueLimit
from hitherto_shared.database.pool import Connection
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.identifiers import uuid7
from hitherto_shared.models import Job
from hitherto_shared.tracing import event, traceparent

# A job that has ended is one that was refused, or work that was done within the call. Of what was
# refused nothing is left to read, whoever runs the job again. A job for
# whatever has been appended by the time it is first claimed has no range yet: there is one for a
# conversation. While it waits, further messages delay it until they settle, but never beyond ten
# times the debounce. The trace is that of the call that queued it.
_ENQUEUE = """
INSERT INTO jobs (job_id, tenant_id, user_id, kind, state, conversation_id, range_from, range_to,
                  done_to, params, result, max_attempts, run_after, started_at, finished_at, error,
                  error_reason, trace_parent)
VALUES (%(job_id)s, %(tenant_id)s, %(user_id)s, %(kind)s, %(state)s, %(conversation_id)s,
        %(range_from)s, %(range_to)s,
        CASE %(state)s WHEN 'cancelled' THEN %(range_to)s ELSE %(range_from)s::int - 1 END,
        %(params)s, %(result)s,
        %(max_attempts)s, clock_timestamp() + make_interval(secs => %(debounce)s),
        CASE WHEN %(state)s = 'succeeded' THEN clock_timestamp() END,
        CASE WHEN %(state)s <> 'queued' THEN clock_timestamp() END, %(error)s, %(error_reason)s,
        %(trace_parent)s)
ON CONFLICT (tenant_id, user_id, conversation_id)
    WHERE state IN ('queued', 'failed', 'running') AND range_to IS NULL
      AND kind = 'memory-extraction'
DO UPDATE SET run_after = CASE WHEN jobs.state = 'queued'
    THEN least(jobs.created_at + make_interval(secs => 10 * %(debounce)s), EXCLUDED.run_after)
    ELSE jobs.run_after END
RETURNING job_id, tenant_id, kind, state, user_id, conversation_id, attempt, max_attempts,
       created_at, started_at, finished_at, error, result, range_from, range_to, done_to, params
"""

# Across users. A tenant whose last job of the schedule has not ended gets no second one, because
# that one will do the same work.
_ENQUEUE_FOR_SLOT = """
INSERT INTO jobs (job_id, tenant_id, kind, params, max_attempts, schedule, slot)
SELECT wanted.job_id, wanted.tenant_id, %(kind)s, %(params)s, %(max_attempts)s, %(schedule)s,
       %(slot)s
FROM unnest(%(job_ids)s::uuid[], %(tenant_ids)s::text[]) AS wanted (job_id, tenant_id)
WHERE NOT EXISTS (
    SELECT FROM jobs AS j
    WHERE j.tenant_id = wanted.tenant_id AND j.schedule = %(schedule)s
      AND j.state IN ('queued', 'failed', 'running'))
ON CONFLICT (tenant_id, schedule, slot) WHERE schedule IS NOT NULL DO NOTHING
RETURNING tenant_id, job_id
"""


EXTRACTION = "memory-extraction"

_UNSET: Mapping[str, Any] = {
    "state": "queued",
    "conversation_id": None,
    "range_from": None,
    "range_to": None,
    "params": Jsonb({}),
    "result": Jsonb({}),
    "debounce": 0.0,
    "error": "",
    "error_reason": "",
    "trace_parent": None,
}


@dataclass(frozen=True, slots=True)
class JobQueue:
    """Queues jobs in the transactions of its callers, who check `limit`, that of waiting jobs."""

    max_attempts: int
    limit: QueueLimit = field(default_factory=QueueLimit)

    async def enqueue(
        self,
        connection: Connection,
        tenant_id: str,
        kind: str,
        *,
        user_id: str | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> Job:
        """Queue work on one user's data, or, without `user_id`, on the whole tenant's.

        `connection` is the caller's, so that the job commits together with its subject. Jobs of one
        user run one after another. `params` are ids and settings for this kind, never a user's
        text.
        """
        return await self._queue(
            connection,
            tenant_id=tenant_id,
            user_id=user_id,
            kind=kind,
            params=Jsonb(dict(params or {})),
        )

    async def enqueue_of(
        self, user: UserRows, kind: str, params: Mapping[str, Any], *, debounce_seconds: float = 0.0
    ) -> Job:
        """Queue work on one user's data; see `enqueue`."""
        return await self._queue(
            user.connection,
            **user.scope.bind(kind=kind, params=Jsonb(dict(params))),
            debounce=debounce_seconds,
        )

    async def enqueue_range(
        self, user: UserRows, conversation_id: str, *, range_from: int, range_to: int
    ) -> Job:
        """Queue the extraction of messages `range_from`..`range_to` (both included)."""
        return await self._queue(
            user.connection,
            **user.scope.bind(kind=EXTRACTION, conversation_id=conversation_id),
            range_from=range_from,
            range_to=range_to,
        )

    async def enqueue_open(
        self, user: UserRows, conversation_id: str, *, debounce_seconds: float
    ) -> Job:
        """Queue, or delay, the one job that will take what has been appended when it starts."""
        return await self._queue(
            user.connection,
            **user.scope.bind(kind=EXTRACTION, conversation_id=conversation_id),
            debounce=debounce_seconds,
        )

    async def enqueue_cancelled(
        self,
        user: UserRows,
        conversation_id: str | None,
        why: str,
        *,
        kind: str = EXTRACTION,
        range_from: int | None = None,
        range_to: int | None = None,
    ) -> Job:
        """A job that tells by a key of `WHY_NOT` why input was not accepted.

        Messages that it owns are never read; a repeated submission finds it.
        """
        return await _insert(
            user.connection,
            **user.scope.bind(kind=kind, conversation_id=conversation_id),
            range_from=range_from,
            range_to=range_to,
            state="cancelled",
            max_attempts=self.max_attempts,
            error=f"{why}: {WHY_NOT[why]}",
            error_reason=why,
        )

    async def enqueue_for_slot(
        self,
        connection: Connection,
        schedule: str,
        slot: datetime,
        *,
        kind: str,
        tenant_ids: Sequence[str],
    ) -> dict[str, UUID]:
        """Queue one job per tenant for a slot; returns the queued job by tenant.

        The caller notifies the workers.
        """
        values = {
            "schedule": schedule,
            "slot": slot,
            "kind": kind,
            "params": Jsonb({}),
            "job_ids": [uuid7() for _ in tenant_ids],
            "tenant_ids": list(tenant_ids),
            "max_attempts": self.max_attempts,
        }
        return dict(await connection.fetch_rows(_ENQUEUE_FOR_SLOT, values))

    async def _queue(self, connection: Connection, **values: Any) -> Job:
        """Insert a job that workers are to take, and name it in the current span."""
        job = await _insert(
            connection, **values, max_attempts=self.max_attempts, trace_parent=traceparent()
        )
        await announce(connection, "queued")
        event("job queued", {"hitherto.job.id": str(job.job_id), "hitherto.job.kind": job.kind})
        return job


async def enqueue_done(
    connection: Connection,
    tenant_id: str,
    kind: str,
    *,
    user_id: str | None,
    params: Mapping[str, Any],
    result: Mapping[str, Any],
) -> Job:
    """Record completed work, so that the caller gets a job as for any other."""
    return await _insert(
        connection,
        tenant_id=tenant_id,
        user_id=user_id,
        kind=kind,
        state="succeeded",
        params=Jsonb(dict(params)),
        result=Jsonb(dict(result)),
        max_attempts=1,
    )


async def _insert(connection: Connection, **values: Any) -> Job:
    [job] = await connection.fetch(Job, _ENQUEUE, {"job_id": uuid7(), **_UNSET, **values})
    return job
