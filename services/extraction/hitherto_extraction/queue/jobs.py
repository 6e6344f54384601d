"""Jobs as callers use them: look up, list, retry and cancel.

Each function runs on the caller's connection and so in its transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from hitherto_shared.database.arrays import fields_of
from hitherto_shared.database.pool import Connection
from hitherto_shared.database.signals import Signals
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.errors import NotFound, WrongState
from hitherto_shared.models import Job

CHANNEL = "hitherto_jobs"
RETRIED = "retried"
"""Signalled in place of a job's id when jobs were retried by hand."""


class JobSignals(Signals):
    """Listens for changes of jobs while it runs."""

    def __init__(self, conninfo: str | None) -> None:
        super().__init__(CHANNEL, conninfo, later="jobs that another process accepted start")


# The job that owns a message, newest first: a range may have been run again.
_COVERING = """
SELECT job_id, tenant_id, kind, state, user_id, conversation_id, attempt, max_attempts,
       created_at, started_at, finished_at, error, result, range_from, range_to, done_to, params
FROM jobs
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND conversation_id = %(conversation_id)s
  AND range_from <= %(message_no)s AND range_to >= %(message_no)s
ORDER BY sequence_no DESC
LIMIT 1
"""

_ANNOUNCE = "SELECT pg_notify(%s, %s)"

_GET = """
SELECT job_id, tenant_id, kind, state, user_id, conversation_id, attempt, max_attempts,
       created_at, started_at, finished_at, error, result, range_from, range_to, done_to, params
FROM jobs
WHERE tenant_id = %(tenant_id)s AND job_id = ANY(%(job_ids)s)
"""

# Newest first; `before` is the sequence number at which the previous page ended.
_LIST = """
SELECT job_id, tenant_id, kind, state, user_id, conversation_id, attempt, max_attempts,
       created_at, started_at, finished_at, error, result, range_from, range_to, done_to, params,
       sequence_no
FROM jobs
WHERE tenant_id = %(tenant_id)s
  AND (%(user_id)s::text IS NULL OR user_id = %(user_id)s)
  AND (%(conversation_id)s::text IS NULL OR conversation_id = %(conversation_id)s)
  AND (%(states)s::text[] IS NULL OR state = ANY(%(states)s))
  AND (%(kinds)s::text[] IS NULL OR kind = ANY(%(kinds)s))
  AND (%(before)s::bigint IS NULL OR sequence_no < %(before)s)
ORDER BY sequence_no DESC
LIMIT %(limit)s
"""

# Of a worker only as long as its claim is current.
_OWN_RANGE = """
UPDATE jobs SET range_from = %(range_from)s, range_to = %(range_to)s, done_to = %(range_from)s - 1
WHERE tenant_id = %(tenant_id)s AND job_id = %(job_id)s AND range_to IS NULL
  AND state IN ('queued', 'failed', 'running')
  AND (%(claim_no)s::bigint IS NULL OR (claim_no = %(claim_no)s AND state = 'running'))
"""

_COUNT = """
SELECT count(*)
FROM jobs
WHERE tenant_id = %(tenant_id)s
  AND (%(user_id)s::text IS NULL OR user_id = %(user_id)s)
  AND (%(conversation_id)s::text IS NULL OR conversation_id = %(conversation_id)s)
  AND (%(states)s::text[] IS NULL OR state = ANY(%(states)s))
  AND (%(kinds)s::text[] IS NULL OR kind = ANY(%(kinds)s))
"""

_RETRY = """
UPDATE jobs
SET state = 'queued', attempt = 0, run_after = clock_timestamp(), finished_at = NULL,
    error = '', error_reason = '', outage_since = NULL
WHERE tenant_id = %(tenant_id)s AND job_id = %(job_id)s
  AND (state = 'failed'
       OR state IN ('dead', 'cancelled') AND (range_to IS NOT NULL OR conversation_id IS NULL))
RETURNING job_id
"""

# Rows that another call or a worker holds are left to it.
_RETRY_ALL = """
WITH chosen AS (
    SELECT job_id
    FROM jobs
    WHERE tenant_id = %(tenant_id)s
      AND state = ANY(%(states)s)
      AND (state = 'failed' OR range_to IS NOT NULL OR conversation_id IS NULL)
      AND (%(user_id)s::text IS NULL OR user_id = %(user_id)s)
      AND (%(reasons)s::text[] IS NULL OR error_reason = ANY(%(reasons)s))
      AND (%(kinds)s::text[] IS NULL OR kind = ANY(%(kinds)s))
      AND (%(since)s::timestamptz IS NULL OR created_at >= %(since)s)
      AND (%(until)s::timestamptz IS NULL OR created_at < %(until)s)
    ORDER BY sequence_no
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
UPDATE jobs
SET state = 'queued', attempt = 0, run_after = clock_timestamp(), finished_at = NULL,
    error = '', error_reason = '', outage_since = NULL
FROM chosen
WHERE jobs.tenant_id = %(tenant_id)s AND jobs.job_id = chosen.job_id
RETURNING jobs.user_id, jobs.job_id
"""

# A running job is cancelled by removing its claim: any later commit of its worker fails the fence.
# What a job has not read by then is left to RetryJob.
_CANCEL = """
UPDATE jobs
SET state = 'cancelled', finished_at = clock_timestamp(), lease_until = NULL,
    claim_no = claim_no + 1, error = %(reason)s, error_reason = %(reason)s
WHERE tenant_id = %(tenant_id)s AND job_id = ANY(%(job_ids)s)
  AND (%(user_id)s::text IS NULL OR user_id = %(user_id)s)
  AND state IN ('queued', 'failed', 'running')
RETURNING job_id
"""

# The newest back-fill to a model, whichever tenant requested it. It is about no user: by that an
# index finds it among finished jobs, which stay for ever.
_LATEST_BACKFILL = """
SELECT job_id, tenant_id, kind, state, user_id, conversation_id, attempt, max_attempts,
       created_at, started_at, finished_at, error, result, range_from, range_to, done_to, params
FROM jobs
WHERE user_id IS NULL AND kind = 'reembedding' AND params ->> 'model' = %(model)s
ORDER BY sequence_no DESC
LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs to list; None means all."""

    user_id: str | None = None
    conversation_id: str | None = None
    states: Sequence[str] | None = None
    kinds: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class RetryFilter:
    """Which jobs to retry: in one of these states, and matching the rest; None means any."""

    states: Sequence[str]
    user_id: str | None = None
    reasons: Sequence[str] | None = None
    kinds: Sequence[str] | None = None
    since: datetime | None = None
    until: datetime | None = None


async def find_covering(user: UserRows, conversation_id: str, message_no: int) -> Job | None:
    """The newest job whose range holds a message."""
    return await user.fetch_one(
        Job, _COVERING, conversation_id=conversation_id, message_no=message_no
    )


async def latest_backfill(connection: Connection, model: str) -> Job | None:
    """The newest job that back-fills the vectors of this model."""
    return await connection.fetch_one(Job, _LATEST_BACKFILL, {"model": model})


async def get_job(
    connection: Connection, tenant_id: str, job_id: UUID, *, only_user: str | None = None
) -> Job:
    """One job.

    Raises:
        NotFound: The tenant, or the only user the caller may act for, has no such job.
    """
    found = await get_jobs(connection, tenant_id, [job_id])
    if not found or only_user not in (None, found[0].user_id):
        raise job_not_found(str(job_id))
    return found[0]


async def get_jobs(connection: Connection, tenant_id: str, job_ids: Sequence[UUID]) -> list[Job]:
    """The jobs with these ids, in order; ids that are gone are left out."""
    values = {"tenant_id": tenant_id, "job_ids": list(job_ids)}
    found = {job.job_id: job for job in await connection.fetch(Job, _GET, values)}
    return [found[job_id] for job_id in job_ids if job_id in found]


async def list_jobs(
    connection: Connection, tenant_id: str, wanted: JobFilter, *, before: int | None, limit: int
) -> tuple[list[Job], int | None]:
    """A page of jobs, newest first, and the start of the next one (None at the end)."""
    rows = await connection.fetch_rows(
        _LIST, {"tenant_id": tenant_id, **fields_of(wanted), "before": before, "limit": limit + 1}
    )
    jobs = [Job(*row[:-1]) for row in rows[:limit]]
    return jobs, int(rows[limit - 1][-1]) if len(rows) > limit else None


async def count_jobs(connection: Connection, tenant_id: str, wanted: JobFilter) -> int:
    """The number of jobs that a list would contain in all."""
    return int(
        await connection.fetch_value(_COUNT, {"tenant_id": tenant_id, **fields_of(wanted)}) or 0
    )


async def own_range(
    connection: Connection,
    tenant_id: str,
    job_id: UUID,
    *,
    range_from: int,
    range_to: int,
    claim_no: int | None = None,
) -> bool:
    """Fix the range of messages that a job for appended messages owns from now on.

    Returns False if it has one, has ended, or has another claim than `claim_no`.
    """
    values = {"tenant_id": tenant_id, "job_id": job_id, "claim_no": claim_no}
    cursor = await connection.execute(
        _OWN_RANGE, {**values, "range_from": range_from, "range_to": range_to}
    )
    return cursor.rowcount == 1


async def retry_job(
    connection: Connection, tenant_id: str, job_id: UUID, *, only_user: str | None = None
) -> Job:
    """Queue a DEAD, CANCELLED or waiting job again with its attempts restored.

    Raises:
        NotFound: There is no such job.
        WrongState: It is queued already, is running, succeeded, or never took any messages.
    """
    await get_job(connection, tenant_id, job_id, only_user=only_user)
    cursor = await connection.execute(_RETRY, {"tenant_id": tenant_id, "job_id": job_id})
    # Read again: another call may have changed it meanwhile.
    job = await get_job(connection, tenant_id, job_id)
    if cursor.rowcount == 0:
        raise _state_conflict(
            job,
            "only a FAILED job, or a DEAD or CANCELLED one that owns messages, can be retried; "
            "this one is",
        )
    await announce(connection, RETRIED)
    return job


async def retry_jobs(
    connection: Connection, tenant_id: str, wanted: RetryFilter, *, limit: int
) -> dict[str | None, list[str]]:
    """Queue the oldest matching jobs again, as `retry_job` does; returns their ids by user."""
    values = {"tenant_id": tenant_id, **fields_of(wanted), "limit": limit}
    found: dict[str | None, list[str]] = {}
    for user_id, job_id in await connection.fetch_rows(_RETRY_ALL, values):
        found.setdefault(user_id, []).append(str(job_id))
    if found:
        await announce(connection, RETRIED)
    return found


async def cancel(
    connection: Connection,
    tenant_id: str,
    job_ids: Sequence[UUID],
    *,
    only_user: str | None = None,
    reason: str = "CANCELLED_BY_CALLER",
) -> list[UUID]:
    """Cancel those of some jobs that have not ended, and tell who watches; returns them.

    What they committed so far stays.
    """
    values = {"tenant_id": tenant_id, "user_id": only_user, "job_ids": list(job_ids)}
    cancelled: list[UUID] = await connection.fetch_values(_CANCEL, {**values, "reason": reason})
    for job_id in cancelled:
        await announce(connection, str(job_id))
    return cancelled


async def cancel_job(connection: Connection, tenant_id: str, job_id: UUID) -> Job:
    """Cancel a job that has not ended; a cancelled one stays unchanged.

    Raises:
        NotFound: There is no such job.
        WrongState: It has ended in another way.
    """
    cancelled = await cancel(connection, tenant_id, [job_id])
    job = await get_job(connection, tenant_id, job_id)
    if not cancelled and job.state != "cancelled":
        raise _state_conflict(job, "the job has already ended: it is")
    return job


def _state_conflict(job: Job, why: str) -> WrongState:
    state = job.state.upper()
    return WrongState(
        f"{why} {state}",
        reason="JOB_STATE_CONFLICT",
        metadata={"job_id": str(job.job_id), "state": state},
    )


async def announce(connection: Connection, what: str) -> None:
    """Notify every process, once this transaction commits, that a job was queued or changed."""
    await connection.later(_ANNOUNCE, [CHANNEL, what])


def job_not_found(job_id: str) -> NotFound:
    """The error for a job that does not exist, or is not the caller's."""
    return NotFound("there is no such job", reason="JOB_NOT_FOUND", metadata={"job_id": job_id})
