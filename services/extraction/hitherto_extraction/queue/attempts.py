"""Ends an attempt without success: handed back, failed, waiting, paused or discarded.

All times are the database's. Each statement names the number of the claim, so that a late write
touches no row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from psycopg.types.json import Jsonb

from hitherto_extraction.queue.claims import Claim
from hitherto_extraction.queue.jobs import announce
from hitherto_shared.database.pool import Connection

WHY_NOT = {
    "USER_ERASED": "the user was erased",
    "MEMORY_DISABLED": "memory is switched off for this user: nothing was stored",
    "LEARNING_DISABLED": "learning is switched off for this user: it is stored, not learnt",
}
"""The reasons why nothing is learnt about a user, and what callers are told."""
MAX_BACKOFF_SECONDS = 300.0
"""The longest wait between two attempts, unless more is asked for."""
OUTAGE_HOURS = 24
"""Hours for which an outage of the model does not use up attempts."""

# Handing an attempt back does not count it: nothing is at fault. It does not end an outage either,
# because no model was asked: one that comes later may count from the beginning of an earlier one.
_END = """
UPDATE jobs
SET state = %(state)s, attempt = greatest(attempt - %(given_back)s, 0), lease_until = NULL,
    run_after = clock_timestamp() + make_interval(secs => %(delay)s),
    finished_at = CASE WHEN %(state)s IN ('dead', 'cancelled') THEN clock_timestamp() END,
    outage_since = CASE WHEN %(given_back)s > 0 THEN outage_since END,
    error = %(error)s, error_reason = %(reason)s
WHERE job_id = %(job_id)s AND claim_no = %(claim_no)s AND state = 'running'
"""

# The model or the database is unreachable: wait without using up the attempt. Each wait is as long
# as the outage so far, so that waits double. A counted outage counts after a day.
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
"""

# A job that ended meanwhile under this claim, because its user is gone, records its cost too.
_SPENT = """
UPDATE jobs SET result = %(result)s WHERE job_id = %(job_id)s AND claim_no = %(claim_no)s
"""


async def release(connection: Connection, held: Claim, *, delay_seconds: float = 0.0) -> None:
    """Hand a job back unchanged, for a while if other work of its user goes first."""
    await _end(connection, held, "queued", given_back=1, delay_seconds=delay_seconds)


async def fail(
    connection: Connection, held: Claim, *, error: str, reason: str, delay_seconds: float
) -> None:
    """End the attempt; after the last one the job is given up."""
    state = "dead" if held.attempt >= held.max_attempts else "failed"
    await _end(connection, held, state, error=error, reason=reason, delay_seconds=delay_seconds)


async def wait_out_outage(
    connection: Connection,
    held: Claim,
    *,
    error: str,
    reason: str,
    delay_seconds: float,
    longest_seconds: float = MAX_BACKOFF_SECONDS,
    counts: bool = True,
) -> None:
    """End the attempt without counting it, because the model or the database was unreachable.

    It waits as long as the outage has lasted, at least `delay_seconds` and else at most
    `longest_seconds`. After `OUTAGE_HOURS` attempts count after all, if this one `counts`.
    """
    values = {
        **held.key,
        "error": error,
        "reason": reason,
        "delay": delay_seconds,
        "longest": longest_seconds,
        "hours": OUTAGE_HOURS,
        "counts": counts,
    }
    await connection.execute(_WAIT_OUT, values)
    await announce(connection, str(held.job_id))


async def pause(
    connection: Connection, held: Claim, *, error: str, reason: str, delay_seconds: float
) -> None:
    """Hand a job back for `delay_seconds` without counting the attempt."""
    await _end(
        connection,
        held,
        "failed",
        given_back=1,
        error=error,
        reason=reason,
        delay_seconds=delay_seconds,
    )


async def record_spending(connection: Connection, held: Claim, result: Mapping[str, Any]) -> None:
    """Record the cost of an attempt without a result; does nothing if the claim was lost."""
    await connection.later(_SPENT, {**held.key, "result": Jsonb(dict(result))})


async def discard(connection: Connection, held: Claim, why: str | None) -> bool:
    """End the job if there is a reason, by a key of `WHY_NOT`; returns whether there is."""
    if why is None:
        return False
    await _end(connection, held, "cancelled", error=f"{why}: {WHY_NOT[why]}", reason=why)
    return True


async def _end(
    connection: Connection,
    held: Claim,
    state: str,
    *,
    given_back: int = 0,
    error: str = "",
    reason: str = "",
    delay_seconds: float = 0.0,
) -> None:
    values = {"state": state, "given_back": given_back, "error": error, "reason": reason}
    await connection.later(_END, {**held.key, **values, "delay": delay_seconds})
    await announce(connection, str(held.job_id))
