"""Statements in one round trip: answers, what a failure leaves, and what stays prepared."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import psycopg
import pytest
from psycopg import pq

from hitherto_shared.database import exchange
from hitherto_shared.database.exchange import BoundStatement
from hitherto_shared.database.faults import translate
from hitherto_shared.database.pipeline_connection import PipelineConnection as Connection
from hitherto_shared.database.pool import Database
from hitherto_shared.errors import Conflict, TooLate


@pytest.fixture
async def connection(superuser_conninfo: str) -> AsyncIterator[Connection]:
    opened = await Connection.connect(superuser_conninfo, autocommit=True, prepare_threshold=None)
    async with opened:
        await opened.execute("CREATE TEMPORARY TABLE things (id int, name text)")
        yield opened


async def rows_of(connection: Connection, sql: str, *values: object) -> list[tuple[object, ...]]:
    (answer,) = await connection.answers([BoundStatement(sql, values)])
    return answer.rows


async def test_every_statement_has_its_own_answer(connection: Connection) -> None:
    inserted, updated, read, nothing = await connection.answers(
        [
            BoundStatement(
                "INSERT INTO things VALUES (%(a)s, %(b)s), (%(c)s, %(b)s)",
                {"a": 1, "b": "x", "c": 2},
            ),
            BoundStatement("UPDATE things SET name = %s WHERE id = %s", ["50 %", 2]),
            BoundStatement("SELECT id, name FROM things WHERE name LIKE '%%' ORDER BY id"),
            BoundStatement(b"SELECT FROM things WHERE false", binary=False),
        ]
    )
    assert (inserted.rowcount, updated.rowcount) == (2, 1)
    assert read.rows == [(1, "x"), (2, "50 %")]
    assert (nothing.rows, nothing.rowcount) == ([], 0)


async def test_the_statements_of_a_batch_stand_or_fall_together(connection: Connection) -> None:
    for _ in range(3):
        with pytest.raises(psycopg.errors.DivisionByZero):
            await connection.answers(
                [
                    BoundStatement("INSERT INTO things VALUES (7, NULL)"),
                    BoundStatement("SELECT 1 / %s::int", [0]),
                    BoundStatement("SELECT name, %s::text FROM things", ["never came this far"]),
                ]
            )
    assert await rows_of(connection, "SELECT count(*) FROM things WHERE id = 7") == [(0,)]
    assert await rows_of(connection, "SELECT 1 / %s::int", 1) == [(1,)]


async def test_a_transaction_holds_over_several_batches(connection: Connection) -> None:
    async with connection.transaction(force_rollback=True):
        await connection.answers([BoundStatement("INSERT INTO things VALUES (8, NULL)")])
        assert await rows_of(connection, "SELECT count(*) FROM things") == [(1,)]
    # What was prepared in it is prepared still.
    assert await rows_of(connection, "SELECT count(*) FROM things") == [(0,)]


async def test_what_cannot_be_sent_leaves_the_connection_as_it_was(connection: Connection) -> None:
    with pytest.raises(psycopg.ProgrammingError):
        await rows_of(connection, "SELECT %s", object())
    with pytest.raises(psycopg.DataError):
        await rows_of(connection, "SELECT %s::text", "a\x00b")
    assert connection.info.transaction_status == pq.TransactionStatus.IDLE
    assert await rows_of(connection, "SELECT %s::text", "ab") == [("ab",)]


async def test_more_than_either_side_can_hold_goes_both_ways_at_once(
    connection: Connection,
) -> None:
    """Neither waits for the other to take what it sends before it takes what is sent to it."""
    large = "x" * (8 << 20)
    async with asyncio.timeout(180):
        answers = await connection.answers([BoundStatement("SELECT %s::text", [large])] * 4)
    assert [answer.rows == [(large,)] for answer in answers] == [True] * 4


async def test_what_others_dropped_is_prepared_again(connection: Connection) -> None:
    assert await rows_of(connection, "SELECT %s::int + 1", 1) == [(2,)]
    await connection.execute("DEALLOCATE ALL")
    assert await rows_of(connection, "SELECT %s::int + 1", 2) == [(3,)]
    assert await rows_of(connection, "SELECT %s::int + 1", 3) == [(4,)]


async def test_where_nothing_stays_prepared_each_statement_is_its_own(
    connection: Connection,
) -> None:
    """As through a pooler: the nameless statement is the last that was parsed."""
    connection.depend_on_transactions_only({"work_mem": "4MB"})
    one, two = (BoundStatement(f"SELECT {number} + %s::int", [number]) for number in (10, 20))
    answers = await connection.answers([one, two, two, one])
    assert [answer.rows for answer in answers] == [[(20,)], [(40,)], [(40,)], [(20,)]]


async def test_a_table_may_be_altered_behind_what_is_prepared(connection: Connection) -> None:
    await connection.execute("INSERT INTO things VALUES (1, 'x')")
    assert await rows_of(connection, "SELECT * FROM things") == [(1, "x")]
    await connection.execute("ALTER TABLE things ALTER id TYPE text")
    assert await rows_of(connection, "SELECT * FROM things") == [("1", "x")]


async def test_a_table_altered_beside_a_transaction_is_a_conflict(connection: Connection) -> None:
    """The transaction cannot go on; the same call succeeds when it is made again."""
    await rows_of(connection, "SELECT * FROM things")
    await connection.execute("ALTER TABLE things ADD more int")
    with pytest.raises(psycopg.errors.FeatureNotSupported) as altered:
        async with connection.transaction():
            await rows_of(connection, "SELECT * FROM things")
    assert isinstance(translate(altered.value), Conflict)
    async with connection.transaction():
        assert await rows_of(connection, "SELECT * FROM things") == []


async def test_a_batch_that_is_cut_off_is_ended_by_postgres(conninfo: str) -> None:
    database = Database(conninfo, "hitherto_read", application="exchange", max_size=1)
    await database.open()
    try:

        async def slow(connection: Connection) -> None:
            await connection.answers(
                [
                    BoundStatement("SELECT 1"),
                    BoundStatement("SELECT pg_sleep(60)"),
                    BoundStatement("SELECT 2"),
                ]
            )

        async def pid(connection: Connection) -> int:
            (answer,) = await connection.answers([BoundStatement("SELECT pg_backend_pid()")])
            return int(answer.rows[0][0])

        before = await database.run(pid, timeout=120)
        with pytest.raises(TooLate):
            await database.run(slow, timeout=0.05)
        assert await database.run(pid, timeout=120) == before
    finally:
        await database.close()


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """So many statements stay prepared, and those of the batch that exceeds it."""
    monkeypatch.setattr(exchange, "MOST_PREPARED", 10)
    return 10


async def held(connection: Connection) -> int:
    ((number,),) = await rows_of(connection, "SELECT count(*)::int FROM pg_prepared_statements")
    assert isinstance(number, int)
    return number


async def test_only_so_many_statements_stay_prepared(connection: Connection, few: int) -> None:
    for number in range(5 * few):
        assert await rows_of(connection, f"SELECT {number} + %s::int", 1) == [(number + 1,)]
        assert await rows_of(connection, "SELECT %s::int", number) == [(number,)]
        assert await held(connection) <= few + 3


async def test_what_was_prepared_is_dropped_behind_the_statements(
    connection: Connection, few: int
) -> None:
    """Before them it would have begun their transaction, whose isolation is settled then."""
    for number in range(3 * few):
        await rows_of(connection, f"SELECT {number} + %s::int", 1)
        await connection.answers(
            [
                BoundStatement("BEGIN"),
                BoundStatement("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"),
                BoundStatement("SELECT 1"),
                BoundStatement("COMMIT"),
            ]
        )
    assert await held(connection) <= few + 5


async def test_what_is_to_be_dropped_is_kept_in_mind_when_a_batch_fails(
    connection: Connection, few: int
) -> None:
    for number in range(3 * few):
        await rows_of(connection, f"SELECT {number} + %s::int", 1)
        with pytest.raises(psycopg.errors.DivisionByZero):
            await rows_of(connection, "SELECT 1 / %s::int", 0)
    assert await held(connection) <= few + 3


async def test_what_postgres_dropped_for_a_caller_who_left_is_prepared_again(
    connection: Connection, few: int
) -> None:
    """The whole batch was done when its caller was cut off: nobody read that it was."""
    for number in range(few):
        await rows_of(connection, f"SELECT {number} + %s::int", 1)
    late = asyncio.create_task(rows_of(connection, "SELECT %s::text", "late"))
    await asyncio.sleep(0)
    time.sleep(0.5)  # noqa: ASYNC251 - the loop sees the answers only after the cancellation
    late.cancel()
    with pytest.raises(asyncio.CancelledError):
        await late
    assert not connection.closed
    async with connection.transaction():
        for number in range(few):
            assert await rows_of(connection, f"SELECT {number} + %s::int", 1) == [(number + 1,)]
