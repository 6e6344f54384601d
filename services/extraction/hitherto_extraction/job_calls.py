"""Idempotent calls that return jobs, and retrying or cancelling a job."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from hitherto_extraction.once import IdempotentOperation, IdempotentResult, once
from hitherto_extraction.queue import jobs
from hitherto_extraction.queue.enqueueing import JobQueue
from hitherto_extraction.queue.jobs import RetryFilter
from hitherto_extraction.storage import conversations, users
from hitherto_extraction.storage.idempotency import Identity
from hitherto_shared.audit.trail import NOBODY, Trail
from hitherto_shared.consistency import Position
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.models import Job, Scope

MAX_RETRIED = 1_000
"""Maximum jobs that one call retries, so that its transaction stays short."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The outcome of a call that may queue jobs; `known` transcripts were stored whole already."""

    jobs: list[Job]
    position: Position
    pending_messages: int = 0
    known: int = 0


@dataclass(eq=False)
class JobCalls:
    """Creates and changes jobs in the database behind `database` (role hitherto_write)."""

    database: Database
    queue: JobQueue
    trail: Trail | None = None

    async def retry(
        self, connection: Connection, tenant_id: str, job_id: UUID, *, only_user: str | None = None
    ) -> Job:
        """Queue a DEAD, CANCELLED or waiting job again with its attempts restored.

        Raises:
            NotFound: There is no such job.
            WrongState: It is in another state, it never took any messages, or its user was erased.
            Exhausted: Too many jobs wait.
        """
        job = await jobs.get_job(connection, tenant_id, job_id, only_user=only_user)
        if job.user_id is not None:
            await users.enter_user(connection.of(Scope(tenant_id, job.user_id)))
        await self.queue.limit.require(connection, tenant_id)
        return await jobs.retry_job(connection, tenant_id, job_id, only_user=only_user)

    async def retry_all(
        self, tenant_id: str, identity: Identity | None, wanted: RetryFilter, *, timeout: float
    ) -> IdempotentResult[int]:
        """Queue matching jobs again, at most `MAX_RETRIED`, or answer as the first call did.

        Their number is returned. `Exhausted` is raised if too many jobs wait.
        """

        async def work(connection: Connection) -> dict[str | None, list[str]]:
            await self.queue.limit.require(connection, tenant_id)
            return await jobs.retry_jobs(connection, tenant_id, wanted, limit=MAX_RETRIED)

        async def again(connection: Connection, ids: Sequence[str]) -> dict[str | None, list[str]]:
            return {wanted.user_id: list(ids)}

        outcome = await once(
            self.database,
            identity,
            IdempotentOperation(
                work,
                again,
                ids=lambda made: [job_id for those in made.values() for job_id in those],
                users=lambda made: [user_id for user_id in made if user_id],
                touched=lambda made: {
                    user_id or NOBODY: ids
                    for user_id, ids in (made or {wanted.user_id: []}).items()
                },
            ),
            timeout=timeout,
            trail=self.trail,
        )
        return IdempotentResult(sum(map(len, outcome.made.values())), outcome.position)

    async def once(
        self,
        tenant_id: str,
        identity: Identity | None,
        user_ids: Sequence[str],
        work: Callable[[Connection], Awaitable[list[Job]]],
        timeout: float,
    ) -> Accepted:
        """Do `work` in one transaction, or answer as the first call with the same key did."""
        outcome = await once(
            self.database,
            identity,
            IdempotentOperation(
                work,
                lambda connection, ids: jobs.get_jobs(
                    connection, tenant_id, [UUID(i) for i in ids]
                ),
                ids=lambda made: [str(job.job_id) for job in made],
                # An erasure finds a user's keys by them, even if the request named only a job.
                users=lambda made: [*user_ids, *(job.user_id for job in made if job.user_id)],
                touched=lambda made: _jobs_by_user(user_ids, made),
            ),
            timeout=timeout,
            trail=self.trail,
        )
        return Accepted(outcome.made, outcome.position)


def _jobs_by_user(user_ids: Sequence[str], made: Sequence[Job]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {user_id: [] for user_id in sorted(set(user_ids))}
    for job in made:
        found.setdefault(job.user_id or NOBODY, []).append(str(job.job_id))
    return found


async def cancel_job(
    connection: Connection, tenant_id: str, job_id: UUID, *, only_user: str | None = None
) -> Job:
    """Cancel a job that has not ended, with the messages that only waited for it to start.

    Raises:
        NotFound: There is no such job.
        WrongState: It has ended already.
    """
    job = await jobs.get_job(connection, tenant_id, job_id, only_user=only_user)
    await own_waiting(connection, job)
    return await jobs.cancel_job(connection, tenant_id, job_id)


async def own_waiting(connection: Connection, job: Job) -> None:
    """Make the messages that only wait for a job to start its range.

    Later jobs skip them then, and RetryJob can run them.
    """
    if job.final or job.range_to is not None or not job.user_id or not job.conversation_id:
        return
    user = connection.of(Scope(job.tenant_id, job.user_id))
    counters = await conversations.lock_conversation(user, job.conversation_id)
    if counters is not None and await jobs.own_range(
        connection,
        job.tenant_id,
        job.job_id,
        range_from=counters.watermark + 1,
        range_to=counters.last_message_no,
    ):
        await conversations.move_watermark(
            user, job.conversation_id, watermark=counters.last_message_no
        )
