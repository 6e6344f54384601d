"""Migrations that are killed or find a table locked: run again, they end as if nothing had been."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from hitherto_shared.database.bootstrap import bootstrap
from hitherto_shared.database.embedded import EmbeddedPostgres
from hitherto_shared.database.migrate import migrate
from tests.waiting import wait_until

LATER = """
from hitherto_shared.database import migrate

known = migrate.all_migrations()
migrate.all_migrations = lambda: [
    *known,
    migrate.Migration("9998_free", "CREATE TABLE more (id integer PRIMARY KEY);"),
    migrate.Migration("9999_in_use", "ALTER TABLE users ADD more text; DROP INDEX memories_top;"),
]
migrate.main()
"""
"""The command of a later version: its second migration changes tables that are in use."""

_SCHEMA = """
SELECT 'column', table_name, column_name, data_type, is_nullable, column_default
FROM information_schema.columns WHERE table_schema = 'hitherto'
UNION ALL
SELECT 'index', tablename, indexname, indexdef, '', '' FROM pg_indexes WHERE schemaname = 'hitherto'
UNION ALL
SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid), '', ''
FROM pg_constraint WHERE connamespace = 'hitherto'::regnamespace
UNION ALL
SELECT 'function', proname, pg_get_function_identity_arguments(oid), prosrc, '', ''
FROM pg_proc WHERE pronamespace = 'hitherto'::regnamespace
UNION ALL
SELECT 'policy', tablename, policyname, qual, with_check, '' FROM pg_policies
WHERE schemaname = 'hitherto'
ORDER BY 1, 2, 3, 4
"""


@contextmanager
def empty_database(postgres: EmbeddedPostgres) -> Iterator[str]:
    """A database that nobody has migrated, as an administrator sees it."""
    name = sql.Identifier(f"interrupted_{uuid4().hex}")
    with psycopg.connect(postgres.superuser_conninfo(), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(name))
        yield postgres.superuser_conninfo(name.as_string().strip('"'))
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))


def command(conninfo: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", LATER],
        env={"DATABASE_URL": conninfo, "PATH": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def newest(conninfo: str) -> str:
    with psycopg.connect(conninfo) as connection:
        row = connection.execute("SELECT max(name) FROM hitherto.schema_migrations").fetchone()
    assert row is not None
    return str(row[0])


def schema(conninfo: str) -> list[tuple[object, ...]]:
    with psycopg.connect(conninfo) as connection:
        return connection.execute(_SCHEMA).fetchall()


def waits_for_a_lock(connection: psycopg.Connection) -> bool:
    row = connection.execute(
        "SELECT count(*) FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database"
        " WHERE d.datname = current_database() AND NOT l.granted"
    ).fetchone()
    return row != (0,)


@pytest.mark.timeout(300)
def test_row_12_killed_and_locked_out_migrations_run_again(postgres: EmbeddedPostgres) -> None:
    with ExitStack() as stack:
        killed = stack.enter_context(empty_database(postgres))
        fresh = stack.enter_context(empty_database(postgres))
        bootstrap(killed)
        migrate(killed)

        # Whoever uses a table that a migration changes keeps it waiting, but not for long.
        with psycopg.connect(killed) as user:
            user.execute("LOCK TABLE hitherto.users, hitherto.memories")
            first = stack.enter_context(command(killed))
            wait_until(lambda: waits_for_a_lock(user) or first.poll() is not None, "the migration")
            first.kill()
            first.communicate()
            second = stack.enter_context(command(killed))
            _, said = second.communicate(timeout=180)
            assert (second.returncode, said.count("Traceback")) == (1, 0), said
            assert "run the command again" in said
        assert newest(killed) == "9998_free"

        third = stack.enter_context(command(killed))
        _, said = third.communicate(timeout=180)
        assert third.returncode == 0, said
        assert stack.enter_context(command(fresh)).wait(180) == 0
        assert schema(killed) == schema(fresh)
        printed, said = stack.enter_context(command(killed)).communicate(timeout=180)
        assert "applied" not in printed, said
