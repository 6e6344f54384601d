"""The rights that migrations grant to the services' logins, and those that a database lacks.

A hand revokes one, or a dump is made or restored without privileges. No migration runs twice, so
what is lacking is granted again by `hitherto-migrate`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import LiteralString, NamedTuple

import psycopg
from psycopg import sql

from hitherto_shared.database.connect import LOGINS, OWNER, SCHEMA
from hitherto_shared.database.migration_files import all_migrations

_LEDGER = "schema_migrations"
_EVERY = f"ALL TABLES IN SCHEMA {SCHEMA}"

# Our own functions are everybody's, except those with the rights of their owner. Any login may ask,
# also one that may not use the schema.
_LACKING: LiteralString = """
WITH here AS (SELECT to_regnamespace(%(schema)s) AS oid),
lacking AS (
    SELECT r.rolname, 'USAGE' AS privilege, format('SCHEMA %%I', %(schema)s::text) AS object
    FROM here CROSS JOIN pg_catalog.pg_roles AS r
    WHERE here.oid IS NOT NULL AND r.rolname = ANY (%(logins)s)
      AND NOT has_schema_privilege(r.oid, here.oid, 'USAGE')
    UNION ALL
    SELECT r.rolname, 'EXECUTE', 'FUNCTION ' || format('%%I.%%I(%%s)',
        %(schema)s::text, p.proname, pg_catalog.pg_get_function_identity_arguments(p.oid))
    FROM here JOIN pg_catalog.pg_proc AS p ON p.pronamespace = here.oid
    CROSS JOIN pg_catalog.pg_roles AS r
    WHERE r.rolname = ANY (%(logins)s)
      AND p.proowner = to_regrole(%(owner)s)
      AND CASE
        WHEN p.proname = ANY (%(closed)s) THEN r.rolname = 'hitherto_maintenance' AND NOT EXISTS (
            -- Everybody's right is about to be revoked (`remedies`).
            SELECT FROM aclexplode(p.proacl) AS a WHERE a.grantee = r.oid)
        -- Others with the rights of the owner are not ours.
        ELSE NOT p.prosecdef AND NOT has_function_privilege(r.oid, p.oid, 'EXECUTE')
      END
    UNION ALL
    SELECT r.rolname,
        CASE WHEN w.field = '' THEN w.privilege ELSE format('%%s (%%I)', w.privilege, w.field) END,
        format('%%I.%%I', %(schema)s::text, c.relname)
    FROM unnest(%(roles)s::text[], %(privileges)s::text[], %(tables)s::text[], %(fields)s::text[])
        AS w (role, privilege, relation, field)
    CROSS JOIN here
    JOIN pg_catalog.pg_class AS c ON c.relnamespace = here.oid AND c.relname = w.relation
    JOIN pg_catalog.pg_roles AS r ON r.rolname = w.role
    LEFT JOIN pg_catalog.pg_attribute AS a
        ON a.attrelid = c.oid AND a.attname = w.field AND NOT a.attisdropped
    WHERE r.rolname = ANY (%(logins)s)
      AND CASE
        WHEN w.field = '' THEN NOT has_table_privilege(r.oid, c.oid, w.privilege)
        WHEN a.attnum IS NULL THEN false
        ELSE NOT has_column_privilege(r.oid, c.oid, a.attnum, w.privilege)
      END
)
SELECT rolname::text, object, array_agg(privilege ORDER BY privilege)
FROM lacking
GROUP BY rolname, object
ORDER BY object NOT LIKE 'SCHEMA %%', object, rolname
"""


# What runs with the rights of the owner, and which everybody may execute; our own only.
_OPEN: LiteralString = """
SELECT format('%%I.%%I(%%s)', %(schema)s::text, p.proname,
    pg_catalog.pg_get_function_identity_arguments(p.oid))
FROM pg_catalog.pg_proc AS p
CROSS JOIN LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a
WHERE p.pronamespace = to_regnamespace(%(schema)s) AND p.proname = ANY (%(closed)s)
  AND a.grantee = 0 AND p.proowner = to_regrole(%(owner)s)
"""

_ANOTHER_OWNER: LiteralString = """
SELECT pg_get_userbyid(o.owner)::text
FROM (
    SELECT nspowner AS owner FROM pg_catalog.pg_namespace WHERE nspname = %(schema)s
    UNION ALL
    SELECT relowner FROM pg_catalog.pg_class
    WHERE relnamespace = to_regnamespace(%(schema)s) AND relname = ANY (%(tables)s)
) AS o
WHERE o.owner IS DISTINCT FROM to_regrole(%(owner)s)
LIMIT 1
"""


class AnotherOwner(PermissionError):
    """The schema cannot be migrated: it is somebody else's. The text has the remedy."""


class _Statement(NamedTuple):
    """A statement that makes a table or a view, or grants or revokes rights, in its parts."""

    made: str
    verb: str = ""
    rights: str = ""
    objects: str = ""
    roles: str = ""


@dataclass(frozen=True, slots=True)
class Lacking:
    """What a login may not do with an object, though a migration let it.

    Both are as in a GRANT: `UPDATE (quote)` on `hitherto.users`, or on `SCHEMA hitherto`.
    """

    role: str
    object: str
    privileges: Sequence[str]

    @property
    def is_schema(self) -> bool:
        """Whether the login can use nothing at all for want of it."""
        return self.object == f"SCHEMA {SCHEMA}"

    @property
    def told(self) -> str:
        """`hitherto_write has no INSERT on hitherto.users`; a function without its arguments."""
        named = self.object.partition("(")[0]
        return f"{self.role} has no {', '.join(self.privileges)} on {named}"

    @property
    def grant(self) -> sql.SQL:
        """The statement with which the owner gives it back."""
        rights = ", ".join(self.privileges)
        # Nothing in it is a caller's: names of the catalog, quoted there, and words of migrations.
        return sql.SQL(f"GRANT {rights} ON {self.object} TO {self.role}")


def lacking_rights(connection: psycopg.Connection, logins: Sequence[str] = LOGINS) -> list[Lacking]:
    """What these logins lack; the schema has every migration of this program."""
    granted = zip(*(each for each in _granted() if each[0] in logins), strict=True)
    names = ("roles", "privileges", "tables", "fields")
    values = {"schema": SCHEMA, "owner": OWNER, "logins": [*logins]}
    values["closed"] = sorted(_closed_functions())
    values |= zip(names, map(list, granted), strict=True)
    return [Lacking(*row) for row in connection.execute(_LACKING, values).fetchall()]


def remedies(connection: psycopg.Connection) -> list[tuple[sql.SQL, str]]:
    """The statements that restore the rights of the migrations, each with what it is for.

    They grant what the logins lack, and revoke from everybody what the migrations revoke: a dump
    without privileges lacks that too.
    """
    granting = [(each.grant, f"{each.told}: granted again") for each in lacking_rights(connection)]
    rows = connection.execute(
        _OPEN, {"schema": SCHEMA, "owner": OWNER, "closed": sorted(_closed_functions())}
    ).fetchall()
    revoking = [
        (
            sql.SQL(f"REVOKE ALL ON FUNCTION {function} FROM PUBLIC"),
            f"everybody could execute {function.partition('(')[0]}: revoked again",
        )
        for (function,) in rows
    ]
    return [*granting, *revoking]


def require_ownership(connection: psycopg.Connection) -> None:
    """Check that `hitherto_owner`, who migrates, owns the schema and its tables, if they exist.

    What somebody has added to the schema, such as a view for reports, may be theirs.

    Raises:
        AnotherOwner: Somebody else does.
    """
    ours = {"schema": SCHEMA, "owner": OWNER, "tables": sorted(_tables())}
    found = connection.execute(_ANOTHER_OWNER, ours).fetchone()
    if found is not None:
        raise AnotherOwner(
            f"what is in the schema {SCHEMA} belongs to {found[0]}, not to {OWNER}, as after a"
            " restore with --no-owner or of a plain dump made with it: dump and restore without it"
            " (docs/backup.md)"
        )


def told_of(lacking: Sequence[Lacking]) -> str:
    """The first of them and the number of the others."""
    more = f", and {len(lacking) - 1} more of that kind" if len(lacking) > 1 else ""
    return f"the database login {lacking[0].told}{more}"


@functools.cache
def _granted() -> frozenset[tuple[str, str, str, str]]:
    """Role, privilege, table and column ('' for all) of whatever the migrations leave granted."""
    tables = set[str]()
    granted: set[tuple[str, str, str, str]] = set()
    for found in _statements():
        if found.made:
            tables.add(found.made)
            continue
        # The ledger is there before the first migration.
        named = tables | {_LEDGER} if found.objects == _EVERY else _names(found.objects)
        those = {
            (role, privilege, table, field)
            for role in _names(found.roles)
            for privilege, field in _privileges(found.rights)
            for table in named
        }
        granted = granted | those if found.verb == "GRANT" else granted - those
    return frozenset(each for each in granted if each[2] in _tables())


@functools.cache
def _tables() -> frozenset[str]:
    """The tables and views that the migrations make, and the ledger."""
    return frozenset(found.made for found in _statements() if found.made) | {_LEDGER}


@functools.cache
def _closed_functions() -> frozenset[str]:
    """The functions that the migrations revoke from everybody."""
    return frozenset(
        name
        for found in _statements()
        if found.verb == "REVOKE" and "PUBLIC" in _names(found.roles)
        for name in _names(found.objects.removeprefix("FUNCTION"))
    )


def _statements() -> Iterator[_Statement]:
    """What the migrations make, grant and revoke, in order."""
    for migration in all_migrations():
        for statement in re.sub(r"--[^\n]*", "", migration.text).split(";"):
            match statement.split():
                case ["CREATE", "TABLE" | "VIEW", made, *_] | [
                    "CREATE",
                    "OR",
                    "REPLACE",
                    "VIEW",
                    made,
                    *_,
                ]:
                    yield _Statement(made=made.partition("(")[0])
                case ["GRANT" | "REVOKE" as verb, *words] if "ON" in words:
                    rights, _, rest = " ".join(words).partition(" ON ")
                    objects, _, roles = rest.partition(" TO " if verb == "GRANT" else " FROM ")
                    yield _Statement("", verb, rights, objects, roles)


def _names(text: str) -> Sequence[str]:
    return [name.strip() for name in text.split(",")]


def _privileges(text: str) -> Iterator[tuple[str, str]]:
    """Each of `SELECT (a, b), INSERT` with its columns, or with '' for all."""
    for part in text.split(")"):
        heads, _, fields = part.partition("(")
        names = [name for name in _names(heads) if name]
        for number, name in enumerate(names, 1):
            for field in _names(fields) if number == len(names) else [""]:
                yield name, field
