"""Leases while a commit takes long: it holds the row of its own job only (faults.md row 76)."""

from __future__ import annotations

import asyncio

from hitherto_extraction.queue import claims, leases
from tests.integration.queue.stage import Stage, transcript

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
