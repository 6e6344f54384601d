"""Pools of a service behind a real PgBouncer that lends servers for one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from hitherto_retrieval.storage.connection_setup import prepare_session
from hitherto_shared.config import SharedSettings
from hitherto_shared.database.connect import LOGINS, DatabaseUnreachable, Role, connected, with_role
from hitherto_shared.database.embedded import EmbeddedPostgres
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.database.signals import Signals
from hitherto_shared.database.tenancy import acting_for
from hitherto_shared.errors import TooLate
from hitherto_shared.startup import StartupFailed, locate_database
from tests.conftest import as_superuser, limit_transactions, new_database
from tests.pgbouncer import PgBouncer

_WHERE = "SELECT current_setting('hitherto.tenant_id', true), pg_backend_pid()"
_INSERT = "INSERT INTO users (tenant_id, user_id) VALUES (%s, %s)"
_USERS = "SELECT tenant_id, user_id FROM users ORDER BY user_id"
_SETTINGS = """
SELECT current_setting('search_path'), current_setting('timezone'),
       current_setting('statement_timeout'), current_setting('plan_cache_mode')
"""


@pytest.fixture(scope="module")
def base(postgres: EmbeddedPostgres) -> Iterator[str]:
    """A database whose sessions begin far from UTC, and where no name is found."""
    with new_database(postgres) as made:
        name = str(psycopg.conninfo.conninfo_to_dict(made)["dbname"])
        with psycopg.connect(as_superuser(postgres, made), autocommit=True) as connection:
            for setting in ("timezone = 'Asia/Ho_Chi_Minh'", "search_path = pg_catalog"):
                connection.execute(
                    sql.SQL("ALTER DATABASE {} SET {}").format(
                        sql.Identifier(name), sql.SQL(setting)
                    )
                )
        yield made


@pytest.fixture(scope="module")
def pooler(postgres: EmbeddedPostgres, base: str) -> Iterator[PgBouncer]:
    """One server for each login."""
    with PgBouncer(postgres, base, servers=1) as running:
        yield running


@asynccontextmanager
async def opened(conninfo: str, role: Role = "hitherto_read") -> AsyncIterator[Database]:
    """A pool of four connections to the pooler."""
    database = Database(
        conninfo,
        role,
        application="pooled",
        max_size=4,
        configure=prepare_session,
        pooler="transaction",
    )
    await database.open()
    try:
        yield database
    finally:
        await database.close()


@pytest.fixture
async def database(pooler: PgBouncer) -> AsyncIterator[Database]:
    async with opened(pooler.conninfo) as made:
        yield made


async def row(connection: Connection, statement: str, *given: object) -> tuple[Any, ...]:
    found = await connection.fetch_row(statement, given)
    assert found is not None
    return found


async def test_tenants_take_turns_on_one_server(database: Database) -> None:
    """Each statement, in a transaction or alone, has the tenant of its own caller."""

    async def look(tenant: str) -> set[int]:
        seen = set()
        with acting_for(tenant):
            for _ in range(10):
                async with database.connection() as connection:
                    alone = await row(connection, _WHERE)
                    await asyncio.sleep(0)
                    async with connection.transaction():
                        first = await row(connection, _WHERE)
                        # By way of psycopg's own cursor.
                        second = await connection.fetch_row(_WHERE)
                    bare = await connection.fetch_row(_WHERE)
                    async with connection.transaction(force_rollback=True):
                        undone = await row(connection, _WHERE)
                for found in (alone, first, second, bare, undone):
                    assert found is not None
                    assert found[0] == tenant
                    seen.add(found[1])
        return seen

    servers = await asyncio.gather(*(look(f"t{number}") for number in range(8)))
    assert len(set.union(*servers)) == 1


async def test_tenants_write_and_read_their_own_rows_on_one_server(pooler: PgBouncer) -> None:
    """Their users have the same names; every other row is written within a transaction."""

    async def write(database: Database, tenant: str) -> None:
        expected = []
        with acting_for(tenant):
            for number in range(10):
                async with database.connection() as connection, AsyncExitStack() as stack:
                    if number % 2:
                        await stack.enter_async_context(connection.transaction())
                    await connection.execute(_INSERT, [tenant, f"u{number}"])
                    await asyncio.sleep(0)
                    expected.append((tenant, f"u{number}"))
                    assert await connection.fetch_rows(_USERS) == expected

    async with opened(pooler.conninfo, "hitherto_write") as database:
        await asyncio.gather(*(write(database, f"t{number}") for number in range(8)))


async def test_nothing_is_left_in_the_session(database: Database, pooler: PgBouncer) -> None:
    """Whoever has the server next finds it as Postgres began it."""
    with acting_for("left"):

        async def work(connection: Connection) -> None:
            for _ in range(8):
                await row(connection, "SELECT %s::int + 1", 1)
            async with connection.transaction():
                await connection.later("SELECT %s::text", ["a"])
                await row(connection, _WHERE)

        await database.run(work, timeout=120)
    login = with_role(pooler.conninfo, "hitherto_read", application="other", pooler="transaction")
    with connected(login) as other:
        settings = other.execute(_SETTINGS).fetchone()
        tenant = other.execute(_WHERE).fetchone()
        prepared = other.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()
    assert settings == ("pg_catalog", "Asia/Ho_Chi_Minh", "0", "auto")
    assert tenant is not None
    assert not tenant[0]
    assert prepared == (0,)


async def test_a_transaction_has_the_settings_of_a_session(database: Database) -> None:
    expected = ("hitherto,public,extensions", "UTC", "30s", "force_generic_plan")

    async def work(connection: Connection) -> None:
        assert await row(connection, _SETTINGS) == expected
        async with connection.transaction():
            await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", {})
            assert await row(connection, _SETTINGS) == expected
            assert await row(connection, "SHOW transaction_isolation") == ("repeatable read",)

    with acting_for("a"):
        await database.run(work, timeout=120)


async def test_no_transaction_is_cut_off_by_a_default_of_the_database(
    postgres: EmbeddedPostgres,
) -> None:
    with new_database(postgres) as limited:
        limit_transactions(as_superuser(postgres, limited), milliseconds=500)
        with PgBouncer(postgres, limited, servers=1) as running:
            async with opened(running.conninfo) as database:

                async def work(connection: Connection) -> tuple[Any, ...]:
                    async with connection.transaction():
                        await row(connection, "SELECT pg_sleep(%s)", 0.8)
                        return await row(connection, "SELECT %s::int", 1)

                with acting_for("a"):
                    assert await database.run(work, timeout=30) == (1,)


async def test_times_are_utc_wherever_the_server_is(database: Database) -> None:
    noon = datetime(2024, 5, 17, 23, 30, tzinfo=UTC)

    async def work(connection: Connection) -> None:
        found = [
            (await row(connection, "SELECT %s::timestamptz", noon))[0],
            (await row(connection, "SELECT ARRAY[%s::timestamptz]", noon))[0][0],
        ]
        async with connection.transaction():
            found.append(await connection.fetch_value("SELECT timestamptz '2024-05-17 23:30+00'"))
        for time in found:
            assert (time, time.utcoffset()) == (noon, noon.utcoffset())

    with acting_for("a"):
        await database.run(work, timeout=120)


async def test_many_rows_and_an_error_in_between(pooler: PgBouncer) -> None:
    """A failed transaction leaves the connection usable, and its server to the others."""

    async def fail(connection: Connection) -> None:
        async with connection.transaction():
            async with connection.cursor() as many:
                await many.executemany("SELECT %s::int", [[number] for number in range(50)])
            await row(connection, "SELECT 1 / %s::int", 0)

    async def work(connection: Connection) -> None:
        for attempt in range(3):
            with pytest.raises(psycopg.errors.DivisionByZero):
                await fail(connection)
            assert await row(connection, "SELECT %s::int", attempt) == (attempt,)

    async with opened(pooler.conninfo, "hitherto_maintenance") as database:
        await database.run(work, timeout=120)


async def test_abandoned_work_gives_its_server_back(database: Database) -> None:
    """The only server is free long before the statement would have ended by itself."""

    async def sleep(connection: Connection) -> None:
        await row(connection, "SELECT pg_sleep(25), %s::int", 1)

    async def look(connection: Connection) -> tuple[Any, ...]:
        return await row(connection, _WHERE)

    with acting_for("a"):
        await database.run(look, timeout=120)
        with pytest.raises(TooLate):
            await database.run(sleep, timeout=0.5)
        async with asyncio.timeout(180):
            assert (await database.run(look, timeout=120))[0] == "a"


async def test_a_pooler_that_dies_is_replaced(postgres: EmbeddedPostgres, base: str) -> None:
    """A read that it interrupts is repeated, and every connection is made anew."""

    async def work(connection: Connection) -> tuple[Any, ...]:
        return await row(connection, _WHERE)

    with PgBouncer(postgres, base, servers=2) as pooler, acting_for("a"):
        async with opened(pooler.conninfo) as database:
            barrier = asyncio.Barrier(4)

            async def all_at_once(connection: Connection) -> None:
                await barrier.wait()
                await work(connection)

            await asyncio.gather(*(database.run(all_at_once, timeout=120) for _ in range(4)))
            pooler.kill()
            pooler.start()
            found = await asyncio.gather(
                *(database.run(work, timeout=120, repeatable=True) for _ in range(8))
            )
            assert {tenant for tenant, _ in found} == {"a"}


def settings_behind(bouncer: PgBouncer, **given: Any) -> SharedSettings:
    return SharedSettings.model_validate({"database_url": bouncer.conninfo, **given})


def test_a_service_without_the_mode_does_not_start(pooler: PgBouncer) -> None:
    with pytest.raises(StartupFailed, match="HITHERTO_POOLER=transaction"):
        locate_database(settings_behind(pooler))


def test_a_pooler_that_drops_settings_is_noticed(postgres: EmbeddedPostgres, base: str) -> None:
    """Its session would carry the tenant of one call into those of others."""
    with (
        PgBouncer(postgres, base, settings="ignore_startup_parameters = options") as dropping,
        pytest.raises(StartupFailed, match="HITHERTO_POOLER=transaction"),
    ):
        locate_database(settings_behind(dropping))


def test_a_service_finds_its_schema_through_the_pooler(pooler: PgBouncer) -> None:
    located = locate_database(settings_behind(pooler, pooler="transaction"))
    assert located.conninfo == pooler.conninfo


def test_migrations_go_past_the_pooler(pooler: PgBouncer, base: str) -> None:
    with pytest.raises(StartupFailed, match="HITHERTO_DIRECT_DATABASE_URL"):
        locate_database(settings_behind(pooler, pooler="transaction", migrate=True))
    locate_database(
        settings_behind(pooler, pooler="transaction", migrate=True, direct_database_url=base)
    )


def test_a_migration_through_a_pooler_is_refused(pooler: PgBouncer) -> None:
    for role in (*LOGINS, "hitherto_owner"):
        with pytest.raises(DatabaseUnreachable, match="HITHERTO_POOLER=transaction"):
            connected(with_role(pooler.conninfo, role, application="test"))


async def test_a_wrong_way_past_the_pooler_is_told_once(
    base: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries, many = 0, asyncio.Event()
    connect = psycopg.AsyncConnection.connect

    async def counted(*given: Any, **named: Any) -> psycopg.AsyncConnection:
        nonlocal tries
        tries += 1
        if tries == 5:
            many.set()
        return await connect(*given, **named)

    monkeypatch.setattr(psycopg.AsyncConnection, "connect", counted)
    monkeypatch.setattr("hitherto_shared.database.signals.LOOK_ANYWAY_SECONDS", 0.01)
    wrong = make_conninfo(base, user="hitherto_read", password="forgotten")
    told = Signals("told", wrong, later="changes are told")
    await told.start()
    try:
        async with asyncio.timeout(120):
            await many.wait()
    finally:
        await told.stop()
    [line] = [each for each in caplog.records if each.name == "hitherto.signals"]
    assert line.levelname == "WARNING"
    assert "it refuses the login" in line.getMessage()
    assert "HITHERTO_DIRECT_DATABASE_URL" in line.getMessage()
    assert "forgotten" not in line.getMessage()
