"""Consolidation on demand: implements Consolidate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from hitherto_extraction.consolidation.runner import Consolidation
from hitherto_extraction.once import IdempotentOperation
from hitherto_extraction.pipeline.crowded_tags import KIND
from hitherto_extraction.queue import enqueueing, jobs
from hitherto_extraction.storage import users
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.encryption.at_hand import keys_at_hand
from hitherto_shared.models import Job, Scope


@dataclass(frozen=True, slots=True)
class StartedConsolidation:
    """The job of a call, and the counts if they are available at once."""

    job: Job
    counts: Mapping[str, int]


class Consolidations:
    """Starts consolidations. The role is hitherto_maintenance, which may read across users."""

    def __init__(
        self, database: Database, consolidation: Consolidation, *, max_attempts: int
    ) -> None:
        self.database = database
        self._consolidation = consolidation
        self._max_attempts = max_attempts

    async def start(
        self, tenant_id: str, *, user_id: str | None, tag: str | None, dry_run: bool
    ) -> IdempotentOperation[StartedConsolidation]:
        """A call of Consolidate.

        With `dry_run` the job has already ended when it is created: its result holds the counts,
        and no model is called.
        """
        key = None
        if user_id is not None:
            # Before the transaction, because a key-management service may be slow.
            key = await self._consolidation.key_of_names(Scope(tenant_id, user_id))
        asked = {"asked": True, **({} if tag is None else {"tag": tag})}

        async def change(connection: Connection) -> StartedConsolidation:
            if user_id is not None:
                await users.hold_off_erase(connection, Scope(tenant_id, user_id))
            counts: dict[str, int] = {}
            if dry_run or user_id is not None:
                with keys_at_hand(key):
                    counts = await self._consolidation.count(
                        connection, tenant_id, user_id, self._consolidation.wanted(asked)
                    )
            params = {**asked, "dry_run": dry_run, "counts": counts}
            if dry_run:
                job = await enqueueing.enqueue_done(
                    connection,
                    tenant_id,
                    KIND,
                    user_id=user_id,
                    params=params,
                    result={"counts": counts},
                )
            else:
                job = await enqueueing.enqueue(
                    connection,
                    tenant_id,
                    KIND,
                    user_id=user_id,
                    params=params,
                    max_attempts=self._max_attempts,
                )
            return StartedConsolidation(job, counts)

        async def again(connection: Connection, ids: Sequence[str]) -> StartedConsolidation:
            job = await jobs.get_job(connection, tenant_id, UUID(ids[0]), only_user=user_id)
            return StartedConsolidation(job, job.params.get("counts", {}))

        return IdempotentOperation(
            change=change,
            ids=lambda begun: [str(begun.job.job_id)],
            again=again,
            users=lambda _: [] if user_id is None else [user_id],
        )
