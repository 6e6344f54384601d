"""Upkeep on demand: implements RunDecay, RunRetention and Consolidate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from hitherto_extraction.consolidation.runner import Consolidation
from hitherto_extraction.once import IdempotentOperation
from hitherto_extraction.pipeline.crowded_tags import KIND as CONSOLIDATION
from hitherto_extraction.queue import jobs
from hitherto_extraction.queue.enqueueing import JobQueue, enqueue_done
from hitherto_extraction.storage import users
from hitherto_shared.database.pool import Connection
from hitherto_shared.models import Job, Scope

Count = Callable[[Connection], Awaitable[Mapping[str, int]]]


class CountableUpkeep(Protocol):
    """Upkeep that can report what it would do."""

    async def count(
        self, connection: Connection, tenant_id: str, user_id: str | None
    ) -> dict[str, int]:
        """What a run would do now, by name."""
        ...


@dataclass(eq=False)
class UpkeepOnDemand:
    """Starts upkeep of one user's data, or of a tenant's.

    With `dry_run` the job has already ended when it is created: its result holds the counts of
    what a run would do, and nothing else changes. Counts that are available at once are in the
    parameters of the job.
    """

    kinds: Mapping[str, CountableUpkeep]
    consolidation: Consolidation
    queue: JobQueue

    def start(
        self, kind: str, tenant_id: str, *, user_id: str | None, dry_run: bool
    ) -> IdempotentOperation[Job]:
        """A call of RunDecay or RunRetention."""

        async def count(connection: Connection) -> Mapping[str, int]:
            return await self.kinds[kind].count(connection, tenant_id, user_id)

        return self._starting(kind, tenant_id, user_id, count, {"dry_run": dry_run})

    def consolidate(
        self, tenant_id: str, *, user_id: str | None, tag: str | None, dry_run: bool
    ) -> IdempotentOperation[Job]:
        """A call of Consolidate. Counting calls no model."""
        asked = {"asked": True, **({} if tag is None else {"tag": tag}), "dry_run": dry_run}

        async def count(connection: Connection) -> Mapping[str, int]:
            return await self.consolidation.count(
                connection, tenant_id, user_id, self.consolidation.wanted(asked)
            )

        return self._starting(CONSOLIDATION, tenant_id, user_id, count, asked)

    def _starting(
        self, kind: str, tenant_id: str, user_id: str | None, count: Count, asked: Mapping[str, Any]
    ) -> IdempotentOperation[Job]:
        dry_run = asked["dry_run"]

        async def change(connection: Connection) -> Job:
            if user_id is not None:
                await users.hold_off_erase(connection.of(Scope(tenant_id, user_id)))
            counts = await count(connection) if dry_run or user_id is not None else {}
            params = {**asked, "counts": counts}
            if dry_run:
                return await enqueue_done(
                    connection,
                    tenant_id,
                    kind,
                    user_id=user_id,
                    params=params,
                    result={"counts": counts},
                )
            return await self.queue.enqueue(
                connection, tenant_id, kind, user_id=user_id, params=params
            )

        async def again(connection: Connection, ids: Sequence[str]) -> Job:
            return await jobs.get_job(connection, tenant_id, UUID(ids[0]), only_user=user_id)

        return IdempotentOperation(
            change=change,
            ids=lambda job: [str(job.job_id)],
            again=again,
            users=lambda _: [] if user_id is None else [user_id],
        )
