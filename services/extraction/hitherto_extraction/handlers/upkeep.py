"""Upkeep on demand: implements RunDecay, RunRetention and Consolidate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from hitherto_extraction.consolidation.runner import Consolidation
from hitherto_extraction.once import IdempotentOperation
from hitherto_extraction.pipeline.crowded_tags import KIND as CONSOLIDATION
from hitherto_extraction.queue import enqueueing, jobs
from hitherto_extraction.storage import users
from hitherto_shared.database.pool import Connection
from hitherto_shared.encryption.at_hand import keys_at_hand
from hitherto_shared.models import Job, Scope

Count = Callable[[Connection], Awaitable[Mapping[str, int]]]


class CountableUpkeep(Protocol):
    """Upkeep that can report what it would do."""

    async def count(
        self, connection: Connection, tenant_id: str, user_id: str | None
    ) -> dict[str, int]:
        """What a run would do now, by name."""
        ...


@dataclass(frozen=True, slots=True)
class StartedUpkeep:
    """The job of a call that starts upkeep, and the counts if they are available at once."""

    job: Job
    counts: Mapping[str, int]


class UpkeepOnDemand:
    """Starts upkeep of one user's data, or of a tenant's.

    With `dry_run` the job has already ended when it is created: its result holds the counts of
    what a run would do, and nothing else changes.
    """

    def __init__(
        self,
        kinds: Mapping[str, CountableUpkeep],
        consolidation: Consolidation,
        *,
        max_attempts: int,
    ) -> None:
        """Start `kinds` of jobs, and `consolidation`."""
        self._kinds = kinds
        self._consolidation = consolidation
        self._max_attempts = max_attempts

    def start(
        self, kind: str, tenant_id: str, *, user_id: str | None, dry_run: bool
    ) -> IdempotentOperation[StartedUpkeep]:
        """A call of RunDecay or RunRetention."""

        async def count(connection: Connection) -> Mapping[str, int]:
            return await self._kinds[kind].count(connection, tenant_id, user_id)

        return self._starting(kind, tenant_id, user_id, count, {"dry_run": dry_run})

    async def consolidate(
        self, tenant_id: str, *, user_id: str | None, tag: str | None, dry_run: bool
    ) -> IdempotentOperation[StartedUpkeep]:
        """A call of Consolidate. Counting calls no model."""
        key = None
        if user_id is not None:
            # Before the transaction, because a key-management service may be slow.
            key = await self._consolidation.key_of_names(Scope(tenant_id, user_id))
        asked = {"asked": True, **({} if tag is None else {"tag": tag}), "dry_run": dry_run}

        async def count(connection: Connection) -> Mapping[str, int]:
            with keys_at_hand(key):
                return await self._consolidation.count(
                    connection, tenant_id, user_id, self._consolidation.wanted(asked)
                )

        return self._starting(CONSOLIDATION, tenant_id, user_id, count, asked)

    def _starting(
        self, kind: str, tenant_id: str, user_id: str | None, count: Count, asked: Mapping[str, Any]
    ) -> IdempotentOperation[StartedUpkeep]:
        dry_run = asked["dry_run"]

        async def change(connection: Connection) -> StartedUpkeep:
            if user_id is not None:
                await users.hold_off_erase(connection, Scope(tenant_id, user_id))
            counts = await count(connection) if dry_run or user_id is not None else {}
            params = {**asked, "counts": counts}
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
