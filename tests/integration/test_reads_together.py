"""Several reads at a time on one connection: few trips, and each read as if it were alone."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from psycopg import pq

from hitherto_shared.database.together import kept, together
from tests.integration.test_pipeline_connections import Counted


@pytest.fixture
async def connection(superuser_conninfo: str) -> AsyncIterator[Counted]:
    opened = await Counted.connect(superuser_conninfo, autocommit=True, prepare_threshold=None)
    async with opened:
        yield opened


async def count_to(connection: Counted, last: int) -> list[int]:
    """A read with as many statements."""
    found = []
    for number in range(last):
        found.append(await connection.fetch_value("SELECT %s::int + 1", [number]))
    return found


async def test_reads_take_as_many_trips_as_the_longest_has_statements(connection: Counted) -> None:
    found = await together(connection, *(count_to(connection, last) for last in (2, 0, 4, 1)))
    assert found == [[1, 2], [], [1, 2, 3, 4], [1]]
    assert connection.trips == 4


async def test_reads_may_wait_for_other_things_and_have_reads_of_their_own(
    connection: Counted,
) -> None:
    async def in_a_thread() -> list[int]:
        first = await count_to(connection, 1)
        return first + await asyncio.to_thread(lambda: [7])

    async def nested() -> list[Any]:
        return await together(connection, count_to(connection, 2), in_a_thread())

    assert await together(connection, nested(), count_to(connection, 1), in_a_thread()) == [
        [[1, 2], [1, 7]],
        [1],
        [1, 7],
    ]
    assert connection.trips == 2
    assert await count_to(connection, 1) == [1]


async def test_reads_see_what_their_transaction_has_written(connection: Counted) -> None:
    await connection.execute("CREATE TEMPORARY TABLE things (id int)")

    async def held() -> int:
        return int(await connection.fetch_value("SELECT count(*) FROM things WHERE id > %s", [0]))

    async with connection.transaction():
        await connection.later_for_each("INSERT INTO things VALUES (%s)", [[1], [2]])
        assert await together(connection, held(), held()) == [2, 2]


async def test_a_kept_read_fails_only_when_it_is_asked(connection: Counted) -> None:
    async def fail() -> None:
        await count_to(connection, 1)
        raise LookupError("no key")

    async with connection.transaction():
        failed, counted, held = await together(
            connection, kept(fail()), count_to(connection, 2), kept(count_to(connection, 1))
        )
        assert (counted, held()) == ([1, 2], [1])
        with pytest.raises(LookupError, match="no key"):
            failed()
        assert await count_to(connection, 1) == [1]


async def test_an_error_of_postgres_is_not_kept(connection: Counted) -> None:
    async def divide() -> None:
        await connection.execute("SELECT 1 / %s::int", [0])

    with pytest.raises(psycopg.errors.DivisionByZero):
        await together(connection, kept(divide()), count_to(connection, 1))


async def test_a_read_that_fails_ends_the_others_and_leaves_the_connection(
    connection: Counted,
) -> None:
    ended: list[str] = []

    async def fail(error: Exception) -> None:
        await count_to(connection, 1)
        raise error

    async def divide() -> None:
        await connection.execute("SELECT 1 / %s::int", [0])

    async def go_on() -> None:
        try:
            await count_to(connection, 5)
        finally:
            ended.append("closed")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(KeyError):
            await together(connection, go_on(), fail(KeyError()), go_on())
        with pytest.raises(psycopg.errors.DivisionByZero):
            await together(connection, go_on(), divide())
        gc.collect()
    assert ended == ["closed"] * 3
    assert connection.info.transaction_status == pq.TransactionStatus.IDLE
    assert await count_to(connection, 2) == [1, 2]


async def test_reads_that_are_cut_off_leave_the_connection_as_it_was(connection: Counted) -> None:
    async def sleep() -> None:
        await connection.execute("SELECT pg_sleep(%s)", [60])

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await together(connection, count_to(connection, 3), sleep())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await together(connection, count_to(connection, 1), asyncio.sleep(60))
    assert await count_to(connection, 2) == [1, 2]
