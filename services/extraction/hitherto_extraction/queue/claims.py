"""What workers do with jobs: claim, renew, hand back, fail, record progress, finish.

All times are the database's. `claim_no` grows with every claim, and every statement of a worker
names the one it holds: after a stall, somebody else's claim has another number and the late write
touches no row.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from hitherto_extraction.queue.jobs import announce
from hitherto_shared.audit.trail import NOBODY, Trail
from hitherto_shared.database.lean import later
from hitherto_shared.database.pool import Connection
from hitherto_shared.models import Scope

ACTOR = "extraction"
"""Who runs jobs, as the audit log names it; credentials of that name do not exist."""
OUTAGE_HOURS = 24
"""For how long an outage of the model does not use up attempts."""

# Across users: the oldest jobs that may start. Jobs of one user are done one at a time, and what
# the user said and sent in the order in which it came: such a job waits for every older one that is
# unfinished. Upkeep of a user that waits for a time of its own, as during a pause, holds up nobody;
# once it is due it comes first, being older. Jobs of a whole tenant have their own number of
# places, and hold up no user. A running job whose lease is over counts as startable.
_STARTABLE = """
    SELECT job_id
    FROM jobs AS job
    WHERE job.state IN ('queued', 'failed', 'running')
      AND CASE WHEN job.state = 'running' THEN job.lease_until < statement_timestamp()
               ELSE job.run_after <= statement_timestamp() END
      AND NOT EXISTS (
          SELECT FROM unnest(%(tenants)s::text[], %(kinds)s::text[]) AS resting (tenant_id, kind)
          WHERE resting.tenant_id = job.tenant_id AND resting.kind = job.kind)
"""

_CLAIM = f"""
WITH of_users AS (
    {_STARTABLE}
      AND job.user_id IS NOT NULL
      AND NOT EXISTS (
          SELECT FROM jobs AS other
          WHERE other.tenant_id = job.tenant_id AND other.user_id = job.user_id
            AND other.state IN ('queued', 'failed', 'running')
            AND other.job_id <> job.job_id
            AND (other.state = 'running' OR other.sequence_no < job.sequence_no
                 AND (other.kind IN ('memory-extraction', 'document-ingestion')
                      AND job.kind IN ('memory-extraction', 'document-ingestion')
                   OR other.run_after <= statement_timestamp()
                      AND NOT EXISTS (
                          SELECT FROM unnest(%(tenants)s::text[], %(kinds)s::text[])
                              AS resting (tenant_id, kind)
                          WHERE resting.tenant_id = other.tenant_id
                            AND resting.kind = other.kind))))
    ORDER BY job.sequence_no
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
), of_tenants AS (
    {_STARTABLE}
      AND job.user_id IS NULL
    ORDER BY job.sequence_no
    LIMIT %(tenant_wide)s
    FOR UPDATE SKIP LOCKED
), startable AS (
    SELECT job_id FROM of_users UNION ALL SELECT job_id FROM of_tenants
)
UPDATE jobs
SET state = CASE WHEN jobs.attempt >= jobs.max_attempts THEN 'dead' ELSE 'running' END,
    attempt = least(jobs.attempt + 1, jobs.max_attempts),
    claim_no = jobs.claim_no + 1,
    worker = %(worker)s,
    lease_until = CASE WHEN jobs.attempt >= jobs.max_attempts THEN NULL
        ELSE clock_timestamp() + make_interval(secs => %(lease)s) END,
    finished_at = CASE WHEN jobs.attempt >= jobs.max_attempts THEN clock_timestamp() END,
    error = CASE WHEN jobs.attempt >= jobs.max_attempts
        THEN 'WORKER_LOST: every attempt lost its worker' ELSE '' END,
    error_reason = CASE WHEN jobs.attempt >= jobs.max_attempts THEN 'WORKER_LOST' ELSE '' END,
    started_at = CASE WHEN jobs.attempt >= jobs.max_attempts THEN jobs.started_at
        ELSE clock_timestamp() END
FROM startable
WHERE jobs.job_id = startable.job_id
RETURNING jobs.job_id, jobs.claim_no, jobs.state, jobs.kind, jobs.tenant_id, jobs.user_id,
          jobs.conversation_id, jobs.range_from, jobs.range_to, jobs.done_to, jobs.attempt,
          jobs.max_attempts, jobs.result, jobs.params
"""

# A job whose effects are being committed is locked by that transaction: it is passed over, so that
# one long commit does not keep the other leases from being renewed. Nobody can claim it meanwhile,
# and what the commit writes renews its lease too. For the case that it is rolled back, the worker
# waits for the lock (`renew_once_free`) before the lease is over.
_RENEW = """
WITH held AS MATERIALIZED (
    SELECT jobs.job_id
    FROM unnest(%(job_ids)s::uuid[], %(claim_nos)s::bigint[]) AS held (job_id, claim_no)
    JOIN jobs ON jobs.job_id = held.job_id AND jobs.claim_no = held.claim_no
    WHERE jobs.state = 'running'
), free AS MATERIALIZED (
    SELECT jobs.job_id
    FROM jobs
    WHERE jobs.job_id = ANY(%(job_ids)s) AND jobs.job_id IN (SELECT job_id FROM held)
    FOR UPDATE SKIP LOCKED
), renewed AS (
    UPDATE jobs SET lease_until = clock_timestamp() + make_interval(secs => %(lease)s)
    FROM free
    WHERE jobs.job_id = free.job_id AND jobs.state = 'running'
      AND EXISTS (
          SELECT
          FROM unnest(%(job_ids)s::uuid[], %(claim_nos)s::bigint[]) AS ours (job_id, claim_no)
          WHERE ours.job_id = jobs.job_id AND ours.claim_no = jobs.claim_no)
)
SELECT job_id FROM held
"""

_RUNNING_OUT = """
SELECT jobs.job_id
FROM unnest(%(job_ids)s::uuid[], %(claim_nos)s::bigint[]) AS held (job_id, claim_no)
JOIN jobs ON jobs.job_id = held.job_id AND jobs.claim_no = held.claim_no
WHERE jobs.state = 'running'
  AND jobs.lease_until < clock_timestamp() + make_interval(secs => %(within)s)
"""

# Waits for whoever has locked the job, and renews the moment the lock is gone. The lock is taken
# first: the lease counts from then.
_RENEW_ONCE_FREE = """
WITH free AS MATERIALIZED (
    SELECT jobs.job_id
    FROM jobs
    WHERE jobs.job_id = %(job_id)s AND jobs.claim_no = %(claim_no)s AND jobs.state = 'running'
    FOR NO KEY UPDATE
)
UPDATE jobs SET lease_until = clock_timestamp() + make_interval(secs => %(lease)s)
FROM free
WHERE jobs.job_id = free.job_id AND jobs.claim_no = %(claim_no)s AND jobs.state = 'running'
"""

# Back to the queue with the attempt given back: the worker stops, nobody is at fault.
_RELEASE = """
UPDATE jobs
SET state = 'queued', attempt = greatest(attempt - 1, 0), lease_until = NULL,
    run_after = clock_timestamp()
WHERE job_id = %(job_id)s AND claim_no = %(claim_no)s AND state = 'running'
"""

# The attempt did not succeed: wait, then try again, or give up after the last one.
_FAIL = """
UPDATE jobs
SET state = CASE WHEN %(final)s OR attempt >= max_attempts THEN 'dead' ELSE 'failed' END,
    finished_at = CASE WHEN %(final)s OR attempt >= max_attempts THEN clock_timestamp() END,
    lease_until = NULL,
    run_after = clock_timestamp() + make_interval(secs => %(delay)s),
    error = %(error)s, error_reason = %(reason)s
WHERE job_id = %(job_id)s AND claim_no = %(claim_no)s AND state = 'running'
RETURNING state
"""

# The model or the database is out of reach: wait without using up the attempt. Each wait is as long
# as the outage has been so far, so that waits double. Where it counts, it does so after a day.
_WAIT_OUT = """
UPDATE jobs
SET state = CASE WHEN %(counts)s AND attempt >= max_attempts
                  AND outage_since < clock_timestamp() - make_interval(hours => %(hours)s)
                 THEN 'dead' ELSE 'failed' END,
    finished_at = CASE WHEN %(counts)s AND attempt >= max_attempts
                  AND outage_since < clock_timestamp() - make_interval(hours => %(hours)s)
                 THEN clock_timestamp() END,
    attempt = CASE WHEN %(counts)s
                  AND outage_since < clock_timestamp() - make_interval(hours => %(hours)s)
                 THEN attempt ELSE greatest(attempt - 1, 0) END,
    outage_since = coalesce(outage_since, clock_timestamp()),
    lease_until = NULL,
    run_after = clock_timestamp() + greatest(
        make_interval(secs => %(delay)s),
        least(coalesce(clock_timestamp() - outage_since, interval '0'),
              make_interval(secs => %(longest)s))),
    error = %(error)s, error_reason = %(reason)s
WHERE job_id = %(job_id)s AND claim_no = %(claim_no)s AND state = 'running'
RETURNING state
"""

# There is no money left for today: wait for midnight UTC, and look from time to time whether there
# is more by then.
_PAUSE = """
UPDATE jobs
SET state = 'failed', attempt = greatest(attempt - 1, 0), lease_until = NULL,
    run_after = least(
        clock_timestamp() + make_interval(secs => %(look)s),
        (date_trunc('day', clock_timestamp() AT TIME ZONE 'UTC') + interval '1 day')
            AT TIME ZONE 'UTC' + make_interval(secs => %(jitter)s)),
    error = %(error)s, error_reason = %(reason)s
WHERE job_id = %(job_id)s AND claim_no = %(claim_no)s AND state = 'running'
"""

# A job that ended meanwhile under this claim, its user being gone, tells its cost too.
_SPENT = """
UPDATE jobs SET result = %(result)s WHERE job_id = %(job_id)s AND claim_no = %(claim_no)s
"""

# First half of every worker's transaction after the user's row: is the claim still ours?
_HOLD = """
SELECT done_to FROM jobs
WHERE job_id = %(job_id)s AND claim_no = %(claim_no)s AND state = 'running'
FOR UPDATE
"""

_PROGRESS = """
UPDATE jobs
SET done_to = %(done_to)s, result = %(result)s, outage_since = NULL,
    state = CASE WHEN %(finished)s THEN 'succeeded' ELSE state END,
    lease_until = CASE WHEN NOT %(finished)s
        THEN greatest(lease_until, clock_timestamp() + make_interval(secs => %(lease)s)) END,
    finished_at = CASE WHEN %(finished)s THEN clock_timestamp() END
WHERE job_id = %(job_id)s AND claim_no = %(claim_no)s AND state = 'running'
"""

_FIX_RANGE = """
UPDATE jobs SET range_from = %(range_from)s, range_to = %(range_to)s, done_to = %(range_from)s - 1
WHERE job_id = %(job_id)s AND claim_no = %(claim_no)s AND state = 'running' AND range_to IS NULL
"""

_DISCARD = """
UPDATE jobs
SET state = 'cancelled', finished_at = clock_timestamp(), lease_until = NULL,
    error = %(error)s, error_reason = %(reason)s
WHERE job_id = %(job_id)s AND claim_no = %(claim_no)s AND state = 'running'
"""


class ClaimLost(Exception):
    """The job was claimed by somebody else, cancelled or erased: nothing of ours may be written."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A job in a worker's hands."""

    job_id: UUID
    claim_no: int
    kind: str
    tenant_id: str
    user_id: str | None
    conversation_id: str | None
    range_from: int | None
    range_to: int | None
    done_to: int | None
    attempt: int
    max_attempts: int
    result: Mapping[str, Any]
    params: Mapping[str, Any]
    trail: Trail | None = field(default=None, compare=False)
    """Where what the job does is written down."""
    lease_seconds: float = field(default=60.0, compare=False)
    """For how long it is held unless it is renewed."""

    @property
    def scope(self) -> Scope:
        """Whose job it is. Only for kinds that always have a user."""
        assert self.user_id is not None
        return Scope(self.tenant_id, self.user_id)

    @property
    def conversation(self) -> str:
        """Which conversation it reads. Only for jobs that read one."""
        assert self.conversation_id is not None
        return self.conversation_id

    @property
    def key(self) -> dict[str, object]:
        """Names this claim, and no later one, in a statement."""
        return {"job_id": self.job_id, "claim_no": self.claim_no}


async def claim(
    connection: Connection,
    *,
    worker: str,
    limit: int,
    lease_seconds: float,
    tenant_wide: int | None = None,
    resting: Collection[tuple[str, str]] = (),
    trail: Trail | None = None,
) -> list[Claim]:
    """Claim jobs; those whose every attempt lost its worker end as DEAD here.

    Args:
        connection: Of the role hitherto_maintenance.
        worker: Who claims, for people who look into the table.
        limit: How many jobs about one user each.
        lease_seconds: For how long, unless they are renewed.
        tenant_wide: How many jobs about all users of a tenant; None: `limit` too.
        resting: Tenants and kinds of which none is claimed now.
        trail: Where what the jobs do is written down.
    """
    async with connection.transaction():
        cursor = await connection.execute(
            _CLAIM.encode(),
            {
                "worker": worker,
                "limit": limit,
                "tenant_wide": limit if tenant_wide is None else tenant_wide,
                "lease": lease_seconds,
                "tenants": [tenant_id for tenant_id, _ in resting],
                "kinds": [kind for _, kind in resting],
            },
        )
        rows = await cursor.fetchall()
        for row in rows:
            await announce(connection, str(row[0]))
    return [
        replace(Claim(*row[:2], *row[3:]), trail=trail, lease_seconds=lease_seconds)
        for row in rows
        if row[2] == "running"
    ]


async def renew(
    connection: Connection, claims: Sequence[Claim], *, lease_seconds: float
) -> set[UUID]:
    """Extend the leases; the ids of the claims that are still ours."""
    cursor = await connection.execute(
        _RENEW,
        {
            "lease": lease_seconds,
            "job_ids": [claim.job_id for claim in claims],
            "claim_nos": [claim.claim_no for claim in claims],
        },
    )
    return {row[0] for row in await cursor.fetchall()}


async def find_running_out(
    connection: Connection, claims: Sequence[Claim], *, within_seconds: float
) -> set[UUID]:
    """Of claims, those whose lease ends soon although it was to be renewed: their jobs are locked.

    Args:
        connection: Of the role hitherto_maintenance.
        claims: Just renewed, as far as that went.
        within_seconds: What soon means.
    """
    cursor = await connection.execute(
        _RUNNING_OUT,
        {
            "within": within_seconds,
            "job_ids": [claim.job_id for claim in claims],
            "claim_nos": [claim.claim_no for claim in claims],
        },
    )
    return {row[0] for row in await cursor.fetchall()}


async def renew_once_free(connection: Connection, held: Claim) -> None:
    """Extend a lease as soon as the transaction has ended that has the job locked.

    If that was rolled back, the lease may have run out meanwhile: nobody else gets the job before.
    """
    await connection.execute(_RENEW_ONCE_FREE, {**held.key, "lease": held.lease_seconds})


async def release(connection: Connection, held: Claim) -> None:
    """Hand a job back untouched."""
    await connection.execute(_RELEASE, held.key)
    await announce(connection, str(held.job_id))


async def fail(
    connection: Connection,
    held: Claim,
    *,
    error: str,
    reason: str,
    delay_seconds: float,
    final: bool = False,
) -> None:
    """End the attempt; `final` skips the remaining ones because they cannot succeed."""
    await connection.execute(
        _FAIL,
        {**held.key, "error": error, "reason": reason, "delay": delay_seconds, "final": final},
    )
    await announce(connection, str(held.job_id))


async def wait_out_outage(
    connection: Connection,
    held: Claim,
    *,
    error: str,
    reason: str,
    delay_seconds: float,
    longest_seconds: float,
    counts: bool = True,
) -> None:
    """End the attempt without counting it, because the model or the database was out of reach.

    It waits `delay_seconds` or as long as the outage has lasted, whichever is more, but no longer
    than `longest_seconds` unless the delay says so. After `OUTAGE_HOURS` attempts count after all,
    unless `counts` is False: what was not even tried is no attempt.
    """
    await connection.execute(
        _WAIT_OUT,
        {
            **held.key,
            "error": error,
            "reason": reason,
            "delay": delay_seconds,
            "longest": longest_seconds,
            "hours": OUTAGE_HOURS,
            "counts": counts,
        },
    )
    await announce(connection, str(held.job_id))


async def pause(
    connection: Connection,
    held: Claim,
    *,
    error: str,
    reason: str,
    look_seconds: float,
    jitter_seconds: float,
) -> None:
    """Hand a job back without counting the attempt, until the next day (UTC).

    Args:
        connection: Of the role hitherto_maintenance.
        held: The job.
        error: Why, as `Job.error` tells it.
        reason: The name of the reason.
        look_seconds: When to look again at the latest.
        jitter_seconds: How long after midnight, so that not all come at once.
    """
    await connection.execute(
        _PAUSE,
        {
            **held.key,
            "error": error,
            "reason": reason,
            "look": look_seconds,
            "jitter": jitter_seconds,
        },
    )
    await announce(connection, str(held.job_id))


async def record_spending(connection: Connection, held: Claim, result: Mapping[str, Any]) -> None:
    """Say what an attempt has cost that yields nothing more; nothing happens to a lost claim."""
    await later(connection, _SPENT, {**held.key, "result": Jsonb(dict(result))})


async def hold(connection: Connection, held: Claim) -> int:
    """Lock the job for this transaction and return how far it is done.

    Raises:
        ClaimLost: It is no longer ours.
    """
    cursor = await connection.execute(_HOLD, held.key)
    row = await cursor.fetchone()
    if row is None:
        raise ClaimLost
    return int(row[0] or 0)


async def record_progress(
    connection: Connection,
    held: Claim,
    *,
    done_to: int,
    result: Mapping[str, Any],
    finished: bool,
    users: Collection[str] = (),
) -> None:
    """Say how far the effects written in this transaction reach, and whether that is the end.

    The audit log is told as well: of the user of the job, or else of `users`, whose data a job of
    the whole tenant has changed in this transaction, and of its end.

    Raises:
        ClaimLost: The job is no longer ours; the transaction must roll back.
    """
    cursor = await connection.execute(
        _PROGRESS,
        {
            **held.key,
            "done_to": done_to,
            "result": Jsonb(result),
            "finished": finished,
            "lease": held.lease_seconds,
        },
    )
    if cursor.rowcount == 0:
        raise ClaimLost
    touched = [held.user_id] if held.user_id is not None else sorted(set(users))
    if held.trail is not None and (touched or finished):
        await held.trail.note_job(
            connection,
            held.tenant_id,
            actor=ACTOR,
            kind=held.kind,
            touched=dict.fromkeys(touched or [NOBODY], (str(held.job_id),)),
        )
    await announce(connection, str(held.job_id))


async def fix_range(connection: Connection, held: Claim, *, range_from: int, range_to: int) -> None:
    """Give an open job the messages it will own from now on.

    Raises:
        ClaimLost: The job is no longer ours.
    """
    cursor = await connection.execute(
        _FIX_RANGE, {**held.key, "range_from": range_from, "range_to": range_to}
    )
    if cursor.rowcount == 0:
        raise ClaimLost


async def discard(connection: Connection, held: Claim, *, error: str, reason: str) -> None:
    """End a job whose user is gone or wants nothing learnt."""
    await later(connection, _DISCARD, {**held.key, "error": error, "reason": reason})
    await announce(connection, str(held.job_id))
