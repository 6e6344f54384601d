"""Connections as pools lend them: few trips in a transaction, and the meaning of one as ever."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from psycopg import pq
from psycopg.sql import SQL, Identifier

from hitherto_shared.database.exchange import BoundStatement
from hitherto_shared.database.pipeline_connection import PipelineConnection
from hitherto_shared.database.pool import Database
from hitherto_shared.models import Scope
from tests.waiting import eventually


class Counted(PipelineConnection):
    """Counts the trips to Postgres."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.trips = 0

    async def wait(self, *given: Any, **options: Any) -> Any:
        self.trips += 1
        return await super().wait(*given, **options)


@pytest.fixture
async def connection(superuser_conninfo: str) -> AsyncIterator[Counted]:
    opened = await Counted.connect(superuser_conninfo, autocommit=True, prepare_threshold=None)
    async with opened:
        await opened.execute("CREATE TEMPORARY TABLE things (id int PRIMARY KEY, name text)")
        opened.trips = 0
        yield opened


async def things(connection: PipelineConnection) -> list[tuple[Any, ...]]:
    return await connection.fetch_rows("SELECT id, name FROM things ORDER BY id", [])


async def many(connection: PipelineConnection, *rows: tuple[int, str]) -> None:
    await connection.later_for_each("INSERT INTO things VALUES (%s, %s)", rows)


async def test_statements_about_a_user_name_that_user_whatever_their_parameters(
    connection: Counted,
) -> None:
    ana = connection.of(Scope("acme", "ana"))
    owner = "SELECT %(tenant_id)s::text, %(user_id)s::text"
    assert ana.scope.bind(user_id="bo", tenant_id="other", id=1) == {
        "tenant_id": "acme",
        "user_id": "ana",
        "id": 1,
    }
    assert await ana.fetch_row(owner) == ("acme", "ana")
    assert await ana.fetch_rows(owner, user_id="bo", tenant_id="other") == [("acme", "ana")]
    assert await ana.fetch(Scope, owner) == [ana.scope]
    assert await ana.fetch_one(Scope, owner + " WHERE false") is None
    async with connection.transaction():
        await ana.later("INSERT INTO things VALUES (%(id)s, %(user_id)s)", id=1)
        assert await ana.fetch_values("SELECT name FROM things") == ["ana"]
        assert await ana.fetch_value("SELECT %(id)s::int + 1", id=1) == 2
    assert (await ana.execute("DELETE FROM things WHERE name = %(user_id)s")).rowcount == 1


async def test_a_transaction_takes_a_trip_for_each_answer_and_one_to_end(
    connection: Counted,
) -> None:
    async with connection.transaction():
        await connection.later("INSERT INTO things VALUES (%s, %s)", [1, "a"])
        await many(connection, (2, "b"), (3, "c"))
        cursor = await connection.execute("UPDATE things SET name = name || %s", ["!"])
        assert cursor.rowcount == 3
        await connection.later("DELETE FROM things WHERE id = %s", [2])
        await many(connection, (4, "d"))
    assert (connection.trips, connection.info.transaction_status) == (2, pq.TransactionStatus.IDLE)
    assert await things(connection) == [(1, "a!"), (3, "c!"), (4, "d")]


async def test_a_transaction_that_asks_nothing_takes_no_trip(connection: Counted) -> None:
    async with connection.transaction():
        pass
    assert connection.trips == 0


async def test_outside_of_a_transaction_nothing_waits(connection: Counted) -> None:
    await connection.later("INSERT INTO things VALUES (%s, %s)", [1, "a"])
    await many(connection, (2, "b"))
    assert connection.trips == 2
    with pytest.raises(psycopg.errors.UniqueViolation):
        await many(connection, (3, "c"), (2, "again"))
    assert await things(connection) == [(1, "a"), (2, "b")]


async def test_the_error_of_a_commit_at_the_end_of_a_trip_is_that_of_the_database(
    connection: Counted,
) -> None:
    await connection.execute(
        "CREATE TEMPORARY TABLE places (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)"
    )
    insert = "INSERT INTO places VALUES (%s)"
    for _ in range(2):
        with pytest.raises(psycopg.errors.UniqueViolation):
            await connection.answers([BoundStatement(insert, [1]), BoundStatement(insert, [1])])
    assert await connection.fetch_values("SELECT id FROM places", []) == []


async def test_what_fails_later_undoes_the_whole_transaction(connection: Counted) -> None:
    async def fail() -> None:
        async with connection.transaction():
            await connection.execute("INSERT INTO things VALUES (%s, %s)", [1, "a"])
            await connection.later("INSERT INTO things VALUES (%s, %s)", [1, "again"])
            await connection.later("INSERT INTO things VALUES (%s, %s)", [2, "b"])

    for _ in range(2):
        with pytest.raises(psycopg.errors.UniqueViolation):
            await fail()
        assert connection.info.transaction_status == pq.TransactionStatus.IDLE
        assert await things(connection) == []


async def test_what_waits_is_not_sent_after_a_fault_of_ours(connection: Counted) -> None:
    async def fail(*, sent: bool) -> None:
        async with connection.transaction():
            await connection.later("INSERT INTO things VALUES (%s, %s)", [1, "a"])
            if sent:
                await things(connection)
                await connection.later("INSERT INTO things VALUES (%s, %s)", [2, "b"])
            raise RuntimeError

    for sent in (False, True):
        with pytest.raises(RuntimeError):
            await fail(sent=sent)
        assert await things(connection) == []
    async with connection.transaction():
        await connection.later("INSERT INTO things VALUES (%s, %s)", [3, "c"])
    assert await things(connection) == [(3, "c")]


async def test_a_block_within_a_transaction_is_undone_alone(connection: Counted) -> None:
    async def fail() -> None:
        async with connection.transaction():
            await connection.later("INSERT INTO things VALUES (%s, %s)", [2, "b"])
            raise RuntimeError

    async with connection.transaction():
        await connection.later("INSERT INTO things VALUES (%s, %s)", [1, "a"])
        with pytest.raises(RuntimeError):
            await fail()
        async with connection.transaction():
            await connection.later("INSERT INTO things VALUES (%s, %s)", [3, "c"])
        async with connection.transaction(force_rollback=True):
            await connection.later("INSERT INTO things VALUES (%s, %s)", [4, "d"])
            assert len(await things(connection)) == 3
    assert await things(connection) == [(1, "a"), (3, "c")]


async def test_other_ways_to_ask_see_what_waits(connection: Counted) -> None:
    query = "SELECT count(*) FROM things"
    async with connection.transaction():
        await many(connection, (1, "a"))
        assert await connection.fetch_row(query) == (1,)
        await many(connection, (2, "b"))
        async with connection.cursor() as cursor:
            await cursor.execute(query)
            assert await cursor.fetchone() == (2,)
        await many(connection, (3, "c"))
        composed = SQL("SELECT count(*) FROM {}").format(Identifier("things"))
        assert await connection.fetch_value(composed) == 3


async def test_rows_are_those_of_psycopg(connection: Counted) -> None:
    rows = await connection.fetch_rows(
        "SELECT 1, 'a', now() IS NULL, ARRAY[1, 2], NULL, %s::jsonb, %s::numeric, '50 %%'",
        ['{"a": [1]}', "1.50"],
    )
    psycopgs = await psycopg.AsyncCursor(connection).execute(
        "SELECT 1, 'a', now() IS NULL, ARRAY[1, 2], NULL, %s::jsonb, %s::numeric, '50 %%'",
        ['{"a": [1]}', "1.50"],
    )
    assert rows == await psycopgs.fetchall()


async def test_what_is_asked_after_the_end_sees_it_and_takes_no_trip_of_its_own(
    connection: Counted,
) -> None:
    told: list[str] = []
    async with connection.transaction():
        connection.once_committed(lambda: told.append("committed"))
        await connection.later("INSERT INTO things VALUES (%s, %s)", [1, "a"])
        inside = await connection.fetch_row("SELECT pg_current_xact_id()::text", [])
        answer = await connection.commit_and_ask(
            BoundStatement("SELECT pg_xact_status(%s::xid8)", inside or [])
        )
    assert answer.rows == [("committed",)]
    assert told == ["committed"]
    assert connection.trips == 2
    assert await things(connection) == [(1, "a")]


async def test_what_does_not_commit_answers_nothing(connection: Counted) -> None:
    await connection.execute("ALTER TABLE things ADD UNIQUE (name) DEFERRABLE INITIALLY DEFERRED")
    told: list[str] = []

    async def work() -> None:
        async with connection.transaction():
            connection.once_committed(lambda: told.append("committed"))
            await many(connection, (1, "a"), (2, "a"))
            await connection.commit_and_ask(BoundStatement("SELECT 1"))

    with pytest.raises(psycopg.errors.UniqueViolation):
        await work()
    assert not told
    assert connection.info.transaction_status == pq.TransactionStatus.IDLE
    assert await things(connection) == []


async def test_connections_in_the_same_state_are_logged_by_equal_lines(
    conninfo: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As the driver's pool says for each connection that it gives up."""
    database = Database(conninfo, "hitherto_maintenance", application="t", min_size=3)
    await database.open()
    try:
        async with (
            database.connection() as first,
            database.connection() as second,
            database.connection() as third,
        ):
            for each in (first, second, third):
                await each.close()
        await eventually(lambda: len(given_up(caplog)) == 3)
    finally:
        await database.close()
    assert len(set(given_up(caplog))) == 1


def given_up(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for line in caplog.messages if line.startswith("discarding closed connection")]
