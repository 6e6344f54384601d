"""Jobs as workers use them: claim, record progress, finish. See also `leases` and `attempts`.

All times are the database's. `claim_no` grows with every claim, and every statement of a worker
names the number it holds, so that a late write touches no row.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from hitherto_extraction.queue.jobs import CHANNEL, announce, own_range
from hitherto_shared.audit.trail import NOBODY, Trail
from hitherto_shared.database.arrays import Texts
from hitherto_shared.database.pool import Connection
from hitherto_shared.models import Scope
from hitherto_shared.work_record import current_record

ACTOR = "extraction"
"""The actor of jobs in the audit log; no credential has this name."""

# Across users: the oldest jobs that may start. Jobs of one user run one at a time, and those for
# the user's messages and documents in the order of arrival: such a job waits for every older
# unfinished one. Upkeep of a user that waits for a time of its own, as during a pause, delays no
# other job; once it is due it comes first, being older. Jobs of a whole tenant have slots of their
# own, and delay no user. A running job with an expired lease may start, whatever older or resting
# work there is by now: until it does, nothing else of its user can. Alone in its transaction, which
# most claims need for nothing, it also tells every process which jobs it took. Kinds that this
# process does not run, as a newer release may queue them, delay no others. One that has lost its
# worker goes back to the queue: while it counts as running, nothing else of its user can start.
#
# Of a user only the first job that is due can start, and of messages and documents only the first
# of all. Thousands of one user may stand before those of others: most of them directly follow
# another one, which costs less to notice than a look at the user's index. Where users alternate,
# each job takes such a look. A message or document ends it at the first of these even if that one
# rests: a spent budget leaves thousands. With equal tenants and users and a comparison of rows only
# that index is worth reading, also before Postgres has counted the jobs. LIMIT keeps the look a
# look: as a join it would read all jobs.
_CLAIM = """
WITH resting AS (
    SELECT tenant_id, kind
    FROM unnest(%(tenants)s::text[], %(kinds)s::text[]) AS given (tenant_id, kind)
), of_users AS (
    SELECT job.job_id, job.kind, job.attempt, job.max_attempts
    FROM (
        SELECT job_id, tenant_id, user_id, kind, sequence_no, state,
               lag(tenant_id) OVER arrival = tenant_id AND lag(user_id) OVER arrival = user_id
                   AS follows_another
        FROM jobs
        WHERE state IN ('queued', 'failed', 'running') AND user_id IS NOT NULL
          AND (state = 'running'
               OR kind = ANY(%(own_kinds)s) AND run_after <= statement_timestamp()
                  AND (tenant_id, kind) NOT IN (SELECT tenant_id, kind FROM resting))
        WINDOW arrival AS (ORDER BY sequence_no)
    ) AS due
    JOIN jobs AS job ON job.job_id = due.job_id
    WHERE (due.state = 'running'
           OR due.follows_another IS NOT TRUE
              AND (SELECT true
                   FROM jobs AS older
                   WHERE older.tenant_id = due.tenant_id AND older.user_id = due.user_id
                     AND older.state IN ('queued', 'failed', 'running')
                     AND (older.tenant_id, older.user_id, older.sequence_no)
                         < (due.tenant_id, due.user_id, due.sequence_no)
                     AND (older.kind IN ('memory-extraction', 'document-ingestion')
                          AND due.kind IN ('memory-extraction', 'document-ingestion')
                          OR older.run_after <= statement_timestamp()
                          AND older.kind = ANY(%(own_kinds)s)
                          AND (older.tenant_id, older.kind)
                              NOT IN (SELECT tenant_id, kind FROM resting))
                   LIMIT 1) IS NULL)
      AND job.state IN ('queued', 'failed', 'running')
      AND CASE WHEN job.state = 'running' THEN job.lease_until < statement_timestamp()
               ELSE job.run_after <= statement_timestamp() END
      AND NOT EXISTS (
          SELECT FROM jobs AS other
          WHERE other.tenant_id = job.tenant_id AND other.user_id = job.user_id
            AND other.state = 'running' AND other.job_id <> job.job_id)
    ORDER BY due.sequence_no
    LIMIT %(limit)s
    FOR UPDATE OF job SKIP LOCKED
), of_tenants AS (
    SELECT job_id, kind, attempt, max_attempts
    FROM jobs AS job
    WHERE job.state IN ('queued', 'failed', 'running') AND job.kind = ANY(%(own_kinds)s)
      AND CASE WHEN job.state = 'running' THEN job.lease_until < statement_timestamp()
               ELSE job.run_after <= statement_timestamp() END
      AND (job.tenant_id, job.kind) NOT IN (SELECT tenant_id, kind FROM resting)
      AND job.user_id IS NULL
    ORDER BY job.sequence_no
    LIMIT %(tenant_wide)s
    FOR UPDATE SKIP LOCKED
), startable AS (
    SELECT job_id,
           CASE WHEN kind <> ALL(%(own_kinds)s) THEN 'queued'
                WHEN attempt >= max_attempts THEN 'dead' ELSE 'running' END AS state
    FROM (TABLE of_users UNION ALL TABLE of_tenants) AS job
)
UPDATE jobs
SET state = startable.state,
    attempt = jobs.attempt + CASE startable.state WHEN 'running' THEN 1 ELSE 0 END,
    claim_no = jobs.claim_no + 1,
    worker = %(worker)s,
    lease_until = CASE startable.state WHEN 'running'
        THEN clock_timestamp() + make_interval(secs => %(lease)s) END,
    finished_at = CASE startable.state WHEN 'dead' THEN clock_timestamp() END,
    error = CASE startable.state WHEN 'dead'
        THEN 'WORKER_LOST: every attempt lost its worker' ELSE '' END,
    error_reason = CASE startable.state WHEN 'dead' THEN 'WORKER_LOST' ELSE '' END,
    started_at = CASE startable.state WHEN 'running' THEN clock_timestamp()
        ELSE jobs.started_at END
FROM startable
WHERE jobs.job_id = startable.job_id
RETURNING jobs.job_id, jobs.claim_no, jobs.state, jobs.kind, jobs.tenant_id, jobs.user_id,
          jobs.conversation_id, jobs.range_from, jobs.range_to, jobs.done_to, jobs.attempt,
          jobs.max_attempts, jobs.result, jobs.params, jobs.trace_parent,
          pg_notify(%(channel)s, jobs.job_id::text)
"""

# The first half of every worker's transaction after the user's row: is the claim still current? The
# claim that finished the job is: a commit whose reply was lost is repeated, and finds its progress.
_HOLD = """
SELECT done_to FROM jobs
WHERE job_id = %(job_id)s AND claim_no = %(claim_no)s AND state IN ('running', 'succeeded')
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


class OthersFirst(Exception):
    """Other work of the job's user goes first: hand the job back for `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"other work of the user goes first; again in {seconds:g} s")
        self.seconds = seconds


class ClaimLost(Exception):
    """The job was claimed again, cancelled or erased: this worker may write nothing."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A job held by a worker."""

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
    trace_parent: str | None = None
    """The span in which the job was queued, in the form of W3C Trace Context."""
    trail: Trail | None = field(default=None, compare=False)
    """Records the job's actions in the audit log."""
    lease_seconds: float = field(default=60.0, compare=False)
    """The lease in seconds, unless it is renewed."""

    @property
    def scope(self) -> Scope:
        """The job's user. Only for kinds that always have one."""
        assert self.user_id is not None
        return Scope(self.tenant_id, self.user_id)

    @property
    def conversation(self) -> str:
        """The conversation it reads. Only for jobs that read one."""
        assert self.conversation_id is not None
        return self.conversation_id

    @property
    def key(self) -> dict[str, object]:
        """Identifies this claim, and no later one, in a statement."""
        return {"job_id": self.job_id, "claim_no": self.claim_no}


async def claim(
    connection: Connection,
    *,
    worker: str,
    kinds: Collection[str],
    limit: int,
    lease_seconds: float,
    tenant_wide: int | None = None,
    resting: Collection[tuple[str, str]] = (),
    trail: Trail | None = None,
) -> list[Claim]:
    """Claim jobs of some kinds; those whose every attempt lost its worker end as DEAD here.

    Jobs of other kinds that have lost their worker go back to the queue.

    Claims at most `limit` jobs about one user each, and `tenant_wide` (None: as many) about all
    users of a tenant, but none of the tenants and kinds that are `resting`. The role is
    hitherto_maintenance.
    """
    values = {
        "worker": worker,
        "limit": limit,
        "tenant_wide": limit if tenant_wide is None else tenant_wide,
        "lease": lease_seconds,
        "own_kinds": Texts(kinds),
        "tenants": Texts(tenant_id for tenant_id, _ in resting),
        "kinds": Texts(kind for _, kind in resting),
        "channel": CHANNEL,
    }
    rows = await connection.fetch_rows(_CLAIM, values)
    return [
        replace(Claim(*row[:2], *row[3:-1]), trail=trail, lease_seconds=lease_seconds)
        for row in rows
        if row[2] == "running"
    ]


async def hold(connection: Connection, held: Claim) -> int:
    """Lock the job for this transaction and return its progress.

    Raises:
        ClaimLost: The claim is no longer current.
    """
    row = await connection.fetch_row(_HOLD, held.key)
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
    """Record how far the effects written in this transaction reach, and whether that is the end.

    The audit log tells of it for the user of the job, or for `users`, whose data a job of the whole
    tenant has changed.

    Raises:
        ClaimLost: The claim is no longer current; the transaction must roll back.
    """
    values = {
        **held.key,
        "done_to": done_to,
        "result": Jsonb(result),
        "finished": finished,
        "lease": held.lease_seconds,
    }
    cursor = await connection.execute(_PROGRESS, values)
    if cursor.rowcount == 0:
        raise ClaimLost
    if (record := current_record()) is not None:
        record.take_result(result)
    touched = [held.user_id] if held.user_id is not None else sorted(set(users))
    if held.trail is not None and (touched or finished):
        await held.trail.note(
            connection,
            held.tenant_id,
            actor=ACTOR,
            method=held.kind,
            touched=dict.fromkeys(touched or [NOBODY], (str(held.job_id),)),
        )
    await announce(connection, str(held.job_id))


async def finish(
    connection: Connection, held: Claim, result: Mapping[str, Any], *, done_to: int = 0
) -> None:
    """Record the end of a job with its result, and nothing else; see `record_progress`."""
    await record_progress(connection, held, done_to=done_to, result=result, finished=True)


async def fix_range(connection: Connection, held: Claim, *, range_from: int, range_to: int) -> None:
    """Fix the range of messages that an open job owns from now on; see `hold`."""
    if not await own_range(
        connection,
        held.tenant_id,
        held.job_id,
        range_from=range_from,
        range_to=range_to,
        claim_no=held.claim_no,
    ):
        raise ClaimLost
