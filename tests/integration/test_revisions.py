"""What tells a process that holds what it read of a person that it has to read anew."""

from __future__ import annotations

import asyncio
from typing import Any, LiteralString

import psycopg
import pytest

from hitherto_extraction.storage import upkeep, users
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.database.signals import Signals
from hitherto_shared.database.tenancy import acting_for
from hitherto_shared.models import Scope
from tests.revisions import HELD_TABLES
from tests.tenants import Tenant
from tests.waiting import eventually

SCOPE = Scope("default", "maren")


@pytest.fixture
async def writing(conninfo: str) -> Database:
    """The database as the extraction service writes to it."""
    return Database(conninfo, "hitherto_write", application="hitherto-extraction", max_size=4)


async def _in_one(database: Database, *steps: object) -> None:
    async def work(connection: Connection) -> None:
        async with connection.transaction():
            for step in steps:
                await step(connection)  # type: ignore[operator]

    await database.run(work, timeout=120)


def _revision(conninfo: str, user_id: str = "maren") -> int:
    with psycopg.connect(conninfo) as connection:
        row = connection.execute(
            "SELECT revision FROM hitherto.users WHERE user_id = %s", [user_id]
        ).fetchone()
    assert row is not None
    return int(row[0])


async def _only(
    connection: psycopg.AsyncConnection, query: LiteralString, *values: object
) -> object:
    row = await (await connection.execute(query, values)).fetchone()
    assert row is not None
    return row[0]


def _preference(key: str) -> object:
    async def write(connection: Connection) -> None:
        await connection.execute(
            "INSERT INTO preferences (tenant_id, user_id, type, key, value, confidence,"
            " observations) VALUES ('default', 'maren', 'topics', %(key)s, 'true', 0.5, 1)",
            {"key": key},
        )

    return write


async def test_each_way_to_become_the_only_writer_raises_it(
    conninfo: str, superuser_conninfo: str, writing: Database
) -> None:
    """A new person has a revision of their own; every lock gives another, never an earlier one."""
    maintenance = Database(conninfo, "hitherto_maintenance", application="hitherto-extraction")
    await writing.open()
    await maintenance.open()
    try:
        await _in_one(writing, lambda c: users.enter_user(c.of(SCOPE)))
        seen = [_revision(superuser_conninfo)]
        assert seen[0] > 0
        for database, lock in (
            (writing, lambda c: users.lock_user(c.of(SCOPE))),
            (writing, lambda c: users.enter_alone(c.of(SCOPE))),
            (writing, lambda c: users.lock_alone(c.of(SCOPE))),
            (maintenance, lambda c: users.lock_all(c, [SCOPE, Scope("default", "nobody")])),
            (maintenance, lambda c: upkeep.lock_users(c, "default", ["maren"], wait=False)),
            (maintenance, lambda c: upkeep.lock_users(c, "default", ["maren"], wait=True)),
        ):
            await _in_one(database, lock)
            seen.append(_revision(superuser_conninfo))
        assert seen == sorted(set(seen))
    finally:
        await maintenance.close()
        await writing.close()


async def test_several_are_locked_in_one_order(conninfo: str, superuser_conninfo: str) -> None:
    """Two who name the same people the other way round do not wait for each other for ever."""
    maintenance = Database(conninfo, "hitherto_maintenance", application="t", max_size=4)
    await maintenance.open()
    scopes = [Scope("default", f"u{i}") for i in range(20)]
    with psycopg.connect(superuser_conninfo) as connection:
        for scope in scopes:
            connection.execute(
                "INSERT INTO hitherto.users (tenant_id, user_id) VALUES (%s, %s)",
                [scope.tenant_id, scope.user_id],
            )
    try:
        await asyncio.gather(
            *(
                _in_one(maintenance, lambda c, named=named: users.lock_all(c, named))
                for named in [scopes, scopes[::-1]] * 10
            )
        )
        with psycopg.connect(superuser_conninfo) as connection:
            (least,) = connection.execute("SELECT min(revision) FROM hitherto.users").fetchone()  # type: ignore[misc]
        assert least > 0
    finally:
        await maintenance.close()


async def test_who_writes_without_raising_it_cannot_commit_in_tests(
    superuser_conninfo: str, writing: Database
) -> None:
    """The fence that holds all other tests does hold."""
    await writing.open()
    try:
        await _in_one(writing, lambda c: users.enter_user(c.of(SCOPE)))
        with pytest.raises(psycopg.errors.RaiseException, match="revision not raised"):
            await _in_one(writing, _preference("tea"))
        await _in_one(writing, lambda c: users.lock_user(c.of(SCOPE)), _preference("tea"))
        await _in_one(writing, _preference("coffee"), lambda c: users.lock_user(c.of(SCOPE)))
    finally:
        await writing.close()
    with psycopg.connect(superuser_conninfo) as connection:
        fenced = connection.execute(
            "SELECT tgrelid::regclass::text FROM pg_trigger WHERE tgname = 'test_require_raised'"
        ).fetchall()
    assert {name.removeprefix("hitherto.") for (name,) in fenced} == {*HELD_TABLES, "conversations"}


async def test_a_change_by_hand_outlasts_a_service_that_locks_the_other_way_round(
    superuser_conninfo: str, writing: Database
) -> None:
    """It holds a row and waits for the person; the service holds the person, and wants the row."""
    tenant = Tenant()
    scope = Scope(tenant.tenant_id, "maren")

    async def change(connection: Connection) -> None:
        await connection.execute(
            "UPDATE preferences SET observations = 2 WHERE tenant_id = %(tenant_id)s",
            {"tenant_id": tenant.tenant_id},
        )

    await writing.open()
    try:
        with acting_for(scope.tenant_id):
            await _in_one(writing, lambda c: users.enter_alone(c.of(scope)))
        async with (
            await psycopg.AsyncConnection.connect(tenant.rows_of(superuser_conninfo)) as hand,
            await psycopg.AsyncConnection.connect(superuser_conninfo, autocommit=True) as watch,
        ):
            await hand.execute(
                "INSERT INTO preferences (tenant_id, user_id, type, key, value, confidence,"
                " observations) VALUES (%s, 'maren', 'topics', 'tea', 'true', 0.5, 1)",
                (tenant.tenant_id,),
            )
            await hand.commit()
            await hand.execute("UPDATE preferences SET observations = 3")
            waiting: list[asyncio.Task[None]] = []

            async def commit_by_hand(_: Connection) -> None:
                waiting.append(asyncio.create_task(hand.commit()))
                blocked = "SELECT cardinality(pg_blocking_pids(%s)) > 0"
                await eventually(lambda: _only(watch, blocked, hand.info.backend_pid))

            with acting_for(scope.tenant_id), pytest.raises(psycopg.errors.DeadlockDetected):
                await _in_one(
                    writing, lambda c: users.lock_user(c.of(scope)), commit_by_hand, change
                )
            await waiting[0]
            assert await _only(watch, "SELECT observations FROM hitherto.preferences") == 3
    finally:
        await writing.close()


# The session of a process that listens for what changed in the database.


async def test_a_stop_while_it_begins_to_listen_closes_the_session(
    superuser_conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    signals = Signals("told", superuser_conninfo, later="changes are told")
    stopped: asyncio.Future[asyncio.Task[None]] = asyncio.get_running_loop().create_future()
    opened: list[psycopg.AsyncConnection] = []
    connect = psycopg.AsyncConnection.connect

    async def stopped_at_once(*given: Any, **named: Any) -> psycopg.AsyncConnection:
        opened.append(await connect(*given, **named))
        # The stop runs while LISTEN waits for its answer.
        stopped.set_result(asyncio.create_task(signals.stop()))
        return opened[0]

    monkeypatch.setattr(psycopg.AsyncConnection, "connect", stopped_at_once)
    await signals.start()
    async with asyncio.timeout(120):
        await (await stopped)
    [session] = opened
    assert session.closed
