"""Inserts the rows of an imported export: those that the user does not hold yet.

The caller holds the user's row. The role is hitherto_write. The rows of one table are a JSON array,
whose values Postgres converts to the types of the columns. A row is held if its primary key is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql

from hitherto_shared.database.pool import Connection
from hitherto_shared.models import Scope

# Any imported table. Its columns are those that the import has checked: a file names none itself.
_INSERT = """
INSERT INTO {table} (tenant_id, user_id, {columns})
SELECT %(tenant_id)s, %(user_id)s, {columns}
FROM jsonb_populate_recordset(NULL::{table}, %(rows)s::jsonb)
ON CONFLICT ON CONSTRAINT {primary_key} DO NOTHING
"""


class RowRefused(Exception):
    """A row contradicts itself or the rows before it.

    Attributes:
        index: Its place among the given rows.
        why: What is wrong with it, without its contents.
    """

    def __init__(self, index: int, why: str) -> None:
        super().__init__(why)
        self.index = index
        self.why = why


async def insert(
    connection: Connection, scope: Scope, table: str, rows: Sequence[Mapping[str, Any]]
) -> int:
    """Insert those of the rows that the user does not hold; returns their number.

    Raises:
        RowRefused: One breaks a rule of the table, or refers to a row that is not there; nothing
            was inserted.
    """
    if not rows:
        return 0
    try:
        async with connection.transaction():
            return await _insert(connection, scope, table, rows)
    except (psycopg.IntegrityError, psycopg.DataError):
        pass
    # One by one, to find it.
    inserted = 0
    async with connection.transaction():
        for index, row in enumerate(rows):
            try:
                async with connection.transaction():
                    inserted += await _insert(connection, scope, table, [row])
            except psycopg.errors.ForeignKeyViolation:
                raise RowRefused(index, "refers to a record that does not precede it") from None
            except (psycopg.IntegrityError, psycopg.DataError) as error:
                rule = error.diag.constraint_name or error.sqlstate
                raise RowRefused(index, f"contradicts itself (rule {rule})") from None
    return inserted


async def _insert(
    connection: Connection, scope: Scope, table: str, rows: Sequence[Mapping[str, Any]]
) -> int:
    columns = sorted({name for row in rows for name in row})
    statement = sql.SQL(_INSERT).format(
        table=sql.Identifier(table),
        columns=sql.SQL(", ").join(map(sql.Identifier, columns)),
        primary_key=sql.Identifier(f"{table}_pkey"),
    )
    values = {**scope.parameters, "rows": json.dumps(list(rows), ensure_ascii=False)}
    return (await connection.execute(statement, values)).rowcount
