"""The rules that tables obey so that Citus can distribute them by user.

They are checked against the catalogue of a migrated database, which needs no Citus.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import psycopg

from hitherto_shared.database.distribution import DISTRIBUTED, LOCAL, REFERENCE

COLUMN = "user_id"
KEY = ("tenant_id", COLUMN)
_TABLES = """
SELECT c.relname::text,
       (SELECT a.atttypid::regtype::text || CASE WHEN a.attnotnull THEN '' ELSE ' NULL' END
        FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attname = %(column)s)
FROM pg_class AS c
WHERE c.relnamespace = 'hitherto'::regnamespace AND c.relkind IN ('r', 'p')
ORDER BY 1
"""
_UNIQUE = """
SELECT i.indrelid::regclass::text, i.indexrelid::regclass::text, i.indisprimary,
       ARRAY(SELECT a.attname::text
             FROM unnest(i.indkey::int[]) WITH ORDINALITY AS k (attnum, place)
             JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
             ORDER BY k.place)
FROM pg_index AS i
JOIN pg_class AS c ON c.oid = i.indrelid
WHERE c.relnamespace = 'hitherto'::regnamespace AND (i.indisunique OR i.indisexclusion)
ORDER BY 1, 2
"""
_FOREIGN = """
SELECT f.conrelid::regclass::text, f.confrelid::regclass::text, f.conname::text,
       ARRAY(SELECT (here.attname || '=' || there.attname)::text
             FROM unnest(f.conkey, f.confkey) AS k (here, there)
             JOIN pg_attribute AS here ON here.attrelid = f.conrelid AND here.attnum = k.here
             JOIN pg_attribute AS there ON there.attrelid = f.confrelid AND there.attnum = k.there),
       f.confupdtype = 'a' AND f.confdeltype IN ('a', 'r', 'c')
FROM pg_constraint AS f
WHERE f.contype = 'f' AND f.connamespace = 'hitherto'::regnamespace
ORDER BY 1, 3
"""
_TRIGGERS = """
SELECT tgrelid::regclass::text, tgname::text FROM pg_trigger
JOIN pg_class AS c ON c.oid = tgrelid
WHERE NOT tgisinternal AND c.relnamespace = 'hitherto'::regnamespace
ORDER BY 1, 2
"""
_FUNCTIONS = """
SELECT p.proname::text, coalesce(p.prosrc, '') || coalesce(pg_get_function_sqlbody(p.oid), '')
FROM pg_proc AS p
WHERE p.pronamespace = 'hitherto'::regnamespace
ORDER BY 1
"""
_VIEWS = "SELECT viewname::text, definition FROM pg_views WHERE schemaname = 'hitherto'"
_POLICIES = """
SELECT DISTINCT tablename::text FROM pg_policies
WHERE schemaname = 'hitherto' AND qual LIKE '%current_setting%' ORDER BY 1
"""


@dataclass(frozen=True)
class Distribution:
    """Which tables are distributed, in this order, and which ones every node has a copy of."""

    distributed: tuple[str, ...] = DISTRIBUTED
    reference: frozenset[str] = frozenset(REFERENCE)


def broken_rules(connection: psycopg.Connection, plan: Distribution) -> list[str]:
    """What keeps Citus from distributing the tables of a migrated database; a line for each."""
    tables: dict[str, str | None] = dict(connection.execute(_TABLES, {"column": COLUMN}).fetchall())
    return [
        *_of_tables(tables, plan),
        *_of_keys(connection, plan),
        *_of_foreign_keys(connection, plan),
        *(
            f"{table}: trigger {name}, and Citus allows none on a distributed table"
            for table, name in connection.execute(_TRIGGERS).fetchall()
            if table not in LOCAL
        ),
    ]


def hidden_reads(connection: psycopg.Connection, plan: Distribution) -> set[str]:
    """Functions that read distributed tables, and views that call these.

    Citus does not look into a function when it routes a statement.
    """
    views: dict[str, str] = dict(connection.execute(_VIEWS).fetchall())
    tables = _reading(plan.distributed)
    through = _reading([*plan.distributed, *(name for name in views if tables.search(views[name]))])
    functions = {
        name for name, body in connection.execute(_FUNCTIONS).fetchall() if through.search(body)
    }
    calling = re.compile(rf"\b({'|'.join(functions)})\(")
    return functions | {name for name in views if calling.search(views[name])}


def _reading(names: Iterable[str]) -> re.Pattern[str]:
    return re.compile(rf"\b(?:FROM|JOIN|UPDATE|INTO)\s+\(*(?:hitherto\.)?({'|'.join(names)})\b")


def policies_by_setting(connection: psycopg.Connection, plan: Distribution) -> set[str]:
    """Distributed tables whose row-level security asks for a setting, which workers lack."""
    return {table for (table,) in connection.execute(_POLICIES).fetchall()} & set(plan.distributed)


def _of_tables(tables: dict[str, str | None], plan: Distribution) -> Iterator[str]:
    placed = {*plan.distributed, *plan.reference, *LOCAL}
    for table, column in tables.items():
        if table not in placed:
            yield f"{table}: neither distributed nor local (hitherto_shared.database.distribution)"
        elif table in plan.distributed and column != "text":
            yield f"{table}: {COLUMN} must be text NOT NULL, and is {column}"
    for table in sorted(placed - tables.keys()):
        yield f"{table}: no such table"


def _of_keys(connection: psycopg.Connection, plan: Distribution) -> Iterator[str]:
    keyed = set()
    for table, index, primary, columns in connection.execute(_UNIQUE).fetchall():
        if table not in plan.distributed:
            continue
        if primary:
            keyed.add(table)
        if tuple(columns[:2]) != KEY:
            yield f"{table}: {index} is unique and does not begin with {', '.join(KEY)}"
    for table in plan.distributed:
        if table not in keyed:
            yield f"{table}: no primary key"


def _of_foreign_keys(connection: psycopg.Connection, plan: Distribution) -> Iterator[str]:
    order = {table: place for place, table in enumerate(plan.distributed)}
    for table, other, name, pairs, plain in connection.execute(_FOREIGN).fetchall():
        if table in order and other in order:
            if not {f"{column}={column}" for column in KEY} <= set(pairs):
                yield f"{table}: {name} refers to {other} without {', '.join(KEY)}"
            if order[other] > order[table]:
                yield f"{table}: {name} refers to {other}, which is distributed later"
            if not plain:
                yield f"{table}: {name} changes rows of {table} in a way that Citus refuses"
        elif (table in order) != (other in order) and other not in plan.reference:
            yield f"{table}: {name} joins a distributed table and one of the coordinator"
