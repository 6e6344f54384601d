"""No connection of a service can become anybody else, nor take down what holds it."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import errors, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hitherto_extraction.config import ExtractionSettings
from hitherto_retrieval.config import RetrievalSettings
from hitherto_shared.database.bootstrap import BootstrapError, bootstrap
from hitherto_shared.database.connect import LOGINS, Role, with_role
from hitherto_shared.database.embedded import EmbeddedPostgres
from hitherto_shared.database.logins import LoginTooStrong, require_no_more
from hitherto_shared.database.migration_files import all_migrations
from hitherto_shared.startup import locate_database, locate_unless_ended
from tests.refusing import refusing

OTHERS = (*LOGINS, "hitherto_owner", "hitherto", "postgres")

# Statements that would take a wall down. `{login}` is the login.
FORBIDDEN = (
    "ALTER TABLE audit_events DISABLE TRIGGER audit_events_only_grow",
    "ALTER TABLE audit_events DISABLE TRIGGER ALL",
    "ALTER TABLE audit_digests DISABLE TRIGGER USER",
    "DROP TRIGGER audit_events_only_grow ON audit_events",
    "CREATE OR REPLACE FUNCTION refuse_change_of_audit() RETURNS trigger LANGUAGE plpgsql"
    " AS 'BEGIN RETURN NEW; END'",
    "ALTER TABLE memories DISABLE ROW LEVEL SECURITY",
    "ALTER POLICY one_tenant ON memories USING (true)",
    "DROP POLICY one_tenant ON memories",
    "CREATE POLICY mine ON memories USING (true)",
    "SET session_replication_role = replica",
    "ALTER ROLE {login} BYPASSRLS",
    "ALTER ROLE {login} SUPERUSER",
    "ALTER ROLE {login} CREATEROLE",
    "ALTER ROLE hitherto_owner LOGIN PASSWORD 'mine'",
    "ALTER ROLE hitherto PASSWORD 'mine'",
    "GRANT hitherto_owner TO {login}",
    "ALTER TABLE memories OWNER TO {login}",
    "ALTER DATABASE {database} OWNER TO {login}",
    "CREATE ROLE mine LOGIN SUPERUSER",
    "TRUNCATE audit_events",
    "DELETE FROM audit_events",
    "UPDATE audit_events SET count = 2",
    "CREATE TABLE hitherto.mine (id int)",
    "CREATE TABLE public.mine (id int)",
    "COPY (SELECT 1) TO PROGRAM 'true'",
)


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that the account of Postgres can enter, whoever runs the tests."""
    with tempfile.TemporaryDirectory(prefix="rl-") as folder:
        os.chmod(folder, 0o711)
        yield Path(folder)


def who(connection: psycopg.Connection) -> tuple[str, str]:
    row = connection.execute("SELECT session_user::text, current_user::text").fetchone()
    assert row is not None
    return row


@pytest.mark.parametrize("role", LOGINS)
def test_a_connection_stays_who_it_is(conninfo: str, role: Role) -> None:
    login = with_role(conninfo, role, application="test")
    names = {
        "login": sql.Identifier(role),
        "database": sql.Identifier(str(conninfo_to_dict(conninfo)["dbname"])),
    }
    with psycopg.connect(login, autocommit=True) as connection:
        assert who(connection) == (role, role)
        for other in OTHERS:
            if other == role:
                continue
            for text in ("SET ROLE {}", "SET LOCAL ROLE {}", "SET SESSION AUTHORIZATION {}"):
                statement = sql.SQL(text).format(sql.Identifier(other))
                with pytest.raises(errors.InsufficientPrivilege), connection.transaction():
                    connection.execute(statement)
            with pytest.raises(errors.InsufficientPrivilege):
                connection.execute("SELECT set_config('role', %s, false)", [other])
        for text in ("RESET ROLE", "SET ROLE NONE", "RESET SESSION AUTHORIZATION", "DISCARD ALL"):
            connection.execute(text.encode())
            assert who(connection) == (role, role)
        connection.execute("SET search_path = hitherto, public")
        for text in FORBIDDEN:
            # Append-only is a trigger's word, with the same SQLSTATE.
            with pytest.raises(errors.InsufficientPrivilege):
                connection.execute(sql.SQL(text).format(**names))
            assert who(connection) == (role, role)


def test_row_security_cannot_be_left(conninfo: str, superuser_conninfo: str) -> None:
    with psycopg.connect(superuser_conninfo, autocommit=True) as admin:
        admin.execute("INSERT INTO users (tenant_id, user_id) VALUES ('acme', 'ana')")
    for role in LOGINS:
        with psycopg.connect(
            with_role(conninfo, role, application="test"), autocommit=True
        ) as connection:
            seen = connection.execute("SELECT user_id FROM users").fetchall()
            if role == "hitherto_maintenance":
                assert seen == [("ana",)]
                continue
            assert seen == [], role
            connection.execute("SET row_security = off")
            with pytest.raises(errors.InsufficientPrivilege), refusing(role):
                connection.execute("SELECT user_id FROM users")


def test_no_start_up_parameter_takes_another_role(conninfo: str) -> None:
    for role in LOGINS:
        for other in OTHERS:
            if other != role:
                login = with_role(
                    make_conninfo(conninfo, options=f"-c role={other}"), role, application="test"
                )
                told = pytest.raises(psycopg.OperationalError, match="permission denied")
                with told, refusing((role, other)):
                    psycopg.connect(login)


def test_what_a_reader_writes_is_written(conninfo: str, superuser_conninfo: str) -> None:
    """Access counters and the audit log, and not what it read."""
    login = with_role(conninfo, "hitherto_read", application="test")
    with psycopg.connect(login, autocommit=True) as connection:
        connection.execute("SELECT set_config('hitherto.tenant_id', 'acme', false)")
        connection.execute(
            "INSERT INTO audit_events"
            " (tenant_id, event_id, actor, method, user_hash, resource_ids, count)"
            " VALUES ('acme', gen_random_uuid(), 'key:k', 'GetContext', '', '{}', 1)"
        )
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute("SELECT * FROM audit_events")
    with psycopg.connect(superuser_conninfo) as admin:
        assert admin.execute("SELECT count(*) FROM audit_events").fetchone() == (1,)


@pytest.mark.parametrize("stronger", ["hitherto_owner", "hitherto_maintenance", "pg_read_all_data"])
def test_a_service_refuses_a_login_that_can_become_more(
    own: EmbeddedPostgres, stronger: str
) -> None:
    url, admin = own.conninfo(), own.superuser_conninfo("hitherto")
    settings = RetrievalSettings(database_url=url, migrate=True)
    locate_database(settings)
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f"GRANT {stronger} TO hitherto_read".encode())
    with pytest.raises(LoginTooStrong, match=f'REVOKE "{stronger}" FROM hitherto_read'):
        locate_database(settings)
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f"REVOKE {stronger} FROM hitherto_read".encode())
    locate_database(settings)


def test_a_service_refuses_a_login_with_attributes(own: EmbeddedPostgres) -> None:
    login = with_role(own.conninfo(), "hitherto_write", application="test")
    admin = own.superuser_conninfo("hitherto")
    for attribute in ("BYPASSRLS", "CREATEROLE", "SUPERUSER"):
        with psycopg.connect(admin, autocommit=True) as connection:
            connection.execute(f"ALTER ROLE hitherto_write {attribute}".encode())
        with (
            psycopg.connect(login) as connection,
            pytest.raises(LoginTooStrong, match="ALTER ROLE"),
        ):
            require_no_more(connection, "hitherto_write")
        with psycopg.connect(admin, autocommit=True) as connection:
            connection.execute(f"ALTER ROLE hitherto_write NO{attribute}".encode())
    with psycopg.connect(login) as connection:
        require_no_more(connection, "hitherto_write")


@pytest.fixture(scope="module")
def own() -> Iterator[EmbeddedPostgres]:
    """A server of this module's own, whose roles it may change."""
    with open_folder() as folder, EmbeddedPostgres.acquire(folder / "data") as server:
        yield server


@pytest.fixture(scope="module")
def theirs() -> Iterator[EmbeddedPostgres]:
    """The server behind `managed`."""
    with open_folder() as folder, EmbeddedPostgres.acquire(folder / "data") as server:
        yield server


@pytest.fixture
def managed(theirs: EmbeddedPostgres) -> Iterator[str]:
    """A managed server: an administrator who is no superuser, and none of our roles."""
    with psycopg.connect(theirs.superuser_conninfo("hitherto"), autocommit=True) as admin:
        admin.execute("DROP DATABASE IF EXISTS app WITH (FORCE)")
        for role in ("hitherto_owner", *LOGINS):
            admin.execute(f"DROP OWNED BY {role} CASCADE".encode())
        admin.execute("REASSIGN OWNED BY hitherto_owner TO postgres")
        for role in ("hitherto_owner", *LOGINS):
            admin.execute(f"DROP OWNED BY {role} CASCADE".encode())
            admin.execute(f"DROP ROLE {role}".encode())
        if admin.execute("SELECT FROM pg_roles WHERE rolname = 'boss'").fetchone() is None:
            admin.execute("CREATE ROLE boss LOGIN CREATEROLE CREATEDB PASSWORD 'boss-secret'")
        admin.execute("CREATE DATABASE app OWNER boss")
    with psycopg.connect(theirs.superuser_conninfo("app"), autocommit=True) as admin:
        admin.execute("CREATE EXTENSION vector SCHEMA public")  # trusted there
    yield make_conninfo(theirs.superuser_conninfo("app"), user="boss", password="boss-secret")
    with psycopg.connect(theirs.superuser_conninfo(), autocommit=True) as admin:
        admin.execute("DROP DATABASE app WITH (FORCE)")


def migrating(url: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hitherto_shared.database.migrate", *arguments],
        env={"PATH": os.environ.get("PATH", ""), "DATABASE_URL": url, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def session(url: str, role: Role) -> tuple[str, str]:
    with psycopg.connect(with_role(url, role, application="test")) as connection:
        return who(connection)


def test_one_connection_string_is_enough_on_a_managed_server(managed: str) -> None:
    done = migrating(managed)
    assert (done.returncode, "cannot log in" in done.stderr) == (0, False), done.stderr
    for settings in (
        RetrievalSettings(database_url=managed),
        ExtractionSettings(database_url=managed),
    ):
        located = locate_database(settings)
        for role in settings.logins:
            assert session(located.conninfo, role) == (role, role)
            with (
                psycopg.connect(with_role(located.conninfo, role, application="t")) as connection,
                pytest.raises(errors.InsufficientPrivilege),
            ):
                connection.execute("SET ROLE hitherto_owner")


def test_what_is_pending_is_told_before_anything_is_prepared(managed: str) -> None:
    everything = [each.name for each in all_migrations()]
    checked = migrating(managed, "--check")
    assert (checked.returncode, checked.stdout.split(), checked.stderr) == (1, everything, "")
    # Another database of a prepared server, and an administrator who may not be the owner yet.
    assert migrating(managed).returncode == 0
    url = make_conninfo(managed, dbname="second")
    with psycopg.connect(managed, autocommit=True) as boss:
        boss.execute("REVOKE hitherto_owner FROM boss")
        boss.execute("CREATE DATABASE second")
    try:
        checked = migrating(url, "--check")
        assert (checked.returncode, checked.stdout.split(), checked.stderr) == (1, everything, "")
        planned = migrating(url, "--dry-run")
    finally:
        with psycopg.connect(managed, autocommit=True) as boss:
            boss.execute("DROP DATABASE second")
    assert (planned.returncode, planned.stderr) == (0, "")
    assert "-- 0000_baseline" in planned.stdout


def test_each_service_can_have_a_connection_string_of_its_own(managed: str) -> None:
    given = {
        "HITHERTO_RETRIEVAL_PASSWORD": "lesen-ß-1",
        "HITHERTO_EXTRACTION_PASSWORD": "schreiben-2",
    }
    assert migrating(managed, **given).returncode == 0
    reader = make_conninfo(managed, user="hitherto_read", password="lesen-ß-1")
    located = locate_database(RetrievalSettings(database_url=reader))
    assert session(located.conninfo, "hitherto_read") == ("hitherto_read", "hitherto_read")
    with pytest.raises(psycopg.OperationalError):
        session(located.conninfo, "hitherto_write")
    writer = make_conninfo(managed, user="hitherto_write", password="schreiben-2")
    located = locate_database(ExtractionSettings(database_url=writer))
    assert session(located.conninfo, "hitherto_removal") == ("hitherto_removal",) * 2
    # Or a setting, and an address without a login.
    parts = conninfo_to_dict(managed)
    address = make_conninfo(
        "", **{name: parts[name] for name in ("host", "port", "dbname") if name in parts}
    )
    located = locate_database(
        ExtractionSettings(database_url=address, extraction_password="schreiben-2")
    )
    assert session(located.conninfo, "hitherto_maintenance") == ("hitherto_maintenance",) * 2
    # The administrator's string alone does not undo what was chosen, and says so.
    done = migrating(managed)
    assert done.returncode == 0
    assert "--set-passwords" in done.stderr
    assert session(reader, "hitherto_read") == ("hitherto_read", "hitherto_read")
    # A setting that is not so yet is an error until one says that it is to be set.
    other = {**given, "HITHERTO_RETRIEVAL_PASSWORD": "new"}
    assert migrating(managed, **other).returncode == 1
    assert migrating(managed, "--set-passwords", **other).returncode == 0
    with pytest.raises(psycopg.OperationalError):
        session(reader, "hitherto_read")
    # A login that has expired is not let in by a password that is set again.
    with psycopg.connect(managed, autocommit=True) as boss:
        boss.execute("ALTER ROLE hitherto_read VALID UNTIL '2020-01-01'")
        expired = migrating(managed, "--set-passwords", **other)
        boss.execute("ALTER ROLE hitherto_read VALID UNTIL 'infinity'")
    assert expired.returncode == 1
    assert "hitherto_read cannot log in" in expired.stderr
    assert "VALID UNTIL" in expired.stderr
    assert "--set-passwords" not in expired.stderr
    for said in (done.stdout, done.stderr):
        assert "lesen" not in said
        assert "boss-secret" not in said


def test_a_services_login_migrates_nothing(own: EmbeddedPostgres) -> None:
    login = with_role(own.conninfo(), "hitherto_read", application="test")
    with pytest.raises(BootstrapError, match="login of a service") as caught:
        bootstrap(login)
    assert "GRANT" not in str(caught.value)


def test_a_data_folder_of_before_goes_on() -> None:
    """Group roles without login, all played by one login: they become logins, nothing is lost."""
    with open_folder() as folder:
        become_logins(folder)


def become_logins(folder: Path) -> None:
    with EmbeddedPostgres.acquire(folder / "data") as server:
        locate_database(RetrievalSettings(data_dir=folder / "data")).release()
        with psycopg.connect(server.superuser_conninfo("hitherto"), autocommit=True) as admin:
            admin.execute("INSERT INTO hitherto.users (tenant_id, user_id) VALUES ('acme', 'ana')")
            for role in LOGINS:
                admin.execute(f"ALTER ROLE {role} NOLOGIN PASSWORD NULL".encode())
                admin.execute(f"GRANT {role} TO hitherto".encode())
                admin.execute(f"REVOKE CONNECT ON DATABASE hitherto FROM {role}".encode())
    kept = (folder / "data" / "embedded.json").read_bytes()
    located = locate_database(ExtractionSettings(data_dir=folder / "data"))
    try:
        with psycopg.connect(
            with_role(located.conninfo, "hitherto_maintenance", application="test")
        ) as connection:
            assert connection.execute("SELECT user_id FROM users").fetchall() == [("ana",)]
    finally:
        located.release()
    assert (folder / "data" / "embedded.json").read_bytes() == kept
    assert (folder / "data" / "embedded.json").stat().st_mode & 0o777 == 0o600


async def test_the_services_say_which_login_they_leave_alone(
    own: EmbeddedPostgres, caplog: pytest.LogCaptureFixture
) -> None:
    locate_database(RetrievalSettings(database_url=own.conninfo(), migrate=True))
    with caplog.at_level(logging.WARNING):
        await locate_unless_ended(RetrievalSettings(database_url=own.conninfo()), asyncio.Event())
    assert "hitherto_owner" in caplog.text
    caplog.clear()
    login = with_role(own.conninfo(), "hitherto_read", application="test")
    with caplog.at_level(logging.WARNING):
        await locate_unless_ended(RetrievalSettings(database_url=login), asyncio.Event())
    assert caplog.text == ""
