"""Upkeep on demand: implements RunDecay, RunRetention and Consolidate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from hitherto_extraction.once import IdempotentOperation
from hitherto_extraction.queue import jobs
from hitherto_extraction.queue.enqueueing import JobQueue, enqueue_done
from hitherto_extraction.storage import users
from hitherto_shared.database.pool import Connection
from hitherto_shared.models import Job, Scope

Count = Callable[[Connection, str, str | None, Mapping[str, Any]], Awaitable[Mapping[str, int]]]
"""What a run would do now, by name: for a tenant, a user or None for all, and the parameters."""


@dataclass(eq=False)
class UpkeepOnDemand:
    """Starts upkeep of one user's data, or of a tenant's; `counting` is by the kind of upkeep."""

    counting: Mapping[str, Count]
    queue: JobQueue

    def start(
        self, kind: str, tenant_id: str, user_id: str | None, asked: Mapping[str, Any]
    ) -> IdempotentOperation[Job]:
        """Queue a job with the parameters `asked`.

        If `dry_run` is true, the job has already ended when it is created: its result holds
        the counts of what a run would do, and nothing else changes. Counts that are available at
        once are in the parameters of the job. Counting calls no model.
        """
        dry_run = asked["dry_run"]

        async def change(connection: Connection) -> Job:
            counts: Mapping[str, int] = {}
            if user_id is not None:
                await users.hold_off_erase(connection.of(Scope(tenant_id, user_id)))
            if dry_run or user_id is not None:
                counts = await self.counting[kind](connection, tenant_id, user_id, asked)
            params = {**asked, "counts": counts}
            if not dry_run:
                return await self.queue.enqueue(
                    connection, tenant_id, kind, user_id=user_id, params=params
                )
            return await enqueue_done(
                connection,
                tenant_id,
                kind,
                user_id=user_id,
                params=params,
                result={"counts": counts},
            )

        async def again(connection: Connection, ids: Sequence[str]) -> Job:
            return await jobs.get_job(connection, tenant_id, UUID(ids[0]), only_user=user_id)

        return IdempotentOperation(
            change,
            again,
            ids=lambda job: [str(job.job_id)],
            users=lambda _: [] if user_id is None else [user_id],
        )
