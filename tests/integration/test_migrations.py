"""Migrations: what is pending, what a newer or a much older schema means, the dry run."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from hitherto_shared.database.bootstrap import bootstrap
from hitherto_shared.database.connect import LOGINS
from hitherto_shared.database.embedded import EmbeddedPostgres
from hitherto_shared.database.migrate import MigrationError, migrate, schema_state, script
from hitherto_shared.database.migration_files import BASELINE, Migration, all_migrations
from tests.conftest import limit_transactions

NEWEST = all_migrations()[-1].name[:4]

SLOW_TABLES = """
CREATE FUNCTION public.take_time() RETURNS event_trigger LANGUAGE plpgsql
AS 'BEGIN PERFORM pg_catalog.pg_sleep(0.06); END';
CREATE EVENT TRIGGER slow ON ddl_command_end WHEN TAG IN ('CREATE TABLE')
EXECUTE FUNCTION public.take_time();
"""

RIGHTS = """
SELECT r.rolname, c.relname, a.privilege_type, ''
FROM pg_class AS c CROSS JOIN pg_roles AS r, aclexplode(c.relacl) AS a
WHERE c.relnamespace = 'hitherto'::regnamespace AND a.grantee = r.oid AND r.rolname = ANY (%(ours)s)
UNION ALL
SELECT r.rolname, f.attrelid::regclass::text, a.privilege_type, f.attname
FROM pg_attribute AS f CROSS JOIN pg_roles AS r, aclexplode(f.attacl) AS a
WHERE a.grantee = r.oid AND r.rolname = ANY (%(ours)s)
UNION ALL
SELECT r.rolname, p.proname, 'EXECUTE', ''
FROM pg_proc AS p CROSS JOIN pg_roles AS r
WHERE p.pronamespace = 'hitherto'::regnamespace AND r.rolname = ANY (%(ours)s)
  AND has_function_privilege(r.oid, p.oid, 'EXECUTE')
UNION ALL
SELECT r.rolname, 'hitherto', 'USAGE', ''
FROM pg_roles AS r
WHERE r.rolname = ANY (%(ours)s) AND has_schema_privilege(r.oid, 'hitherto'::regnamespace, 'USAGE')
"""

TAKING_AWAY = re.compile(
    r"\bDROP\s+(TABLE|COLUMN|VIEW|FUNCTION|INDEX|SCHEMA)\b|\bRENAME\b"
    r"|\bALTER\s+COLUMN\s+\w+\s+(SET\s+DATA\s+)?TYPE\b|\bSET\s+NOT\s+NULL\b",
    re.IGNORECASE,
)


def enter(superuser_conninfo: str, name: str, oldest_program: str | None) -> None:
    """Record a migration as a later version would have applied it."""
    with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO schema_migrations (name, checksum, oldest_program) VALUES (%s, 'x', %s)",
            [name, oldest_program],
        )


def test_a_program_runs_on_a_newer_schema_that_allows_it(
    superuser_conninfo: str, conninfo: str
) -> None:
    enter(superuser_conninfo, "9997_more", NEWEST)
    enter(superuser_conninfo, "9998_more", None)
    state = schema_state(superuser_conninfo)
    assert (state.pending, state.newer) == ((), ("9997_more", "9998_more"))
    # An older command leaves it alone.
    done = command(conninfo)
    assert done.returncode == 0, done.stderr
    assert "newer than this version, which can run on it: 9997_more" in done.stdout


def test_a_schema_that_left_the_program_behind_is_refused(
    superuser_conninfo: str, conninfo: str
) -> None:
    enter(superuser_conninfo, "9998_more", None)
    enter(superuser_conninfo, "9999_less", "9998")
    with pytest.raises(MigrationError, match=r"exclude this version \(9999_less\): run a newer"):
        schema_state(superuser_conninfo)
    with pytest.raises(MigrationError, match="9999_less"):
        migrate(conninfo)


def test_a_schema_from_before_the_baseline_is_refused(
    superuser_conninfo: str, conninfo: str
) -> None:
    with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
        # Its ledger was narrower.
        connection.execute("ALTER TABLE schema_migrations DROP COLUMN oldest_program")
        connection.execute("DELETE FROM schema_migrations WHERE name <> %s", (BASELINE,))
        connection.execute("UPDATE schema_migrations SET name = '0081_cosines_by_key'")
    for options in ((), ("--check",), ("--dry-run",)):
        refused = command(conninfo, *options)
        assert (refused.returncode, refused.stdout) == (1, ""), options
        assert refused.stderr.startswith(
            f"hitherto-migrate: the database is older than {BASELINE} (it is at"
            " 0081_cosines_by_key) and cannot be migrated; nothing was changed. Export its users"
            " with the version that made"
        )
    with pytest.raises(MigrationError, match="older than"):
        schema_state(superuser_conninfo)


def test_a_changed_migration_is_refused(superuser_conninfo: str) -> None:
    with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
        connection.execute(
            "UPDATE schema_migrations SET checksum = 'x' WHERE name = %s", [BASELINE]
        )
    with pytest.raises(MigrationError, match=f"{BASELINE} was applied with different content"):
        schema_state(superuser_conninfo)


def takes_away_unannounced(migration: Migration) -> bool:
    """Whether it takes away what an older program may use, and does not name the oldest one."""
    statements = re.sub(r"--[^\n]*", "", migration.text)
    return bool(TAKING_AWAY.search(statements)) and migration.oldest_program is None


def test_what_takes_something_away_names_the_oldest_program() -> None:
    """An older program may run beside a migration that does not say otherwise.

    `-- oldest-program: NNNN`, at its beginning, is the newest migration that a program must know.
    """
    less = "DROP VIEW whole_memories;"
    assert takes_away_unannounced(Migration("9999_less", less))
    assert not takes_away_unannounced(Migration("9999_less", f"-- oldest-program: 9998\n{less}"))
    later = [each for each in all_migrations() if each.name != BASELINE]
    assert [each.name for each in later if takes_away_unannounced(each)] == []


@pytest.fixture
def empty_database(postgres: EmbeddedPostgres) -> Iterator[str]:
    """A database that nobody has migrated, as an administrator sees it."""
    name = f"empty_{uuid4().hex}"
    with psycopg.connect(postgres.superuser_conninfo(), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        yield postgres.superuser_conninfo(name)
        connection.execute(
            sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
        )


def tables(conninfo: str) -> int:
    with psycopg.connect(conninfo) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_tables WHERE schemaname = 'hitherto'"
        ).fetchone()
    assert row is not None
    return int(row[0])


def command(conninfo: str, *options: str) -> subprocess.CompletedProcess[str]:
    return run([sys.executable, "-m", "hitherto_shared.database.migrate", *options], conninfo)


def run(command: Sequence[str], conninfo: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env={"DATABASE_URL": conninfo, "PATH": "", **settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_the_dry_run_prints_what_would_run_and_runs_nothing(empty_database: str) -> None:
    printed = command(empty_database, "--dry-run")
    assert printed.returncode == 0, printed.stderr
    assert "CREATE EXTENSION IF NOT EXISTS" in printed.stdout
    assert [line for line in printed.stdout.splitlines() if line.startswith(f"-- {BASELINE}")]
    assert tables(empty_database) == 0

    # What it prints is what the command does.
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute(printed.stdout.encode())
    assert tables(empty_database) > 20
    assert script(empty_database) == ""
    assert command(empty_database, "--dry-run").stdout == "-- the database is up to date\n"
    checked = command(empty_database, "--check")
    assert (checked.returncode, checked.stdout) == (0, "the database is up to date\n")


def test_no_migration_is_cut_off_by_a_default_of_the_database(empty_database: str) -> None:
    bootstrap(empty_database)
    with psycopg.connect(empty_database, autocommit=True) as connection:
        # Longer than the limit in all, which is long enough for one statement on a busy machine.
        connection.execute(SLOW_TABLES)
    limit_transactions(empty_database, milliseconds=1_000)
    assert migrate(empty_database) == [each.name for each in all_migrations()]


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_of_another_encoding_is_refused(
    postgres: EmbeddedPostgres, empty_database: str, encoding: str
) -> None:
    """`initdb --no-locale` makes one of SQL_ASCII."""
    name = str(conninfo_to_dict(empty_database)["dbname"])
    with psycopg.connect(postgres.superuser_conninfo(), autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(name)))
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE template0 LOCALE 'C' ENCODING {}").format(
                sql.Identifier(name), sql.Literal(encoding)
            )
        )
    for asked in ([], ["--dry-run"]):
        done = command(empty_database, *asked)
        assert (done.returncode, done.stdout) == (1, ""), done.stderr
        assert f"the database has the encoding {encoding}" in done.stderr
        assert "ENCODING 'UTF8'" in done.stderr
        assert "dump it and restore it" in done.stderr
    assert tables(empty_database) == 0


def test_check_lists_what_is_pending(conninfo: str, superuser_conninfo: str) -> None:
    with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
        connection.execute("DELETE FROM schema_migrations WHERE name >= %s", [NEWEST])
    checked = command(conninfo, "--check")
    assert (checked.returncode, checked.stdout.strip()) == (1, all_migrations()[-1].name)


def rights(connection: psycopg.Connection) -> set[tuple[str, ...]]:
    """Every right of a login on a table, a column, a function and the schema itself."""
    return set(connection.execute(RIGHTS, {"ours": [*LOGINS]}).fetchall())


def test_rights_that_were_lost_are_named_and_granted_again(
    superuser_conninfo: str, conninfo: str
) -> None:
    """A hand took one of them, or all are gone, as after a restore with --no-privileges."""
    logins = ", ".join(LOGINS)
    with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
        granted = rights(connection)
        for taken, named in (
            ("INSERT ON memories FROM hitherto_write", "hitherto_write has no INSERT on"),
            ("UPDATE (quote) ON memory_sources FROM hitherto_write", "UPDATE (quote) on"),
            ("EXECUTE ON FUNCTION analyse_grown FROM hitherto_maintenance", "no EXECUTE on"),
            ("EXECUTE ON FUNCTION sort_key_of_memory FROM PUBLIC", "sort_key_of_memory, and 3"),
            ("USAGE ON SCHEMA hitherto FROM hitherto_read", "no USAGE on SCHEMA hitherto"),
            (f"ALL ON ALL TABLES IN SCHEMA hitherto FROM {logins}", "INSERT, SELECT"),
        ):
            connection.execute(f"REVOKE {taken}".encode())
            checked = command(conninfo, "--check")
            assert checked.returncode == 1, taken
            assert named in checked.stderr
            assert "run `hitherto-migrate`" in checked.stderr
            assert "GRANT" in script(conninfo)
            done = command(conninfo)
            assert done.returncode == 0, done.stderr
            assert named.partition(",")[0] in done.stderr
            assert rights(connection) == granted, taken
            assert script(conninfo) == ""


def test_what_everybody_may_do_after_a_restore_without_privileges_is_revoked_again(
    superuser_conninfo: str, conninfo: str
) -> None:
    with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
        granted = rights(connection)
        # As a function is when it has just been made.
        connection.execute("REVOKE ALL ON FUNCTION analyse_grown FROM hitherto_maintenance")
        connection.execute("GRANT EXECUTE ON FUNCTION analyse_grown TO PUBLIC")
        assert "REVOKE ALL ON FUNCTION hitherto.analyse_grown() FROM PUBLIC" in script(conninfo)
        done = command(conninfo)
        assert "everybody could execute hitherto.analyse_grown: revoked again" in done.stderr
        assert rights(connection) == granted
        assert script(conninfo) == ""


def test_a_right_that_a_newer_migration_may_have_revoked_is_not_granted_again(
    superuser_conninfo: str, conninfo: str
) -> None:
    with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
        connection.execute("REVOKE INSERT ON memories FROM hitherto_write")
        without = rights(connection)
        enter(superuser_conninfo, "9998_less", None)
        checked = command(conninfo, "--check")
        assert (checked.returncode, checked.stderr) == (0, "")
        assert script(conninfo) == ""
        done = command(conninfo)
        assert (done.returncode, "granted" in done.stderr) == (0, False)
        assert rights(connection) == without


def test_a_dump_that_was_restored_without_owners_is_told_so(
    superuser_conninfo: str, conninfo: str
) -> None:
    with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
        for restored in ("TABLE memories", "SCHEMA hitherto"):
            connection.execute(f"ALTER {restored} OWNER TO CURRENT_USER".encode())
            for asked in ([], ["--check"]):
                done = command(conninfo, *asked)
                assert (done.returncode, done.stdout) == (1, "")
                assert "belongs to postgres, not to hitherto_owner" in done.stderr
                assert "--no-owner" in done.stderr
    # As on the embedded database, a command that needs it migrates it first.
    listing = "import sys; from hitherto_client.command import main; sys.exit(main())"
    listed = run([sys.executable, "-c", listing, "keys", "list"], conninfo, HITHERTO_MIGRATE="1")
    assert (listed.returncode, listed.stdout) == (3, "")
    assert "belongs to postgres, not to hitherto_owner" in listed.stderr


def test_what_an_administrator_adds_to_the_schema_may_be_theirs(
    superuser_conninfo: str, conninfo: str
) -> None:
    with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
        connection.execute("CREATE VIEW hitherto.report AS SELECT count(*) FROM hitherto.users")
        connection.execute("SET ROLE hitherto_owner")
        for name in ("an_open_one", "a_closed_one"):
            made = f"CREATE FUNCTION hitherto.{name}() RETURNS int LANGUAGE sql SECURITY DEFINER"
            connection.execute(f"{made} AS 'SELECT 1'".encode())
        connection.execute("REVOKE ALL ON FUNCTION hitherto.a_closed_one FROM PUBLIC")
        for asked in ([], ["--check"]):
            done = command(conninfo, *asked)
            assert (done.returncode, done.stdout) == (0, "the database is up to date\n")
            assert "granted" not in done.stderr
