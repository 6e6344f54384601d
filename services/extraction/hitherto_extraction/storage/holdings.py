"""Reads from the catalogue which tables hold data of users, and what their columns may hold.

A table holds data of users if it has the columns tenant_id and user_id. There is no list to
maintain, so a table of a later migration is exported and erased like the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter

from psycopg import sql

from hitherto_shared.database.connect import SCHEMA
from hitherto_shared.database.pool import Connection
from hitherto_shared.database.user_rows import UserRows

_TABLES = """
SELECT c.relname::text,
       array_agg(a.attname::text ORDER BY a.attnum),
       array_agg(format_type(a.atttypid, NULL) ORDER BY a.attnum),
       ARRAY(SELECT k.attname::text
             FROM pg_index AS i CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS n (no, place)
             JOIN pg_attribute AS k ON k.attrelid = c.oid AND k.attnum = n.no
             WHERE i.indrelid = c.oid AND i.indisprimary
             ORDER BY n.place)
FROM pg_class AS c
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relnamespace = %(schema)s::regnamespace AND c.relkind IN ('r', 'p')
  AND NOT c.relispartition
GROUP BY c.oid, c.relname
HAVING bool_or(a.attname = 'tenant_id') AND bool_or(a.attname = ANY(%(names)s))
ORDER BY c.relname
"""

_REFERENCES = """
SELECT DISTINCT f.conrelid::regclass::text, f.confrelid::regclass::text
FROM pg_constraint AS f
JOIN pg_class AS c ON c.oid = f.conrelid
WHERE f.contype = 'f' AND f.conrelid <> f.confrelid
  AND c.relnamespace = %(schema)s::regnamespace
"""

_COLUMNS = """
SELECT c.relname::text, a.attname::text, format_type(a.atttypid, NULL), a.attnotnull,
       a.attgenerated <> '', coalesce(pg_get_expr(d.adbin, d.adrelid), ''),
       coalesce((SELECT string_agg(pg_get_constraintdef(k.oid), ' ' ORDER BY k.conname)
                 FROM pg_constraint AS k
                 WHERE k.conrelid = c.oid AND k.contype = 'c' AND a.attnum = ANY(k.conkey)), '')
FROM pg_class AS c
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relnamespace = %(schema)s::regnamespace AND c.relname = ANY(%(tables)s)
ORDER BY c.relname, a.attnum
"""

# Any table that identifies users by id.
_HOLDS = """
SELECT EXISTS (SELECT FROM {table}
               WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s)
"""


@dataclass(frozen=True, slots=True)
class HeldColumn:
    """A column as the catalogue describes it, with its default's expression and its CHECKs."""

    name: str
    kind: str
    required: bool
    computed: bool
    default: str
    checks: str


@dataclass(frozen=True, slots=True)
class UserTable:
    """A table with data of users, whom the column `by` identifies: `user_id` or `user_hash`."""

    name: str
    columns: Mapping[str, str]
    key: Sequence[str]
    by: str


async def find_holdings(connection: Connection) -> list[UserTable]:
    """Every table that identifies users by id or by hash, by name."""
    values = {"schema": SCHEMA, "names": ["user_id", "user_hash"]}
    return [
        UserTable(
            name,
            dict(zip(columns, types, strict=True)),
            key,
            "user_id" if "user_id" in columns else "user_hash",
        )
        for name, columns, types, key in await connection.fetch_rows(_TABLES, values)
    ]


async def find_columns(
    connection: Connection, tables: Sequence[str]
) -> dict[str, dict[str, HeldColumn]]:
    """The columns of each of these tables, by name."""
    values = {"schema": SCHEMA, "tables": list(tables)}
    found: dict[str, dict[str, HeldColumn]] = {table: {} for table in tables}
    for table, name, *rest in await connection.fetch_rows(_COLUMNS, values):
        found[table][name] = HeldColumn(name, *rest)
    return found


async def any_rows(user: UserRows, tables: Iterable[str]) -> bool:
    """Whether one of these tables has a row of the user."""
    for table in tables:
        if await user.fetch_value(sql.SQL(_HOLDS).format(table=sql.Identifier(table))):
            return True
    return False


async def find_erasable(connection: Connection) -> list[str]:
    """The tables that identify users by id, each before those that it refers to."""
    names = [held.name for held in await find_holdings(connection) if held.by == "user_id"]
    return list((await _order(connection, names)).static_order())[::-1]


async def find_exported(connection: Connection) -> list[UserTable]:
    """Every table that identifies users, each after those that it refers to."""
    found = {held.name: held for held in await find_holdings(connection)}
    order = await _order(connection, list(found))
    # Without a foreign key, because history outlives a memory. What it may tell of one, an import
    # knows once it has the memory.
    order.add("history", "memories")
    # Nor here. An import learns first from which messages of a conversation is still to be learnt.
    order.add("conversations", "jobs")
    return [found[name] for name in order.static_order()]


async def _order(connection: Connection, names: Sequence[str]) -> TopologicalSorter[str]:
    """Sorts tables so that each comes after those that it refers to."""
    order: TopologicalSorter[str] = TopologicalSorter(dict.fromkeys(sorted(names), ()))
    for child, parent in sorted(await connection.fetch_rows(_REFERENCES, {"schema": SCHEMA})):
        if child in names and parent in names:
            order.add(child, parent)
    return order
