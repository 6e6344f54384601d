"""Rows put straight into the tables, by the names of their columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import psycopg


def inserting(table: str, names: Iterable[str], *, unless_there: bool = False) -> bytes:
    """The statement that stores a row with these columns, given as a mapping."""
    columns = list(names)
    marks = ", ".join(f"%({name})s" for name in columns)
    end = " ON CONFLICT DO NOTHING" if unless_there else ""
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks}){end}".encode()


async def put(
    cursor: psycopg.AsyncCursor[Any],
    table: str,
    rows: Iterable[Mapping[str, Any]],
    *of_all: Mapping[str, Any],
    unless_there: bool = False,
) -> None:
    """Store rows of the same columns, and with them what is the same of all."""
    same = {name: value for each in of_all for name, value in each.items()}
    made = [{**same, **row} for row in rows]
    if made:
        await cursor.executemany(inserting(table, made[0], unless_there=unless_there), made)
