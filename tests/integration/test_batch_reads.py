"""Reads that are one batch of statements: in time, and no connection is lost (faults.md row 17)."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

import psycopg
import pytest
import uvloop
from psycopg_pool import PoolTimeout, TooManyRequests

from hitherto_shared.database.exchange import BoundStatement, StatementResult
from hitherto_shared.database.pipeline_connection import PipelineConnection
from hitherto_shared.database.pool import Database
from hitherto_shared.errors import TooLate
from tests.waiting import wait_until

APPLICATION = "batch-reads"
Run = Callable[[Coroutine[Any, Any, None]], None]
BatchRead = Callable[[PipelineConnection], Awaitable[list[StatementResult]]]


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a test on each kind of event loop."""
    found: Run = request.param
    return found


def batch(*statements: str, **parameters: Any) -> BatchRead:
    asked = [BoundStatement(each, parameters) for each in statements]
    return lambda connection: connection.answers(asked)


PID = batch("SELECT pg_backend_pid()")


async def value(database: Database, read: BatchRead, *, timeout: float = 120.0) -> Any:
    """The last column of the last statement's first row."""
    answers = await database.run(read, timeout=timeout, repeatable=True)
    return answers[-1].rows[0][-1]


def within(conninfo: str, run: Run, test: Callable[[Database], Coroutine[Any, Any, None]]) -> None:
    """Run `test` on a pool of two connections."""

    async def opened() -> None:
        database = Database(
            conninfo, "hitherto_read", application=APPLICATION, max_size=2, max_waiting=500
        )
        await database.open()
        try:
            await test(database)
        finally:
            await database.close()

    run(opened())


def running(superuser_conninfo: str) -> int:
    """How many statements of the pool Postgres works on."""
    with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE application_name = %s AND state = 'active'",
            [APPLICATION],
        ).fetchone()
    assert row is not None
    return int(row[0])


async def until_idle(superuser_conninfo: str) -> None:
    await asyncio.to_thread(
        wait_until, lambda: not running(superuser_conninfo), "the end of the statement"
    )


@pytest.mark.parametrize("cancelled", [True, False])
def test_a_late_read_is_left_and_its_connection_kept(
    conninfo: str, superuser_conninfo: str, run: Run, cancelled: bool
) -> None:
    """The statement ends in Postgres too."""

    async def test(database: Database) -> None:
        pid = await value(database, PID)
        sleeping = batch("SELECT pg_sleep(600)")
        if cancelled:
            task = asyncio.ensure_future(value(database, sleeping))
            await asyncio.to_thread(
                wait_until, lambda: bool(running(superuser_conninfo)), "the statement"
            )
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            with pytest.raises(TooLate):
                await value(database, sleeping, timeout=0.05)
        await until_idle(superuser_conninfo)
        # It is given back a moment after its statement has ended.
        async with asyncio.timeout(60), asyncio.TaskGroup() as others:
            while await value(database, PID) != pid:
                others.create_task(value(database, batch("SELECT pg_sleep(0.05)")))

    within(conninfo, run, test)


def test_a_read_ends_in_time_whatever_postgres_does(
    conninfo: str, superuser_conninfo: str, run: Run
) -> None:
    """Its process is frozen: it takes no request to end a statement either."""

    async def test(database: Database) -> None:
        pid = await value(database, PID)
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(TooLate):
                await value(database, PID, timeout=0.05)
            assert await value(database, PID) != pid
        finally:
            os.kill(pid, signal.SIGCONT)
        await until_idle(superuser_conninfo)

    within(conninfo, run, test)


def test_a_connection_that_is_lost_under_a_read_is_replaced(
    conninfo: str, superuser_conninfo: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PipelineConnection, "has_news", False)

    async def test(database: Database) -> None:
        pid = await value(database, PID)
        with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])
        assert await value(database, PID) != pid

    within(conninfo, run, test)


def terminate(pid: int) -> None:
    """End a backend, and keep the event loop busy until the reason and the end have arrived."""
    os.kill(pid, signal.SIGTERM)
    time.sleep(0.05)


@pytest.mark.parametrize("size", [10, 100_000])
def test_a_read_whose_backend_is_ended_meanwhile_is_repeated(
    conninfo: str, run: Run, size: int
) -> None:
    """What Postgres has not read yet turns the end into a reset, right behind the reason."""

    async def test(database: Database) -> None:
        pid = await value(database, PID)
        read = batch("SELECT pg_sleep(0.3)", "SELECT length(%(text)s::text)", text="x" * size)
        task = asyncio.ensure_future(value(database, read))
        await asyncio.sleep(0.1)
        terminate(pid)
        assert await task == size
        assert await value(database, PID) != pid

    within(conninfo, run, test)


@pytest.mark.parametrize("size", [10, 3_000_000])
def test_a_read_sent_to_a_backend_that_has_just_ended_is_repeated(
    conninfo: str, run: Run, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    async def test(database: Database) -> None:
        pid = await value(database, PID)
        untroubled = database._untroubled

        def ended_behind_the_check(connection: PipelineConnection) -> bool:
            found = untroubled(connection)
            if found and connection.info.backend_pid == pid:
                terminate(pid)
            return found

        monkeypatch.setattr(database, "_untroubled", ended_behind_the_check)
        read = batch("SELECT length(%(text)s::text)", text="x" * size)
        assert await value(database, read) == size
        assert await value(database, PID) != pid

    within(conninfo, run, test)


def test_no_connection_is_lost_to_reads_that_give_up_at_any_moment(conninfo: str, run: Run) -> None:
    chance = random.Random(7)

    async def test(database: Database) -> None:
        async def one(seconds: float) -> None:
            read = batch("SELECT pg_sleep(%(seconds)s)", seconds=chance.uniform(0.0, 0.01))
            with suppress(TooLate, PoolTimeout, TooManyRequests, psycopg.Error):
                await value(database, read, timeout=seconds)

        for _ in range(40):
            tasks = [asyncio.create_task(one(chance.uniform(0.0, 0.03))) for _ in range(10)]
            for task in tasks[::5]:
                asyncio.get_running_loop().call_later(chance.uniform(0, 0.02), task.cancel)
            await asyncio.gather(*tasks, return_exceptions=True)
        met = asyncio.Barrier(2)

        async def meet(_: Any) -> None:
            await met.wait()

        await asyncio.gather(*(database.run(meet, timeout=120) for _ in range(2)))

    within(conninfo, run, test)
