"""Roles and extension, in the embedded server and as on a server of somebody else."""

from __future__ import annotations

import threading
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from hitherto_shared.database.bootstrap import BootstrapError, bootstrap
from hitherto_shared.database.connect import LOGINS, OWNER, with_role
from hitherto_shared.database.embedded import EmbeddedPostgres


def test_what_services_find(prepared: EmbeddedPostgres) -> None:
    owner = with_role(prepared.conninfo(), "hitherto_owner", application="test")
    with psycopg.connect(owner) as connection:
        connection.execute("CREATE SCHEMA hitherto")
        row = connection.execute(
            "SELECT current_user::text, session_user::text, '[1,2]'::halfvec::text"
        ).fetchone()
        assert row == ("hitherto_owner", "hitherto", "[1,2]")
        bare = connection.execute(
            "SELECT rolsuper, rolinherit, rolcreatedb, rolcreaterole"
            " FROM pg_roles WHERE rolname = 'hitherto'"
        ).fetchone()
        assert bare == (False, False, False, False)
        rows = connection.execute(
            "SELECT rolname, rolcanlogin, rolsuper OR rolcreaterole OR rolbypassrls"
            " FROM pg_roles WHERE rolname = ANY (%s)",
            [[OWNER, *LOGINS]],
        ).fetchall()
        assert set(rows) == {(OWNER, False, False), *((role, True, False) for role in LOGINS)}
    with (
        psycopg.connect(prepared.conninfo()) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute("CREATE TABLE public.mine (id int)")


def test_only_the_password_opens_the_socket(prepared: EmbeddedPostgres) -> None:
    for conninfo in (prepared.conninfo(), prepared.superuser_conninfo()):
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(make_conninfo(conninfo, password="wrong"))
    with psycopg.connect(prepared.superuser_conninfo()) as connection:
        shown = [
            connection.execute(f"SHOW {name}").fetchone()
            for name in ("listen_addresses", "data_checksums", "synchronous_commit")
        ]
        assert shown == [("",), ("on",), ("on",)]
        # No connection waits for thousands of hashes of a password that nobody can guess.
        hashed = connection.execute(
            "SELECT DISTINCT split_part(rolpassword, ':', 1) FROM pg_authid"
            " WHERE rolcanlogin AND rolpassword IS NOT NULL"
        ).fetchall()
        assert [kind.partition("$")[::2] for (kind,) in hashed] == [("SCRAM-SHA-256", "1")]
        row = connection.execute(
            "SELECT pg_encoding_to_char(encoding), datlocale FROM pg_database"
            " WHERE datname = 'hitherto'"
        ).fetchone()
        assert row == ("UTF8", "C.UTF-8")


def test_what_a_crash_left_undone_is_done_by_the_next(data_dir: Path) -> None:
    with EmbeddedPostgres.acquire(data_dir) as server:
        with psycopg.connect(server.superuser_conninfo("hitherto"), autocommit=True) as admin:
            admin.execute("REVOKE hitherto_owner FROM hitherto")
            admin.execute("ALTER ROLE hitherto_write NOLOGIN")
            admin.execute("REVOKE CONNECT ON DATABASE hitherto FROM hitherto_write")
            admin.execute("DROP EXTENSION vector")
            admin.execute("GRANT CONNECT ON DATABASE hitherto TO PUBLIC")
        EmbeddedPostgres.acquire(data_dir).release()
        write = with_role(server.conninfo(), "hitherto_write", application="test")
        with psycopg.connect(write) as connection:
            row = connection.execute(
                "SELECT '[1]'::vector::text, datacl::text FROM pg_database"
                " WHERE datname = 'hitherto'"
            ).fetchone()
            assert row is not None
            assert row[0] == "[1]"
            assert "{=c/" not in row[1]
            assert ",=c/" not in row[1]


def test_a_server_of_somebody_else(prepared: EmbeddedPostgres) -> None:
    with psycopg.connect(prepared.superuser_conninfo(), autocommit=True) as admin:
        admin.execute("CREATE ROLE app LOGIN NOINHERIT PASSWORD 'app-secret'")
        admin.execute("CREATE DATABASE theirs")
    app = make_conninfo(prepared.superuser_conninfo("theirs"), user="app", password="app-secret")
    with pytest.raises(BootstrapError) as caught:
        bootstrap(app)
    script = str(caught.value).split("\n", 1)[1]
    assert 'GRANT "hitherto_owner" TO "app"' in script
    assert "CREATE EXTENSION" in script
    with psycopg.connect(prepared.superuser_conninfo("theirs"), autocommit=True) as admin:
        admin.execute(script.encode())
    bootstrap(app)
    with psycopg.connect(with_role(app, OWNER, application="test")) as connection:
        assert connection.execute("SELECT current_user::text").fetchone() == (OWNER,)
    # Their logins were there, with the passwords of the server's own database.
    for role in LOGINS:
        login = with_role(prepared.conninfo("theirs"), role, application="test")
        with psycopg.connect(login) as connection:
            assert connection.execute("SELECT current_user::text").fetchone() == (role,)


def test_the_text_for_an_administrator_has_no_password(prepared: EmbeddedPostgres) -> None:
    with psycopg.connect(prepared.superuser_conninfo(), autocommit=True) as admin:
        admin.execute("ALTER ROLE hitherto_removal NOLOGIN")
    try:
        with pytest.raises(BootstrapError) as caught:
            bootstrap(
                prepared.conninfo(),
                passwords=dict.fromkeys(LOGINS, "hush-hush"),
                migrator="newcomer",
                migrator_password="hush-hush",
            )
    finally:
        with psycopg.connect(prepared.superuser_conninfo(), autocommit=True) as admin:
            admin.execute("ALTER ROLE hitherto_removal LOGIN")
    assert "newcomer" in str(caught.value)
    assert 'ALTER ROLE "hitherto_removal" LOGIN PASSWORD' in str(caught.value)
    assert "hush-hush" not in str(caught.value)
    assert "SCRAM-SHA-256" not in str(caught.value)


def test_at_once_from_several_processes(prepared: EmbeddedPostgres) -> None:
    conninfo = prepared.superuser_conninfo("hitherto")
    failures: list[BaseException] = []

    def work() -> None:
        try:
            bootstrap(conninfo, migrator="several", migrator_password="x")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(180)
    assert failures == []
    assert not any(thread.is_alive() for thread in threads)
