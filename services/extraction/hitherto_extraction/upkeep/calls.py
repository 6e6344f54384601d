"""Decay and retention on demand: implements their calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from hitherto_extraction.once import IdempotentOperation
from hitherto_extraction.queue import enqueueing, jobs
from hitherto_extraction.storage import users
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.models import Job, Scope


class CountableUpkeep(Protocol):
    """Upkeep that can report what it would do."""

    async def count(
        self, connection: Connection, tenant_id: str, user_id: str | None
    ) -> dict[str, int]:
        """What a run would do now, by name."""
        ...


@dataclass(frozen=True, slots=True)
class StartedUpkeep:
    """The job of a call, and the counts if they are available at once."""

    job: Job
    counts: Mapping[str, int]


class UpkeepOnDemand:
    """Starts upkeep. The role is hitherto_maintenance, which may read across users."""

    def __init__(
        self, database: Database, kinds: Mapping[str, CountableUpkeep], *, max_attempts: int
    ) -> None:
        """Work on `database`; `kinds` are the kinds of jobs there are."""
        self.database = database
        self._kinds = kinds
        self._max_attempts = max_attempts

    def start(
        self, kind: str, tenant_id: str, *, user_id: str | None, dry_run: bool
    ) -> IdempotentOperation[StartedUpkeep]:
        """A call of RunDecay or RunRetention.

        With `dry_run` the job has already ended when it is created: its result holds the counts,
        and nothing else changes.
        """

        async def change(connection: Connection) -> StartedUpkeep:
            if user_id is not None:
                await users.hold_off_erase(connection, Scope(tenant_id, user_id))
            counts: dict[str, int] = {}
            if dry_run or user_id is not None:
                counts = await self._kinds[kind].count(connection, tenant_id, user_id)
            params = {"dry_run": dry_run, "counts": counts}
            if dry_run:
                job = await enqueueing.enqueue_done(
                    connection,
                    tenant_id,
                    kind,
                    user_id=user_id,
                    params=params,
                    result={"counts": counts},
                )
            else:
                job = await enqueueing.enqueue(
                    connection,
                    tenant_id,
                    kind,
                    user_id=user_id,
                    params=params,
                    max_attempts=self._max_attempts,
                )
            return StartedUpkeep(job, counts)

        async def again(connection: Connection, ids: Sequence[str]) -> StartedUpkeep:
            job = await jobs.get_job(connection, tenant_id, UUID(ids[0]), only_user=user_id)
            return StartedUpkeep(job, job.params.get("counts", {}))

        return IdempotentOperation(
            change=change,
            ids=lambda started: [str(started.job.job_id)],
            again=again,
            users=lambda _: [] if user_id is None else [user_id],
        )
