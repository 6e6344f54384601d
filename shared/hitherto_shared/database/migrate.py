"""Forward-only migrations of a database's schema, each in one transaction.

`hitherto-migrate` applies what is pending, and on Citus distributes what it added; services on the
embedded database do so at start-up, on `DATABASE_URL` they only check. One process migrates at a
time: the others poll an advisory lock (waiting *inside* `pg_advisory_lock` deadlocks with CREATE
INDEX CONCURRENTLY). A program also runs on a newer schema, unless a migration says otherwise
(`migration_files`): a deployment migrates first and restarts later, and may be rolled back.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

import psycopg
from psycopg import sql

from hitherto_shared.command_output import CommandParser, write
from hitherto_shared.database.bootstrap import bootstrap, missing_statements
from hitherto_shared.database.connect import (
    OWNER,
    SCHEMA,
    SEARCH_PATH,
    DatabaseUnreachable,
    connected,
    holds,
    owner_password,
    settings_since,
    with_role,
)
from hitherto_shared.database.distribution import (
    DISTRIBUTED,
    REFERENCE,
    TOGETHER,
    called,
    distribute,
    is_together,
    node_passwords,
    on_citus,
    remedy,
    statements,
    to_distribute,
    undistributed,
)
from hitherto_shared.database.faults import described
from hitherto_shared.database.logins import (
    PASSWORD_VARIABLES,
    passwords_for,
    refused,
)
from hitherto_shared.database.migration_files import BASELINE, Migration, all_migrations
from hitherto_shared.database.rights import lacking_rights, remedies, require_ownership, told_of

logger = logging.getLogger("hitherto.migrate")

COMMAND = "hitherto-migrate"
_LOCK = 0x68697468  # "hith": one number for the whole program
_CREATE_LEDGER: LiteralString = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    name text PRIMARY KEY,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The number that a program must know to run on this schema; NULL if every one may.
    oldest_program text
);
"""
_RECORD: LiteralString = (
    "INSERT INTO schema_migrations (name, checksum, oldest_program) VALUES (%s, %s, %s)"
)

_PREPARED: LiteralString = (
    "SELECT to_regrole(%(owner)s) IS NOT NULL AND to_regnamespace(%(schema)s) IS NOT NULL"
)


class MigrationError(Exception):
    """The schema cannot be migrated to, or does not have, the version that this program needs."""


@dataclass(frozen=True, slots=True)
class SchemaState:
    """How the schema of a database compares with the migrations of this program.

    Attributes:
        pending: Names of the migrations that are not applied yet, in order; and on Citus the
            distribution of tables that still are to be distributed.
        newer: Names of applied migrations that this program does not know and can live with.
    """

    pending: tuple[str, ...]
    newer: tuple[str, ...]


def owned_schema_state(conninfo: str) -> SchemaState:
    """`schema_state` as `hitherto_owner`; everything is pending while there is no such role.

    Args:
        conninfo: The database; its login may assume `hitherto_owner`, once that exists.

    Raises:
        MigrationError: See `schema_state`.
        AnotherOwner: The schema, or something in it, is not the owner's.
        DatabaseUnreachable: No connection could be made.
    """
    with connected(conninfo) as connection:
        prepared = _is_prepared(connection)
        require_ownership(connection)
    if not prepared:
        return SchemaState(tuple(m.name for m in all_migrations()), ())
    return schema_state(with_role(conninfo, OWNER, application=COMMAND))


def schema_state(conninfo: str) -> SchemaState:
    """Compare the schema with the migrations of this program.

    Raises:
        MigrationError: An applied migration differs from the file, or the database has migrations
            that this program cannot live with or is older than the baseline.
        DatabaseUnreachable: No connection could be made.
    """
    with connected(conninfo) as connection:
        missing, newer = _compared(connection)
        local = undistributed(connection)
    return SchemaState((*(m.name for m in missing), *called(local)), tuple(newer))


def migrate(
    conninfo: str, *, wait_seconds: float = 120.0, stop: threading.Event | None = None
) -> list[str]:
    """Apply what is pending as `hitherto_owner` and return the names applied.

    Rights that the services' logins have lost are granted again, unless the schema is newer: then a
    migration that this program does not know may have revoked them. The login of `conninfo` may
    assume `hitherto_owner`. If `stop` is set while another process migrates, nothing is applied.

    Raises:
        MigrationError: See `schema_state`; or another process holds the lock for `wait_seconds`, or
            a table is in use.
        AnotherOwner: The schema, or something in it, is not the owner's.
        DatabaseUnreachable: No connection could be made.
    """
    owner = with_role(conninfo, OWNER, application=COMMAND, statement_timeout_ms=0)
    applied: list[str] = []
    with connected(owner) as connection:
        for name, value in settings_since(connection.info.server_version).items():
            connection.execute("SELECT set_config(%s, %s, false)", [name, value])
        if not _take_lock(connection, wait_seconds, stop or threading.Event()):
            return applied
        require_ownership(connection)
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(SCHEMA)))
        connection.execute(_CREATE_LEDGER)
        missing, newer = _compared(connection)
        for migration in missing:
            logger.info("applying %s", migration.name)
            _apply(connection, migration)
            applied.append(migration.name)
        applied += called(distribute(connection))
        for statement, told in [] if newer else remedies(connection):
            connection.execute(statement)
            logger.warning(told)
    return applied


def _take_lock(connection: psycopg.Connection, wait_seconds: float, stop: threading.Event) -> bool:
    """Become the only process that migrates; False if `stop` was set before."""
    give_up = time.monotonic() + wait_seconds
    while True:
        if holds(connection, "SELECT pg_try_advisory_lock(%s)", [_LOCK]):
            return True
        if time.monotonic() > give_up:
            raise MigrationError(
                f"another process has been migrating for {wait_seconds:.0f} s; see "
                "pg_stat_activity for it, then run this again"
            )
        if stop.wait(0.1):
            return False


def script(conninfo: str) -> str:
    """The SQL that `hitherto-migrate` would run, for people to read; runs nothing.

    Raises:
        MigrationError: See `schema_state`.
        DatabaseUnreachable: No connection could be made.
    """
    with connected(conninfo) as connection:
        prepared = _is_prepared(connection)
        preparing = missing_statements(connection)
        local = [*REFERENCE, *DISTRIBUTED] if on_citus(connection) else []
    missing = everything = all_migrations()
    mending: list[tuple[sql.SQL, str]] = []
    if prepared:
        with connected(with_role(conninfo, OWNER, application=COMMAND)) as connection:
            missing, newer = _compared(connection)
            local = local if missing == everything else to_distribute(connection)
            mending = [] if missing or newer else remedies(connection)
    parts = [f"-- As an administrator\n{statement};" for statement in preparing]
    if missing or local or mending:
        parts.append(
            f"-- As {OWNER}\nSET ROLE {OWNER};\nCREATE SCHEMA IF NOT EXISTS {SCHEMA};\n"
            f"SET search_path = {SEARCH_PATH};{_CREATE_LEDGER}"
        )
    for one in missing:
        record = sql.SQL(_RECORD.replace("%s", "{}")).format(
            one.name, one.checksum, one.oldest_program
        )
        whole = f"{one.text.rstrip()}\n{record.as_string()};"
        if one.transactional:
            whole = f"BEGIN;\nSET LOCAL lock_timeout = '2s';\n{whole}\nCOMMIT;"
        parts.append(f"-- {one.name}\n{whole}")
    if local:
        calls = "\n".join(each.as_string().strip().rstrip(";") + ";" for each in statements(local))
        parts.append(f"-- {called(local)[0]}\nBEGIN;\n{calls}\nCOMMIT;")
    parts += [f"{statement.as_string()};" for statement, _ in mending]
    return "\n\n".join(parts)


def _is_prepared(connection: psycopg.Connection) -> bool:
    """Whether there is a schema, and the role that may read it.

    Roles belong to the whole server: without the schema, the login need not be a member yet.
    """
    return holds(connection, _PREPARED, {"owner": OWNER, "schema": SCHEMA})


def _compared(connection: psycopg.Connection) -> tuple[list[Migration], list[str]]:
    """The migrations that the database lacks, and the names of those that this program lacks."""
    found = connection.execute("SELECT to_regclass('hitherto.schema_migrations')").fetchone()
    ledger: dict[str, tuple[str, str | None]] = {}
    if found is not None and found[0] is not None:
        # By way of jsonb, because a ledger from before the baseline may have no such column.
        ledger = {
            name: (checksum, oldest_program)
            for name, checksum, oldest_program in connection.execute(
                "SELECT name, checksum, to_jsonb(m) ->> 'oldest_program'"
                " FROM hitherto.schema_migrations m"
            ).fetchall()
        }
    if ledger and BASELINE not in ledger:
        raise MigrationError(
            f"the database is older than {BASELINE} (it is at {max(ledger)}) and cannot be"
            " migrated; nothing was changed. Export its users with the version that made it and"
            " import them into an empty database or data folder: docs/upgrading.md"
        )
    migrations = all_migrations()
    newer = sorted(set(ledger) - {m.name for m in migrations})
    known = max(m.name for m in migrations)[:4]
    barred = [name for name in newer if (ledger[name][1] or "") > known]
    if barred:
        raise MigrationError(
            f"the database has migrations that exclude this version ({', '.join(barred)}): "
            "run a newer version"
        )
    for migration in migrations:
        if migration.name in ledger and ledger[migration.name][0] != migration.checksum:
            raise MigrationError(
                f"migration {migration.name} was applied with different content: never change an"
                " applied migration, add a new one instead"
            )
    return [m for m in migrations if m.name not in ledger], newer


def _apply(connection: psycopg.Connection, migration: Migration) -> None:
    statement = migration.text.encode()
    entry = [migration.name, migration.checksum, migration.oldest_program]
    if not migration.transactional:
        connection.execute(statement)
        connection.execute(_RECORD, entry)
        return
    try:
        with connection.transaction():
            # Waiting for an unavailable lock would queue every reader behind us.
            connection.execute("SET LOCAL lock_timeout = '2s'")
            connection.execute(statement)
            connection.execute(_RECORD, entry)
    except psycopg.errors.LockNotAvailable:
        raise MigrationError(
            f"migration {migration.name} was not applied: a table that it changes is in use, and to"
            " wait longer than 2 s would hold up the services; run the command again"
        ) from None


def main() -> None:
    """The command `hitherto-migrate`: roles, logins, extension, schema on `DATABASE_URL`."""
    parser = CommandParser(prog=COMMAND, description=main.__doc__)
    only = parser.add_mutually_exclusive_group()
    only.add_argument(
        "--check",
        action="store_true",
        help="only list pending migrations; the exit code is 1 if there are any, or if a login of"
        " the services lacks a right",
    )
    only.add_argument("--dry-run", action="store_true", help="only print the SQL that would run")
    only.add_argument(
        "--node-passwords",
        action="store_true",
        help="on Citus: only create the roles, and print the SQL with their passwords, in clear,"
        " that an administrator runs on every node",
    )
    parser.add_argument(
        "--set-passwords",
        action="store_true",
        help="also give the services' logins that exist the passwords that new ones get",
    )
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    conninfo, *given = (
        # As the services read them (`SharedSettings`).
        os.environ.get(name, "").strip()
        for name in ("DATABASE_URL", *PASSWORD_VARIABLES)
    )
    conninfo = os.environ.get("HITHERTO_DIRECT_DATABASE_URL", "").strip() or conninfo
    if not conninfo:
        parser.exit(
            2,
            "DATABASE_URL is not set. The embedded database needs no command: its services "
            "migrate it when they start.\n",
        )
    try:
        if arguments.dry_run:
            write(script(conninfo) or "-- the database is up to date", COMMAND)
            return
        if arguments.check:
            state = owned_schema_state(conninfo)
            if not (state.pending or state.newer):
                _require_rights(conninfo)
            write("\n".join(state.pending) or _up_to_date(state.newer), COMMAND)
            sys.exit(1 if state.pending else 0)
        passwords = passwords_for(conninfo, retrieval=given[0] or None, extraction=given[1] or None)
        if arguments.node_passwords:
            passwords = {OWNER: owner_password(conninfo), **passwords}
            with connected(conninfo) as connection:
                if not on_citus(connection):
                    parser.exit(1, f"{COMMAND}: --node-passwords: the database has no Citus\n")
        bootstrap(conninfo, passwords=passwords, set_passwords=arguments.set_passwords)
        together = False
        if arguments.node_passwords:
            done = node_passwords(passwords.items())
        else:
            done, together = _migrated(conninfo)
        shut_out = refused(conninfo, passwords)
    except DatabaseUnreachable as error:
        parser.exit(1, f"{COMMAND}: DATABASE_URL: {error}\n")
    except (MigrationError, psycopg.Error, PermissionError) as error:
        parser.exit(1, f"{COMMAND}: {described(error)}{remedy(error, COMMAND)}\n")
    write(done, COMMAND)
    if together:
        print(f"{COMMAND}: {TOGETHER}", file=sys.stderr)
    if shut_out:
        advice = (
            "It was just set: see VALID UNTIL and CONNECTION LIMIT of the login, and pg_hba.conf"
            if arguments.set_passwords
            else "Unless the services have connection strings of their own, set these variables or"
            f" run `{COMMAND} --set-passwords`"
        )
        print(
            f"{COMMAND}: {', '.join(shut_out)} cannot log in with the password that "
            f"{' or '.join(PASSWORD_VARIABLES)}, or else DATABASE_URL, implies. {advice}",
            file=sys.stderr,
        )
        # Without a variable, an administrator may have created the logins with other passwords.
        sys.exit(1 if any(given) else 0)


def _migrated(conninfo: str) -> tuple[str, bool]:
    """Migrate: what was done, and whether users stay together on the server of a cluster."""
    done = "\n".join(f"applied {name}" for name in migrate(conninfo))
    with connected(conninfo) as connection:
        together = is_together(connection)
    return done or _up_to_date(owned_schema_state(conninfo).newer), together


def _require_rights(conninfo: str) -> None:
    """Raise MigrationError, with the remedy, if the services' logins lack rights."""
    with connected(conninfo) as connection:
        lacking = lacking_rights(connection)
    if lacking:
        raise MigrationError(f"{told_of(lacking)}: run `{COMMAND}`, which grants it again")


def _up_to_date(newer: Sequence[str]) -> str:
    if newer:
        return f"the database is newer than this version, which can run on it: {', '.join(newer)}"
    return "the database is up to date"


if __name__ == "__main__":
    main()
