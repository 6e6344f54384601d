"""Lists that say what they hold reach Postgres as they are, in one binary piece."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import psycopg
import pytest

from hitherto_shared.database.arrays import Integers, Texts, Uuids, register_arrays

ANY_ORDER = [
    ("text[]", Texts([])),
    ("text[]", Texts(["", "Hà Nội", "猫が好き", "مرحبا", "🙂", 'a"b,{c}\\', "NULL"])),
    ("int[]", Integers([])),
    ("int[]", Integers([0, 1, -1, 2**31 - 1, -(2**31)])),
    ("uuid[]", Uuids([])),
    ("uuid[]", Uuids([UUID(int=0), UUID(int=2**128 - 1)])),
]


@pytest.mark.parametrize("registered", [True, False])
@pytest.mark.parametrize(("kind", "values"), ANY_ORDER)
async def test_what_arrives(conninfo: str, kind: str, values: list[Any], registered: bool) -> None:
    async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as connection:
        if registered:
            register_arrays(connection)
        for binary in (True, False):
            cursor = connection.cursor(binary=binary)
            await cursor.execute(
                f"SELECT %(values)s::{kind}, pg_typeof(%(values)s::{kind})::text".encode(),
                {"values": values},
            )
            arrived, typed = (await cursor.fetchall())[0]
            assert list(arrived) == list(values)
            assert typed == {"text[]": "text[]", "int[]": "integer[]", "uuid[]": "uuid[]"}[kind]


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
