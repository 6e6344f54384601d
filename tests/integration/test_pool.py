"""Borrowing a connection: free when all is well, and never a dead one (faults.md row 17)."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool, PoolTimeout, TooManyRequests

from hitherto_shared.database import abandoned, lending, pool
from hitherto_shared.database.embedded import EmbeddedPostgres
from hitherto_shared.database.migrate import migrate
from hitherto_shared.database.pipeline_connection import PipelineConnection
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.database.tenancy import acting_for
from hitherto_shared.errors import TooLate, Unavailable, WorkTooLong
from tests.conftest import limit_transactions
from tests.integration.embedded.processes import runs
from tests.waiting import eventually, wait_until

SIZE = 6


@asynccontextmanager
async def opened(conninfo: str, *, max_waiting: int = 256) -> AsyncIterator[Database]:
    """A pool that never shrinks, with all of its connections made."""
    database = Database(
        conninfo,
        "hitherto_read",
        application="pool",
        min_size=SIZE,
        max_size=SIZE,
        max_waiting=max_waiting,
        wait_seconds=5,
    )
    await database.open()
    try:
        barrier = asyncio.Barrier(SIZE)

        async def meet(connection: Connection) -> int:
            await barrier.wait()
            return connection.info.backend_pid

        pids = await asyncio.gather(*(database.run(meet, timeout=120) for _ in range(SIZE)))
        assert len(set(pids)) == SIZE
        yield database
    finally:
        await database.close()


@pytest.fixture
async def database(conninfo: str) -> AsyncIterator[Database]:
    async with opened(conninfo) as database:
        yield database


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The connections that were asked whether they live."""
    pids: list[int] = []
    really = AsyncConnectionPool.check_connection

    async def check(connection: Connection) -> None:
        pids.append(connection.info.backend_pid if not connection.closed else 0)
        await really(connection)

    monkeypatch.setattr(AsyncConnectionPool, "check_connection", check)
    return pids


async def pid_of(connection: Connection) -> int:
    return int(await connection.fetch_value("SELECT pg_backend_pid()"))


def cut_all(superuser_conninfo: str) -> None:
    with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
        row = connection.execute(
            "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'pool'"
        ).fetchone()
    assert row == (SIZE,)


async def test_a_healthy_connection_is_lent_without_asking_it(
    database: Database, asked: list[int]
) -> None:
    for _ in range(3 * SIZE):
        await database.run(pid_of, timeout=120)
    assert asked == []


async def test_calls_one_after_the_other_have_one_connection(database: Database) -> None:
    """Its process has everything at hand; those at once have one each, as ever."""
    pids = {await database.run(pid_of, timeout=120) for _ in range(3 * SIZE)}
    assert len(pids) == 1
    await until_full(database)
    assert len({await database.run(pid_of, timeout=120) for _ in range(3 * SIZE)}) == 1


async def test_a_pool_begins_with_as_many_connections_as_it_was_told(conninfo: str) -> None:
    """Whoever waits for the first must not have another one made."""
    made: list[int] = []

    async def note(connection: Connection) -> None:
        made.append(connection.info.backend_pid)

    wide = Database(conninfo, "hitherto_read", application="pool", max_size=SIZE, configure=note)
    await wide.open()
    await wide.run(pid_of, timeout=120)
    # Waits for connections that are being made.
    await wide.close()
    assert len(made) == 1


async def test_one_call_alone_after_every_connection_was_cut(
    database: Database, superuser_conninfo: str
) -> None:
    """faults.md row 17; not even work that may not be repeated notices."""
    for _ in range(2):
        cut_all(superuser_conninfo)
        assert await database.run(pid_of, timeout=120) > 0
        await asyncio.gather(*(database.run(pid_of, timeout=120) for _ in range(4 * SIZE)))
        await until_full(database)


async def until_full(database: Database) -> None:
    """Wait until every connection is made anew."""
    async with asyncio.timeout(180):
        met = asyncio.Barrier(SIZE)

        async def meet(connection: Connection) -> None:
            await met.wait()

        await asyncio.gather(*(database.run(meet, timeout=120) for _ in range(SIZE)))


async def test_a_cut_that_cannot_be_seen_yet_costs_one_repetition(
    database: Database, superuser_conninfo: str, monkeypatch: pytest.MonkeyPatch, asked: list[int]
) -> None:
    """The end of a connection may be under way still; the repetition must not meet the next."""
    cut_all(superuser_conninfo)
    monkeypatch.setattr(PipelineConnection, "has_news", False)
    assert await database.run(pid_of, timeout=120, repeatable=True) > 0
    assert 1 <= len(asked) < SIZE
    # All that are left from before are asked by whoever is lent them, so that nobody repeats.
    await asyncio.gather(*(database.run(pid_of, timeout=120) for _ in range(2 * SIZE)))
    assert len(asked) <= SIZE
    asked.clear()
    await asyncio.gather(*(database.run(pid_of, timeout=120) for _ in range(2 * SIZE)))
    assert asked == []


async def test_a_connection_with_something_to_say_is_asked_and_kept(
    conninfo: str, superuser_conninfo: str, asked: list[int]
) -> None:
    database = Database(conninfo, "hitherto_read", application="pool", max_size=1)
    await database.open()
    try:

        async def listen(connection: Connection) -> int:
            await connection.execute("LISTEN something")
            return await pid_of(connection)

        pid = await database.run(listen, timeout=120)
        with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
            async with asyncio.timeout(180):
                while not asked:
                    # One that comes during a statement is read along with the answer to it.
                    connection.execute("NOTIFY something")
                    assert await database.run(pid_of, timeout=120) == pid
        assert set(asked) == {pid}
    finally:
        await database.close()


@pytest.fixture(scope="module")
def private_postgres() -> Iterator[EmbeddedPostgres]:
    folder = Path(tempfile.mkdtemp(prefix="rp-"))
    folder.chmod(0o711)
    try:
        with EmbeddedPostgres.acquire(folder / "data") as server:
            migrate(server.conninfo())
            yield server
    finally:
        shutil.rmtree(folder)


async def test_calls_after_a_restart_of_postgres(private_postgres: EmbeddedPostgres) -> None:
    """faults.md rows 13 and 17: once it takes connections again, nobody meets an old one."""
    async with opened(private_postgres.conninfo()) as database:
        first = private_postgres.pid
        assert first is not None
        os.kill(first, signal.SIGQUIT)
        await asyncio.to_thread(wait_until, lambda: not runs(first), "the end of Postgres")

        def back() -> bool:
            try:
                psycopg.connect(private_postgres.superuser_conninfo()).close()
            except psycopg.OperationalError:
                return False
            return True

        await asyncio.to_thread(wait_until, back, "the return of Postgres")
        found = await asyncio.gather(*(database.run(pid_of, timeout=120) for _ in range(2 * SIZE)))
        assert all(found)


async def test_a_pool_that_shrinks_keeps_the_connection_in_use(
    conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a burst, those that lie idle end; what is used all the time is not made anew."""
    monkeypatch.setattr(lending, "_REST_SECONDS", 0.2)
    monkeypatch.setattr(pool, "_IDLE_SECONDS", 0.5)
    database = Database(conninfo, "hitherto_read", application="pool-burst", max_size=SIZE)
    await database.open()
    try:
        await until_full(database)
        used = await database.run(pid_of, timeout=120)

        async def others(connection: Connection) -> int:
            count = await connection.fetch_value(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE application_name = 'pool-burst' AND pid <> pg_backend_pid()"
            )
            return int(count)

        async with asyncio.timeout(180):
            while await database.run(others, timeout=120):
                assert await database.run(pid_of, timeout=120) == used
        assert await database.run(pid_of, timeout=120) == used
    finally:
        await database.close()


async def test_what_lies_ready_goes_to_whoever_waits(conninfo: str) -> None:
    """More callers than connections, again and again: nobody is forgotten."""
    database = Database(
        conninfo, "hitherto_read", application="pool", max_size=2, max_waiting=500, wait_seconds=30
    )
    await database.open()
    try:
        for _ in range(5):
            pids = await asyncio.gather(*(database.run(pid_of, timeout=120) for _ in range(100)))
            assert len(set(pids)) <= 2
    finally:
        await database.close()


async def test_the_callers_of_one_tenant_are_no_reason_to_refuse_another(conninfo: str) -> None:
    database = Database(
        conninfo, "hitherto_read", application="pool", max_size=1, max_waiting=8, wait_seconds=120
    )
    await database.open()
    go_on = asyncio.Event()

    async def hold(connection: Connection) -> int:
        await go_on.wait()
        return await pid_of(connection)

    async def of(tenant: str) -> int:
        with acting_for(tenant):
            return await database.run(hold, timeout=60)

    try:
        used = await database.run(pid_of, timeout=120)
        loud = [asyncio.create_task(of("loud")) for _ in range(10)]
        async with asyncio.timeout(120):
            done, waiting = await asyncio.wait(loud, return_when=asyncio.FIRST_COMPLETED)
        assert [type(each.exception()) for each in done] == [TooManyRequests]
        quiet = asyncio.create_task(of("quiet"))
        await asyncio.sleep(0)
        go_on.set()
        assert await asyncio.gather(quiet, *waiting) == [used] * 10
        # Whoever waits gets another one in place of one that was lost.
        go_on.clear()

        async def lose(connection: Connection) -> None:
            await go_on.wait()
            await connection.close()

        losing = asyncio.create_task(database.run(lose, timeout=120))
        quiet = asyncio.create_task(of("quiet"))
        await asyncio.sleep(0)
        go_on.set()
        assert await quiet != used
        await asyncio.gather(losing, return_exceptions=True)
    finally:
        await database.close()


async def test_callers_who_gave_up_leave_their_places_to_others(
    private_postgres: EmbeddedPostgres,
) -> None:
    """Many give up while Postgres is frozen; then it goes on, and every place is to be had.

    Those who gave up must not count as waiting, however many they were, and no connection may be
    lost between them.
    """
    async with opened(private_postgres.conninfo(), max_waiting=8) as database:
        pids = [pid for pid in (private_postgres.pid,) if pid is not None]
        with psycopg.connect(private_postgres.superuser_conninfo()) as connection:
            cursor = connection.execute("SELECT pid FROM pg_stat_activity")
            pids += [row[0] for row in cursor.fetchall() if row[0] != connection.info.backend_pid]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            for _ in range(20):
                refused = await asyncio.gather(
                    *(database.run(pid_of, timeout=0.01) for _ in range(8)), return_exceptions=True
                )
                assert {type(error) for error in refused} <= {TooLate, TooManyRequests}
            # By now what held a connection has been cut off, and new ones are being made in vain.
            await asyncio.sleep(abandoned.MOMENT_SECONDS + 2 * abandoned.INSIST_SECONDS)
        finally:
            for pid in reversed(pids):
                os.kill(pid, signal.SIGCONT)
        await asyncio.wait_for(until_answered(database), timeout=120)
        await until_full(database)
        # Whether a database answers.
        assert await database.answers(timeout=120)
        await asyncio.to_thread(private_postgres.release)
        assert not await database.answers(timeout=2)
        with pytest.raises((Unavailable, TooLate)):
            await database.run(pid_of, timeout=2, repeatable=True)


async def until_answered(database: Database) -> None:
    while True:
        try:
            await database.run(pid_of, timeout=5)
        except (TooLate, TooManyRequests, PoolTimeout, Unavailable, psycopg.Error):
            await asyncio.sleep(0.05)
        else:
            return


async def test_no_connection_is_lost_to_callers_who_give_up_at_any_moment(conninfo: str) -> None:
    """A thousand calls, each cut off somewhere between borrowing and giving back."""
    database = Database(
        conninfo, "hitherto_read", application="pool", max_size=SIZE, max_waiting=500
    )
    await database.open()
    chance = random.Random(5)

    async def work(connection: Connection) -> None:
        async with connection.transaction():
            await connection.execute("SELECT pg_sleep(%s)", [chance.uniform(0.0, 0.01)])
            if chance.random() < 0.1:
                await connection.execute("SELECT 1 / 0")

    async def one(seconds: float) -> None:
        with suppress(TooLate, PoolTimeout, TooManyRequests, psycopg.Error):
            await database.run(work, timeout=seconds)

    try:
        for _ in range(10):
            tasks = [asyncio.create_task(one(chance.uniform(0.0, 0.05))) for _ in range(100)]
            for task in tasks[::5]:
                asyncio.get_running_loop().call_later(chance.uniform(0, 0.03), task.cancel)
            await asyncio.gather(*tasks, return_exceptions=True)
        await until_full(database)
    finally:
        await database.close()


@pytest.mark.parametrize("left", ["SELECT 1", "BEGIN"])
async def test_a_connection_survives_a_borrower_who_is_cut_off_while_returning_it(
    conninfo: str, left: str
) -> None:
    """Its return has to wait for the pool, and its borrower's time is up meanwhile."""
    database = Database(conninfo, "hitherto_read", application="pool", max_size=1)
    await database.open()
    try:
        lent, go_on = asyncio.Event(), asyncio.Event()
        # From now on the one connection is lent at once: before its borrower's time is up.
        await database.run(pid_of, timeout=120)

        async def hold(connection: Connection) -> None:
            lent.set()
            await go_on.wait()
            with suppress(psycopg.Error):
                await connection.execute(left)

        holder = asyncio.create_task(database.run(hold, timeout=0.5))
        await lent.wait()
        waiting = asyncio.create_task(database.run(pid_of, timeout=120))
        await asyncio.sleep(0)
        async with database._pool._lock:
            go_on.set()
            # It may also be that the pool is not needed for this.
            with suppress(TooLate):
                await holder
            await asyncio.sleep(2 * abandoned.MOMENT_SECONDS)
        assert await waiting > 0
    finally:
        await database.close()


async def test_a_connection_that_was_in_use_for_long_returns_to_the_pool(
    conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pool replaces what is too old, and only what returns to it."""
    monkeypatch.setattr(lending, "_REST_SECONDS", 3_600.0)
    database = Database(conninfo, "hitherto_read", application="pool", max_size=1)
    await database.open()
    try:
        await database.run(pid_of, timeout=120)
        monkeypatch.setattr(lending, "_OUT_SECONDS", -1.0)
        await database.run(pid_of, timeout=120)
        await eventually(lambda: database._pool.get_stats()["pool_available"] == 1)
    finally:
        await database.close()


async def test_a_read_whose_connection_is_lost_is_repeated_once(conninfo: str) -> None:
    database = Database(conninfo, "hitherto_read", application="pool", max_size=1)
    lost: list[int] = []

    async def lose(connection: Connection) -> int:
        lost.append(len(lost))
        if len(lost) < 9:
            await connection.close()
        return await pid_of(connection)

    await database.open()
    try:
        with pytest.raises(psycopg.OperationalError):
            await database.run(lose, timeout=120, repeatable=True)
        assert lost == [0, 1]
    finally:
        await database.close()


async def test_a_connection_whose_check_is_cut_off_is_not_lost(
    conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(conninfo, "hitherto_read", application="pool", max_size=1, wait_seconds=30)

    async def cut_off(connection: Connection) -> None:
        raise TimeoutError

    await database.open()
    try:
        with monkeypatch.context() as patched:
            patched.setattr(PipelineConnection, "has_news", True)
            patched.setattr(AsyncConnectionPool, "check_connection", cut_off)
            with pytest.raises(TimeoutError):
                await database.run(pid_of, timeout=120)
        assert await database.run(pid_of, timeout=120)
    finally:
        await database.close()


async def test_a_tenant_that_was_set_half_way_is_not_taken_for_the_one_before(
    conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(conninfo, "hitherto_read", application="pool", max_size=1)
    set_tenant = PipelineConnection.keep_setting

    async def whose(connection: Connection) -> object:
        return await connection.fetch_value("SELECT current_setting('hitherto.tenant_id')")

    async def of(tenant: str) -> object:
        with acting_for(tenant):
            return await database.run(whose, timeout=120)

    async def cut_off(connection: Connection, name: str, value: str) -> None:
        await set_tenant(connection, name, value)
        raise TimeoutError

    await database.open()
    try:
        assert await of("ana's") == "ana's"
        with monkeypatch.context() as patched:
            patched.setattr(PipelineConnection, "keep_setting", cut_off)
            with pytest.raises(TimeoutError):
                await of("ben's")
        assert await of("ana's") == "ana's"
    finally:
        await database.close()


async def test_work_that_takes_too_long_amid_a_transaction_is_ended_at_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It must not commit what its caller is told was not committed."""
    monkeypatch.setattr(pool, "MOMENT_SECONDS", 3_600.0)
    ended = asyncio.Event()

    async def work(connection: Connection) -> None:
        async with connection.transaction():
            try:
                await connection.execute("SELECT 1")
                await asyncio.Event().wait()
            finally:
                ended.set()

    with pytest.raises(WorkTooLong):
        await database.run(work, timeout=1)
    await asyncio.wait_for(ended.wait(), timeout=60)


async def test_no_transaction_is_cut_off_by_a_default_of_the_database(
    conninfo: str, superuser_conninfo: str
) -> None:
    """PostgreSQL 17 can limit transactions; the work of some jobs takes long, and has limits."""
    limit_transactions(superuser_conninfo, milliseconds=500)
    async with opened(conninfo) as database:

        async def work(connection: Connection) -> tuple[int, ...] | None:
            async with connection.transaction():
                await connection.execute("SELECT pg_sleep(0.8)")
                return await connection.fetch_row("SELECT 1")

        assert await database.run(work, timeout=30) == (1,)
