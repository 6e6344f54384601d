"""Leases of claimed jobs: renewed while a worker lives, also right after a lock on the job ends.

All times are the database's. Each statement names the number of the claim, so that a late renewal
touches no row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from hitherto_extraction.queue.claims import Claim
from hitherto_shared.database.pool import Connection

# A job whose effects are being committed is locked by that transaction, and is skipped here, so
# that one long commit does not delay the other renewals. Nobody can claim it meanwhile, and the
# commit itself renews its lease. In case the commit is rolled back, the worker waits for the lock
# (`renew_once_free`) before the lease expires.
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

# Waits for the transaction that has locked the job, and renews as soon as the lock is gone. The
# lock is taken first: the lease counts from then.
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


async def renew(
    connection: Connection, claims: Sequence[Claim], *, lease_seconds: float
) -> set[UUID]:
    """Extend the leases; returns the ids of the claims that are still current."""
    return set(await connection.fetch_values(_RENEW, {"lease": lease_seconds, **_keys(claims)}))


async def find_running_out(
    connection: Connection, claims: Sequence[Claim], *, within_seconds: float
) -> set[UUID]:
    """The claims whose lease expires soon because their jobs were locked at the renewal.

    Args:
        connection: With the role hitherto_maintenance.
        claims: The claims just renewed, as far as possible.
        within_seconds: The meaning of soon, in seconds.
    """
    values = {"within": within_seconds, **_keys(claims)}
    return set(await connection.fetch_values(_RUNNING_OUT, values))


async def renew_once_free(connection: Connection, held: Claim) -> None:
    """Extend a lease as soon as the transaction that has locked the job ends.

    If that was rolled back, the lease may have expired meanwhile: nobody else gets the job before.
    """
    await connection.execute(_RENEW_ONCE_FREE, {**held.key, "lease": held.lease_seconds})


def _keys(claims: Sequence[Claim]) -> dict[str, list[Any]]:
    return {
        "job_ids": [claim.job_id for claim in claims],
        "claim_nos": [claim.claim_no for claim in claims],
    }
