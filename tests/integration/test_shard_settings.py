"""What a connection sets on all nodes of a cluster, in each transaction and in nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest

from hitherto_shared.database import pipeline_connection
from hitherto_shared.database.exchange import BoundStatement
from hitherto_shared.database.pipeline_connection import PipelineConnection as Connection

_SHOWN = "SELECT current_setting('hitherto.tenant_id', true), current_setting('lock_timeout')"
_SETTINGS = {"hitherto.tenant_id": "nobody", "lock_timeout": "700ms"}


@pytest.fixture
async def connection(
    superuser_conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Connection]:
    """On one server, which it takes for the coordinator of a cluster."""
    monkeypatch.setattr(pipeline_connection, "_ON_CITUS", "SELECT 1")
    monkeypatch.setattr(pipeline_connection, "_ON_NODES", "SELECT 1")
    opened = await Connection.connect(superuser_conninfo, autocommit=True, prepare_threshold=None)
    async with opened:
        await opened.reach_all_nodes(_SETTINGS)
        yield opened


async def _in_session(connection: Connection) -> tuple[str | None, str]:
    """What is set outside of any transaction of ours."""
    cursor = await super(Connection, connection).execute(_SHOWN)
    row = await cursor.fetchone()
    assert row is not None
    return row[0] or None, row[1]


async def test_one_server_is_asked_as_before(superuser_conninfo: str) -> None:
    opened = await Connection.connect(superuser_conninfo, autocommit=True, prepare_threshold=None)
    async with opened:
        await opened.reach_all_nodes(_SETTINGS)
        assert not opened.is_distributed
        assert await opened.fetch_row(_SHOWN) in [(None, "0"), ("", "0")]


async def test_each_statement_is_a_transaction_with_the_settings(connection: Connection) -> None:
    assert connection.is_distributed
    before = await _in_session(connection)
    assert await connection.fetch_row(_SHOWN) == ("nobody", "700ms")
    await connection.keep_setting("hitherto.tenant_id", "o'neil \\ ' ; SELECT 1")
    assert await connection.fetch_row(_SHOWN) == ("o'neil \\ ' ; SELECT 1", "700ms")
    assert await _in_session(connection) == before


async def test_a_transaction_sets_them_once(connection: Connection) -> None:
    async with connection.transaction():
        await connection.later("CREATE TEMPORARY TABLE kept AS SELECT %s::text AS word", ["a"])
        assert await connection.fetch_row(_SHOWN) == ("nobody", "700ms")
        async with connection.transaction():
            assert await connection.fetch_value("SELECT word FROM kept") == "a"
            assert await connection.fetch_row(_SHOWN) == ("nobody", "700ms")
    assert await connection.fetch_value("SELECT word FROM kept") == "a"
    async with connection.transaction(force_rollback=True):
        await connection.execute("INSERT INTO kept VALUES ('b')")
        assert await connection.fetch_row(_SHOWN) == ("nobody", "700ms")
    assert await connection.fetch_values("SELECT word FROM kept") == ["a"]


async def test_what_fails_leaves_no_transaction(connection: Connection) -> None:
    await connection.execute("CREATE TEMPORARY TABLE kept (word text)")
    with pytest.raises(psycopg.errors.DivisionByZero):
        await connection.answers(
            [BoundStatement("INSERT INTO kept VALUES ('a')"), BoundStatement("SELECT 1 / 0")]
        )
    assert await connection.fetch_values("SELECT word FROM kept") == []

    async def fail() -> None:
        async with connection.transaction():
            await connection.later("INSERT INTO kept VALUES (%s)", ["b"])
            await connection.execute("SELECT 1 / 0")

    with pytest.raises(psycopg.errors.DivisionByZero):
        await fail()
    assert await connection.fetch_values("SELECT word FROM kept") == []


async def test_the_answers_are_those_of_the_statements(connection: Connection) -> None:
    first, second = await connection.answers(
        [BoundStatement("SELECT 1"), BoundStatement("SELECT 2 UNION ALL SELECT 3")]
    )
    assert (first.rows, second.rows) == ([(1,)], [(2,), (3,)])
    async with connection.transaction():
        await connection.later("SELECT %s::int", [1])
        answer = await connection.commit_and_ask(BoundStatement("SELECT 4"))
    assert answer.rows == [(4,)]
