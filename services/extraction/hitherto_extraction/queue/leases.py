"""Renews the leases of the jobs that run in this process, and stops jobs whose claim is lost.

All times are the database's. Each statement names the number of the claim, so that a late renewal
touches no row.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from hitherto_extraction.queue.claims import Claim
from hitherto_shared.database.pool import Connection, Database

logger = logging.getLogger("hitherto.worker")

_LOCKED_SECONDS = 150.0
"""Maximum wait of a renewal for a commit that has locked its job: longer than any commit takes."""
_WAITING_RENEWALS = 2
"""Number of such waits at once, each with a connection of its own."""

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
SELECT held.job_id, free.job_id IS NULL FROM held LEFT JOIN free USING (job_id)
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
) -> dict[UUID, bool]:
    """Extend the leases of current claims, except of jobs that a commit has locked.

    Returns by job whether one had.
    """
    values = {
        "job_ids": [claim.job_id for claim in claims],
        "claim_nos": [claim.claim_no for claim in claims],
        "lease": lease_seconds,
    }
    return dict(await connection.fetch_rows(_RENEW, values))


async def renew_once_free(connection: Connection, held: Claim) -> None:
    """Extend a lease as soon as the transaction that has locked the job ends.

    If that was rolled back, the lease may have expired meanwhile: nobody else gets the job before.
    """
    await connection.execute(_RENEW_ONCE_FREE, {**held.key, "lease": held.lease_seconds})


@dataclass(frozen=True, slots=True)
class LeaseRenewal:
    """Renews the leases of `running`, in which the worker keeps its tasks with their claims."""

    database: Database
    running: Mapping[asyncio.Task[None], Claim]
    lease_seconds: float
    _waiting: dict[UUID, asyncio.Task[None]] = field(default_factory=dict)

    @property
    def waiting(self) -> Collection[asyncio.Task[None]]:
        """Renewals that wait for a locked job."""
        return self._waiting.values()

    async def run(self) -> None:
        """Renew until cancelled, three times per lease."""
        while True:
            await asyncio.sleep(self.lease_seconds / 3)
            held = dict(self.running)
            if not held:
                continue
            try:
                ours = await self.database.run(
                    lambda connection: renew(
                        connection,
                        list(held.values()),  # noqa: B023 - awaited before the next round
                        lease_seconds=self.lease_seconds,
                    ),
                    timeout=self.lease_seconds / 3,
                )
            except Exception as error:
                # Whatever the error, the loop continues: it renews every lease of this process.
                logger.warning("cannot renew leases: %s", type(error).__name__)
                continue
            for task, claim in held.items():
                if claim.job_id not in ours:
                    # Cancelled, erased or claimed elsewhere: any write is refused.
                    task.cancel()
                elif (
                    ours[claim.job_id]
                    and claim.job_id not in self._waiting
                    and len(self._waiting) < _WAITING_RENEWALS
                ):
                    self._waiting[claim.job_id] = asyncio.create_task(
                        self._renew_once_free(claim), name=f"renewal-{claim.job_id}"
                    )

    async def _renew_once_free(self, held: Claim) -> None:
        try:
            await self.database.run(
                lambda connection: renew_once_free(connection, held), timeout=_LOCKED_SECONDS
            )
        except Exception as error:
            logger.info("cannot renew a lease yet: %s", type(error).__name__)
        finally:
            del self._waiting[held.job_id]
