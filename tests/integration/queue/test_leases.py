"""Leases while a commit takes long: it holds the row of its own job only (faults.md row 76)."""

from __future__ import annotations

import asyncio
import sys
import time

import pytest

from hitherto_extraction.queue import claims, jobs, leases
from hitherto_extraction.queue.claims import Claim
from hitherto_shared.database.pool import Connection
from hitherto_shared.errors import TooLate, WorkTooLong
from hitherto_shared.model_api import ModelUnavailable
from tests.integration.queue.dying_worker import FATAL_USER
from tests.integration.queue.stage import BOUND, TENANT, Stage, transcript
from tests.waiting import eventually

_UNTIL = "SELECT lease_until > now() + interval '1 minute' FROM jobs WHERE job_id = %s"
_WAITING = (
    "SELECT 1 FROM pg_locks JOIN pg_stat_activity USING (pid)"
    " WHERE NOT granted AND datname = current_database()"
)


async def waiting_for_a_lock(stage: Stage) -> None:
    """Return once somebody waits; the caller sets the bound."""
    while not await stage.rows(_WAITING):  # noqa: ASYNC110 - the database is what changes
        await asyncio.sleep(0.01)


async def test_a_long_commit_keeps_no_other_lease_from_being_renewed(stage: Stage) -> None:
    await stage.submit(transcript(user="ana"))
    await stage.submit(transcript(user="bo"))
    committing, other = await stage.claim(lease_seconds=50.0)
    async with stage.maintenance.connection() as blocker, blocker.transaction():
        await claims.hold(blocker, committing)
        async with stage.maintenance.connection() as connection, asyncio.timeout(45):
            ours = await leases.renew(connection, [committing, other], lease_seconds=600)
    # Both are ours yet; the one that is being committed renews its lease by what it writes.
    assert ours == {committing.job_id: True, other.job_id: False}
    assert await stage.rows(_UNTIL, committing.job_id) == [(False,)]
    assert await stage.rows(_UNTIL, other.job_id) == [(True,)]


async def test_nobody_claims_a_job_that_is_being_committed_nor_right_after(stage: Stage) -> None:
    await stage.submit(transcript())
    (held,) = await stage.claim(lease_seconds=600)
    await stage.expire_leases()
    async with stage.maintenance.connection() as connection, connection.transaction():
        await claims.hold(connection, held)
        assert await stage.claim() == []
        await claims.record_progress(connection, held, done_to=1, result={}, finished=False)
    assert await stage.rows(_UNTIL, held.job_id) == [(True,)]
    assert await stage.claim() == []


async def test_a_commit_that_is_rolled_back_leaves_a_renewed_lease(stage: Stage) -> None:
    """Its lease ran out meanwhile; who waited for the lock renews it before anybody claims."""
    await stage.submit(transcript())
    (held,) = await stage.claim(lease_seconds=600)
    await stage.expire_leases()
    async with (
        stage.maintenance.connection() as blocker,
        stage.maintenance.connection() as connection,
        asyncio.timeout(180),
    ):
        async with blocker.transaction(force_rollback=True):
            await claims.hold(blocker, held)
            ours = await leases.renew(connection, [held], lease_seconds=600)
            assert ours == {held.job_id: True}
            renewal = asyncio.create_task(leases.renew_once_free(connection, held))
            await waiting_for_a_lock(stage)
        await renewal
    assert await stage.rows(_UNTIL, held.job_id) == [(True,)]
    assert await stage.claim() == []


async def test_a_job_that_ended_while_its_renewal_waited_is_left_alone(stage: Stage) -> None:
    await stage.submit(transcript())
    (held,) = await stage.claim()
    async with (
        stage.maintenance.connection() as committing,
        stage.maintenance.connection() as connection,
        asyncio.timeout(180),
    ):
        async with committing.transaction():
            await claims.hold(committing, held)
            renewal = asyncio.create_task(leases.renew_once_free(connection, held))
            await waiting_for_a_lock(stage)
            await claims.record_progress(committing, held, done_to=1, result={}, finished=True)
        await renewal
    ended = "SELECT state, lease_until FROM jobs WHERE job_id = %s"
    assert await stage.rows(ended, held.job_id) == [("succeeded", None)]


# A job's own slowness costs an attempt, the database's never does (rows 20 and 69).


_SECONDS = 0.2


async def test_work_ends_whose_claim_is_lost(stage: Stage) -> None:
    """What it would write is refused, and what it asks for costs."""
    begun, ended = asyncio.Event(), asyncio.Event()

    async def run(held: Claim) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    accepted = await stage.submit(transcript())
    await stage.worker(run, lease_seconds=3.0).start()
    async with asyncio.timeout(BOUND):
        await begun.wait()
        async with stage.maintenance.connection() as connection:
            await jobs.cancel_job(connection, TENANT, accepted.jobs[0].job_id)
        await ended.wait()


async def test_work_that_keeps_the_database_waiting_ends_dead(stage: Stage) -> None:
    await stage.submit(transcript())

    async def dawdle(connection: Connection) -> None:
        async with connection.transaction():
            await connection.execute("SELECT %s::integer", [1])
            await asyncio.sleep(3_600)

    async def run(_: Claim) -> None:
        await stage.write.run(dawdle, timeout=_SECONDS)

    await stage.worker(run).start()
    await stage.settled()
    assert await stage.rows("SELECT state, attempt, error FROM jobs") == [
        (
            "dead",
            4,
            "DEADLINE_EXCEEDED: the work of a transaction took longer than its limit of 0.2 s,"
            " without waiting for the database",
        )
    ]


async def test_a_job_that_waits_for_the_database_loses_no_attempt(stage: Stage) -> None:
    await stage.submit(transcript())

    async def ask(connection: Connection) -> None:
        async with connection.transaction():
            await connection.execute("SELECT pg_sleep(%s)", [3_600])

    async def run(_: Claim) -> None:
        await stage.write.run(ask, timeout=_SECONDS)

    async def waits() -> bool:
        return (await stage.states())["failed"] == 1

    await stage.worker(run, backoff_seconds=300.0).start()
    await eventually(waits)
    assert await stage.rows("SELECT attempt, error FROM jobs") == [
        (0, "DEADLINE_EXCEEDED: the database did not answer in time")
    ]


async def test_work_that_is_late_after_its_commit_is_in_doubt(stage: Stage) -> None:
    """It is not taken for work of which nothing was committed."""

    async def linger(connection: Connection) -> None:
        async with connection.transaction():
            await connection.execute("SELECT %s::integer", [1])
        await asyncio.sleep(3_600)

    with pytest.raises(TooLate) as caught:
        await stage.write.run(linger, timeout=_SECONDS)
    assert not isinstance(caught.value, WorkTooLong)


async def test_a_connection_that_ended_during_the_work_is_no_proof(stage: Stage) -> None:
    """The database went away meanwhile: the time that is up says nothing about the work."""
    async with stage.maintenance.connection() as connection:
        await connection.execute("BEGIN")
        assert connection.waits_for_us
        await stage.rows(f"SELECT pg_terminate_backend({connection.info.backend_pid})")

        async def noticed() -> bool:
            return not connection.waits_for_us

        await eventually(noticed)


# A job that ends its process, or holds its event loop, counts the attempt (row 69).


_STANDSTILL = 0.3


async def test_a_job_that_holds_the_loop_ends_dead_and_others_go_on(stage: Stage) -> None:
    """What the database or the model seem to be guilty of afterwards are our own time-outs."""
    await stage.submit(*(transcript(user=user) for user in ("slow", "slower", "ana", "bo")))

    async def run(held: Claim) -> None:
        if held.user_id in ("ana", "bo"):
            await stage.finish(held)
            return
        time.sleep(2 * _STANDSTILL)  # noqa: ASYNC251 - this is what the test is about
        if held.user_id == "slow":
            raise TooLate("the database did not answer in time", reason="DEADLINE_EXCEEDED")
        raise ModelUnavailable("the model server did not answer in time")

    await stage.worker(run, standstill_seconds=_STANDSTILL).start()
    await stage.settled()
    assert sorted(await stage.rows("SELECT user_id, state, attempt, error_reason FROM jobs")) == [
        ("ana", "succeeded", 1, ""),
        ("bo", "succeeded", 1, ""),
        ("slow", "dead", 4, "WORKER_LOST"),
        ("slower", "dead", 4, "WORKER_LOST"),
    ]


async def test_a_stop_gives_no_attempt_back_to_a_job_that_held_the_loop(stage: Stage) -> None:
    await stage.submit(transcript())
    held_up = asyncio.Event()

    async def run(_: Claim) -> None:
        time.sleep(2 * _STANDSTILL)  # noqa: ASYNC251 - this is what the test is about
        held_up.set()
        await asyncio.Event().wait()

    worker = stage.worker(run, standstill_seconds=_STANDSTILL)
    await worker.start()
    await held_up.wait()
    await worker.stop(0.0)
    assert await stage.rows("SELECT state, attempt, error_reason FROM jobs") == [
        ("failed", 1, "WORKER_LOST")
    ]


@pytest.mark.faults
async def test_a_job_that_ends_its_process_is_dead_after_four_claims(
    stage: Stage, conninfo: str, superuser_conninfo: str
) -> None:
    await stage.submit(*(transcript(user=user) for user in (FATAL_USER, "ana", "bo")))
    ends = []
    while not await stage.idle():
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.integration.queue.dying_worker"),
            *(conninfo, superuser_conninfo),
        )
        async with asyncio.timeout(2 * BOUND):
            ends.append(await process.wait())
        # As if a lease's time had passed.
        await stage.expire_leases()
        assert len(ends) < 10
    assert ends == [1, 1, 1, 1, 0]
    assert sorted(await stage.rows("SELECT user_id, state, error_reason FROM jobs")) == [
        ("ana", "succeeded", ""),
        ("bo", "succeeded", ""),
        (FATAL_USER, "dead", "WORKER_LOST"),
    ]
