"""A string of its own in every column that can hold text, wherever a user is held.

Which columns these are is asked of the catalogue and not of the product, so that a table or column
of a later migration is part of it without anybody's doing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
from psycopg import sql

SECRET = "5ec2e7"
"""In hexadecimal, what stands in every secret that an export must not hold."""

_COLUMNS = """
SELECT c.relname::text, a.attname::text, format_type(a.atttypid, NULL), a.attnotnull
FROM pg_class AS c
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relnamespace = 'hitherto'::regnamespace AND c.relkind = 'r'
  AND a.attgenerated = '' AND a.attidentity = ''
  AND EXISTS (SELECT FROM pg_attribute AS u WHERE u.attrelid = c.oid
              AND u.attname IN ('user_id', 'user_ids') AND NOT u.attisdropped)
ORDER BY c.relname, a.attnum
"""

_CHECKS = """
SELECT conrelid::regclass::text, conname FROM pg_constraint
WHERE contype = 'c' AND connamespace = 'hitherto'::regnamespace
"""

_TEXTS = {"text", "text[]", "jsonb", "character varying"}
_FILLED = {
    "uuid": "gen_random_uuid()",
    "uuid[]": "ARRAY[gen_random_uuid()]",
    "integer": "1",
    "integer[]": "ARRAY[1]",
    "smallint": "1",
    "smallint[]": "ARRAY[1]::smallint[]",
    "bigint": "1",
    "double precision": "0.5",
    "numeric": "1",
    "boolean": "true",
    "date": "current_date",
    "timestamp with time zone": "clock_timestamp()",
    "bytea": f"decode(repeat('{SECRET}', 8), 'hex')",
    "bytea[]": f"ARRAY[decode(repeat('{SECRET}', 8), 'hex')]",
    "halfvec": "'[1,0,0,0,0,0,0,0]'::halfvec",
}


# A row that is sealed has no text in clear, and these have.
_SAYS_SEALED = {"sealed"}


@dataclass(frozen=True, slots=True)
class Planted:
    """The canaries of a user, by table and column."""

    tables: set[str]
    words: dict[tuple[str, str], str]

    def found_in(self, text: str) -> set[tuple[str, str]]:
        """Where the canaries that stand in `text` were planted."""
        return {place for place, word in self.words.items() if word in text}


def plant(conninfo: str, tenant_id: str, user_id: str) -> Planted:
    """Put one row into every table that names users, a canary in each column of text.

    What a row may hold and refer to is not asked: checks are dropped in the test's own database.
    """
    tables: dict[str, list[tuple[str, str, bool]]] = {}
    words: dict[tuple[str, str], str] = {}
    with psycopg.connect(conninfo) as connection:
        for table, column, kind, needed in connection.execute(_COLUMNS):
            tables.setdefault(table, []).append((column, kind, needed))
        for table, name in connection.execute(_CHECKS).fetchall():
            connection.execute(
                sql.SQL("ALTER TABLE {} DROP CONSTRAINT {}").format(
                    sql.Identifier(table), sql.Identifier(name)
                )
            )
        connection.execute("SET session_replication_role = replica")
        for table, columns in tables.items():
            values: dict[str, sql.Composable] = {}
            for column, kind, needed in columns:
                if column in _SAYS_SEALED and not (needed and kind == "bytea"):
                    continue
                word = f"kanari-{tenant_id}-{table}-{column}"
                if column == "tenant_id":
                    values[column] = sql.Literal(tenant_id)
                elif column == "user_id":
                    values[column] = sql.Literal(user_id)
                elif column == "user_ids":
                    values[column] = sql.Literal([user_id])
                elif kind in _TEXTS:
                    words[table, column] = word
                    values[column] = _holding(word, kind)
                elif needed or kind.startswith("bytea"):
                    values[column] = sql.SQL(_FILLED[kind])
            connection.execute(
                sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
                    sql.Identifier(table),
                    sql.SQL(", ").join(map(sql.Identifier, values)),
                    sql.SQL(", ").join(values.values()),
                )
            )
    return Planted(set(tables), words)


def _holding(word: str, kind: str) -> sql.Composable:
    if kind == "jsonb":
        return sql.SQL("jsonb_build_object('k', {}::text)").format(sql.Literal(word))
    if kind == "text[]":
        return sql.SQL("ARRAY[{}]").format(sql.Literal(word))
    return sql.Literal(word)


def dump(conninfo: str) -> Iterator[tuple[str, str]]:
    """Every table of the database with all that it holds, as COPY writes it."""
    with psycopg.connect(conninfo) as connection:
        for (table,) in connection.execute(
            "SELECT c.oid::regclass::text FROM pg_class AS c"
            " WHERE c.relnamespace = 'hitherto'::regnamespace AND c.relkind IN ('r', 'm')"
            " ORDER BY 1"
        ).fetchall():
            with connection.cursor().copy(f"COPY {table} TO STDOUT".encode()) as rows:
                yield table, b"".join(bytes(row) for row in rows).decode()


def naming(conninfo: str, *words: str) -> dict[str, list[str]]:
    """The lines of a dump that hold one of `words`, by table."""
    found: dict[str, list[str]] = {}
    for table, text in dump(conninfo):
        lines = [line for line in text.splitlines() if any(word in line for word in words)]
        if lines:
            found[table] = lines
    return found
