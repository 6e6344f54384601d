"""Lists that say what they hold reach Postgres as they are, in one binary piece."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Jsonb

from hitherto_shared.database.arrays import Integers, Texts, Uuids, records, register_arrays

ANY_ORDER: list[tuple[str, Any]] = [
    ("text[]", Texts([])),
    ("text[]", Texts(["", "Hà Nội", "猫が好き", "مرحبا", "🙂", 'a"b,{c}\\', "NULL"])),
    ("int[]", Integers([])),
    ("int[]", Integers([0, 1, -1, 2**31 - 1, -(2**31)])),
    ("uuid[]", Uuids([])),
    ("uuid[]", Uuids([UUID(int=0), UUID(int=2**128 - 1)])),
]


async def test_what_arrives(conninfo: str) -> None:
    for registered in (True, False):
        async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as connection:
            if registered:
                register_arrays(connection)
            for kind, values in ANY_ORDER:
                for binary in (True, False):
                    cursor = connection.cursor(binary=binary)
                    await cursor.execute(
                        f"SELECT %(values)s::{kind}, pg_typeof(%(values)s::{kind})::text".encode(),
                        {"values": values},
                    )
                    arrived, typed = (await cursor.fetchall())[0]
                    assert list(arrived) == list(values), (registered, kind)
                    assert (
                        typed
                        == {"text[]": "text[]", "int[]": "integer[]", "uuid[]": "uuid[]"}[kind]
                    ), (registered, kind)


async def test_a_registered_list_needs_no_cast(conninfo: str) -> None:
    async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as connection:
        register_arrays(connection)
        cursor = await connection.execute(
            "SELECT 'b' = ANY(%s), 3 = ANY(%s)", [Texts(["a", "b"]), Integers([1, 2])]
        )
        assert await cursor.fetchone() == (True, False)


async def test_what_is_no_such_list_is_refused(conninfo: str) -> None:
    async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as connection:
        register_arrays(connection)
        with pytest.raises(OverflowError):
            await connection.execute("SELECT %s::int[]", [Integers([2**31])])
        with pytest.raises(psycopg.DataError):
            await connection.execute("SELECT %s::text[]", [Texts(["a\x00b"])])


async def test_rows_arrive_as_they_are(conninfo: str) -> None:
    row = {
        "id": UUID(int=7),
        "words": 'a"b\\ {c}, Hà Nội 猫 🙂\n',
        "at": datetime(2026, 2, 3, 4, 5, 6, 789, UTC),
        "weight": 0.1,
        "cost": Decimal("0.00000123"),
        "tags": Texts(["", "NULL", "a,b"]),
        "ids": [UUID(int=1)],
        "facts": Jsonb({"a": [1, None, {"b": "ü"}]}),
        "sealed": b"\x00\xff\\x",
        "nothing": None,
        "no_facts": None,
    }
    async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as connection:
        cursor = await connection.execute(
            "SELECT * FROM json_to_recordset(%s) AS row (id uuid, words text, at timestamptz,"
            " weight float8, cost numeric, tags text[], ids uuid[], facts jsonb, sealed bytea,"
            " nothing text, no_facts jsonb)",
            [records([row, dict.fromkeys(row)])],
        )
        arrived, empty = await cursor.fetchall()
    assert list(arrived) == [
        *list(row.values())[:7],
        {"a": [1, None, {"b": "ü"}]},
        *list(row.values())[8:],
    ]
    assert set(empty) == {None}
