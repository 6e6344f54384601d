"""Renews the leases of the jobs that run in this process, and stops jobs whose claim is lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from hitherto_extraction.queue import leases
from hitherto_extraction.queue.claims import Claim
from hitherto_shared.database.pool import Connection, Database

logger = logging.getLogger("hitherto.worker")

_LOCKED_SECONDS = 150.0
"""Maximum wait of a renewal for a commit that has locked its job: longer than any commit takes."""
_WAITING_RENEWALS = 2
"""Number of such waits at once, each with a connection of its own."""


class LeaseRenewal:
    """Renews leases while `run` runs.

    Args:
        database: The database with the role hitherto_maintenance.
        running: The tasks that run jobs, with their claims; the worker adds and removes them.
        lease_seconds: Duration of a lease.
    """

    def __init__(
        self, database: Database, running: Mapping[asyncio.Task[None], Claim], lease_seconds: float
    ) -> None:
        self._database = database
        self._running = running
        self._lease_seconds = lease_seconds
        self._waiting: dict[UUID, asyncio.Task[None]] = {}

    @property
    def waiting(self) -> Collection[asyncio.Task[None]]:
        """Renewals that wait for a locked job."""
        return self._waiting.values()

    async def run(self) -> None:
        """Renew until cancelled, three times per lease."""
        while True:
            await asyncio.sleep(self._lease_seconds / 3)
            held = dict(self._running)
            if not held:
                continue
            try:
                ours, late = await self._database.run(
                    lambda connection: self._renew(
                        connection,
                        list(held.values()),  # noqa: B023 - awaited before the next round
                    ),
                    timeout=self._lease_seconds / 3,
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
                    claim.job_id in late
                    and claim.job_id not in self._waiting
                    and len(self._waiting) < _WAITING_RENEWALS
                ):
                    self._waiting[claim.job_id] = asyncio.create_task(
                        self._renew_once_free(claim), name=f"renewal-{claim.job_id}"
                    )

    async def _renew(
        self, connection: Connection, held: Sequence[Claim]
    ) -> tuple[set[UUID], set[UUID]]:
        """The claims that are still current, and those skipped because their jobs were locked."""
        lease = self._lease_seconds
        ours = await leases.renew(connection, held, lease_seconds=lease)
        # A renewed claim has more than this left.
        late = await leases.find_running_out(connection, held, within_seconds=lease * 2 / 3)
        return ours, late

    async def _renew_once_free(self, held: Claim) -> None:
        try:
            await self._database.run(
                lambda connection: leases.renew_once_free(connection, held), timeout=_LOCKED_SECONDS
            )
        except Exception as error:
            logger.info("cannot renew a lease yet: %s", type(error).__name__)
        finally:
            del self._waiting[held.job_id]
