"""A job's own slowness costs an attempt, the database's never does (rows 20 and 69)."""

from __future__ import annotations

import asyncio

import pytest

from hitherto_extraction.queue.claims import Claim
from hitherto_shared.database.pool import Connection
from hitherto_shared.errors import TooLate, WorkTooLong
from tests.integration.queue.stage import Stage, transcript
from tests.waiting import eventually

_SECONDS = 0.2


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
