"""Numbered, forward-only migrations: `migrations/NNNN_name.sql`, each in one transaction.

`hitherto-migrate` applies what is pending; services on the embedded database do so at start-up, on
`DATABASE_URL` they only check. One process migrates at a time: the others poll an advisory lock
(waiting *inside* `pg_advisory_lock` deadlocks with CREATE INDEX CONCURRENTLY).
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import os
import sys
import threading
import time
from dataclasses import dataclass
from importlib import resources

import psycopg
from psycopg import sql

from hitherto_shared.database.bootstrap import bootstrap
from hitherto_shared.database.connect import SCHEMA, DatabaseUnreachable, connected, with_role
from hitherto_shared.database.faults import described
from hitherto_shared.database.logins import PASSWORD_VARIABLES, passwords_for, refused

logger = logging.getLogger("hitherto.migrate")

COMMAND = "hitherto-migrate"
_LOCK = 0x7265636F  # "reco": one number for the whole program
_NO_TRANSACTION = "-- no-transaction"


class MigrationError(Exception):
    """The schema cannot be migrated to, or does not have, the version that this program needs."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file: its number and name (`0003_memories`), its text and the text's checksum."""

    name: str
    text: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the text; an applied file must never change."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def transactional(self) -> bool:
        """False for files that hold statements Postgres refuses inside a transaction."""
        return not self.text.startswith(_NO_TRANSACTION)


def all_migrations() -> list[Migration]:
    """Every migration this program ships, in order."""
    folder = resources.files("hitherto_shared.database") / "migrations"
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
    return [Migration(f.name.removesuffix(".sql"), f.read_text("utf-8")) for f in files]


def pending(conninfo: str) -> list[str]:
    """Names of the migrations that are not applied yet; empty if there are none.

    Raises:
        MigrationError: An applied migration differs from the file, or the database knows migrations
            this program does not: it is older than the database.
        DatabaseUnreachable: No connection could be made.
    """
    with connected(conninfo) as connection:
        return [m.name for m in _pending(connection)]


def migrate(
    conninfo: str, *, wait_seconds: float = 120.0, stop: threading.Event | None = None
) -> list[str]:
    """Apply what is pending as `hitherto_owner` and return the names applied.

    Args:
        conninfo: The database; its login may assume `hitherto_owner`.
        wait_seconds: How long to wait while another process migrates.
        stop: If set during the wait, nothing is applied.

    Raises:
        MigrationError: See `pending`; or another process holds the lock for `wait_seconds`.
        DatabaseUnreachable: No connection could be made.
    """
    owner = with_role(conninfo, "hitherto_owner", application=COMMAND, statement_timeout_ms=0)
    applied: list[str] = []
    with connected(owner) as connection:
        if not _take_lock(connection, wait_seconds, stop or threading.Event()):
            return applied
        _ensure_ledger(connection)
        for migration in _pending(connection):
            logger.info("applying %s", migration.name)
            _apply(connection, migration)
            applied.append(migration.name)
    return applied


def _take_lock(connection: psycopg.Connection, wait_seconds: float, stop: threading.Event) -> bool:
    """Become the only process that migrates; False if `stop` was set before."""
    give_up = time.monotonic() + wait_seconds
    while True:
        row = connection.execute("SELECT pg_try_advisory_lock(%s)", [_LOCK]).fetchone()
        if row is not None and row[0]:
            return True
        if time.monotonic() > give_up:
            raise MigrationError(
                f"another process has been migrating for {wait_seconds:.0f} s; see "
                "pg_stat_activity for it, then run this again"
            )
        if stop.wait(0.1):
            return False


def _ensure_ledger(connection: psycopg.Connection) -> None:
    connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(SCHEMA)))
    connection.execute(
        """
        CREATE TABLE IF NOT EXISTS schema_migrations (
            name text PRIMARY KEY,
            checksum text NOT NULL,
            applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
        )
        """
    )


def _pending(connection: psycopg.Connection) -> list[Migration]:
    found = connection.execute("SELECT to_regclass('schema_migrations')").fetchone()
    ledger: dict[str, str] = {}
    if found is not None and found[0] is not None:
        ledger = dict(connection.execute("SELECT name, checksum FROM schema_migrations").fetchall())
    migrations = all_migrations()
    unknown = sorted(set(ledger) - {m.name for m in migrations})
    if unknown:
        raise MigrationError(
            f"the database has migrations this version does not know ({', '.join(unknown)}): "
            "run a newer version"
        )
    for migration in migrations:
        if migration.name in ledger and ledger[migration.name] != migration.checksum:
            raise MigrationError(
                f"migration {migration.name} was applied with different content: never change an"
                " applied migration, add a new one instead"
            )
    return [m for m in migrations if m.name not in ledger]


def _apply(connection: psycopg.Connection, migration: Migration) -> None:
    statement = migration.text.encode()
    record = "INSERT INTO schema_migrations (name, checksum) VALUES (%s, %s)"
    if not migration.transactional:
        connection.execute(statement)
        connection.execute(record, [migration.name, migration.checksum])
        return
    with connection.transaction():
        # Waiting for an unavailable lock would queue every reader behind us.
        connection.execute("SET LOCAL lock_timeout = '2s'")
        connection.execute(statement)
        connection.execute(record, [migration.name, migration.checksum])


def main() -> None:
    """The command `hitherto-migrate`: roles, logins, extension, schema on `DATABASE_URL`."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=main.__doc__)
    parser.add_argument("--check", action="store_true", help="only report pending migrations")
    parser.add_argument(
        "--set-passwords",
        action="store_true",
        help="also give the services' logins that exist the passwords that new ones get",
    )
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    conninfo = os.environ.get("DATABASE_URL")
    if not conninfo:
        parser.exit(
            2,
            "DATABASE_URL is not set. The embedded database needs no command: its services "
            "migrate it when they start.\n",
        )
    given = [os.environ.get(name) or None for name in PASSWORD_VARIABLES]
    try:
        if arguments.check:
            names = pending(with_role(conninfo, "hitherto_owner", application=COMMAND))
            print("\n".join(names) if names else "the database is up to date")
            sys.exit(1 if names else 0)
        passwords = passwords_for(conninfo, retrieval=given[0], extraction=given[1])
        bootstrap(conninfo, passwords=passwords, set_passwords=arguments.set_passwords)
        names = migrate(conninfo)
        shut_out = refused(conninfo, passwords)
    except DatabaseUnreachable as error:
        parser.exit(1, f"{COMMAND}: DATABASE_URL: {error}\n")
    except (MigrationError, psycopg.Error, PermissionError) as error:
        parser.exit(1, f"{COMMAND}: {described(error)}\n")
    print("\n".join(f"applied {name}" for name in names) or "the database is up to date")
    if shut_out:
        print(
            f"{COMMAND}: {', '.join(shut_out)} cannot log in with the password that "
            f"{' or '.join(PASSWORD_VARIABLES)}, or else DATABASE_URL, implies. Unless the "
            "services have connection strings of their own, set these variables or run "
            f"`{COMMAND} --set-passwords`",
            file=sys.stderr,
        )
        # Without a variable, an administrator may have created the logins with other passwords.
        sys.exit(1 if any(given) else 0)


if __name__ == "__main__":
    main()
