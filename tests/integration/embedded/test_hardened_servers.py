"""Databases whose administrators allow less: no hashes, no schema for everybody, other schemas."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pytest
from psycopg import errors
from psycopg.conninfo import make_conninfo

from hitherto_shared.database import bootstrap as module
from hitherto_shared.database.bootstrap import BootstrapError, bootstrap
from hitherto_shared.database.connect import LOGINS, OWNER, with_role
from hitherto_shared.database.embedded import EmbeddedPostgres
from hitherto_shared.database.logins import LoginTooStrong, refused, require_no_more
from hitherto_shared.database.migrate import migrate
from hitherto_shared.startup import StartupFailed, _require_vectors


class TakesNoHashes(psycopg.Connection[Any]):
    """A server that refuses hashed passwords, as Neon and credcheck do."""

    refusal: type[psycopg.Error] = errors.InternalError_
    sent: ClassVar[list[str]] = []

    def execute(self, query: Any, *args: Any, **more: Any) -> Any:
        text = query.as_string(self) if hasattr(query, "as_string") else str(query)
        self.sent.append(text)
        if "SCRAM-SHA-256$" in text:
            raise self.refusal("only supports being given plaintext passwords")
        return super().execute(query, *args, **more)


@pytest.fixture
def hashless(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[TakesNoHashes]]:
    """The embedded server, prepared, as one that takes no hashes."""
    with EmbeddedPostgres.acquire(data_dir):
        monkeypatch.setattr(TakesNoHashes, "sent", [])
        monkeypatch.setattr(
            module, "connected", lambda conninfo: TakesNoHashes.connect(conninfo, autocommit=True)
        )
        yield TakesNoHashes


def test_a_server_that_takes_no_hashes_gets_the_passwords(
    data_dir: Path, hashless: type[TakesNoHashes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over a line that nobody else reads."""
    passwords = dict.fromkeys(LOGINS, "new-secret")
    with EmbeddedPostgres.acquire(data_dir) as server:
        admin = server.superuser_conninfo("hitherto")
        with monkeypatch.context() as public:
            public.setattr(module, "_is_private", lambda connection: False)
            with pytest.raises(BootstrapError) as told:
                bootstrap(admin, passwords=passwords, set_passwords=True)
        for word in ("HITHERTO_RETRIEVAL_PASSWORD", "sslmode", "ALTER ROLE", "choose a password"):
            assert word in str(told.value)
        assert not [text for text in hashless.sent if "new-secret" in text]
        for refusal, set_passwords in (
            (errors.InternalError_, False),
            (errors.InvalidAuthorizationSpecification, True),
            (errors.FeatureNotSupported, False),
        ):
            monkeypatch.setattr(hashless, "refusal", refusal)
            with psycopg.connect(admin, autocommit=True) as connection:
                connection.execute("ALTER ROLE hitherto_removal PASSWORD NULL")
                if not set_passwords:
                    connection.execute("ALTER ROLE hitherto_removal NOLOGIN")
            bootstrap(admin, passwords=passwords, set_passwords=set_passwords)
            assert "hitherto_removal" not in refused(admin, passwords), refusal


def test_where_everybody_lost_the_schema_our_roles_get_it(prepared: EmbeddedPostgres) -> None:
    with psycopg.connect(prepared.superuser_conninfo(), autocommit=True) as admin:
        admin.execute("CREATE ROLE boss LOGIN CREATEROLE PASSWORD 'x'")
        admin.execute("CREATE DATABASE hardened OWNER boss")
        admin.execute("GRANT hitherto_owner TO boss")
    with psycopg.connect(prepared.superuser_conninfo("hardened"), autocommit=True) as admin:
        admin.execute("CREATE EXTENSION vector")
        admin.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
    boss = make_conninfo(prepared.superuser_conninfo("hardened"), user="boss", password="x")
    login = with_role(prepared.conninfo("hardened"), "hitherto_read", application="test")
    with psycopg.connect(login) as connection, pytest.raises(StartupFailed, match="migrate"):
        _require_vectors(connection, "hitherto_read")
    # The owner of the database is the schema's too.
    bootstrap(boss)
    assert migrate(boss)
    with psycopg.connect(login) as connection:
        _require_vectors(connection, "hitherto_read")
    # Of a schema that belongs to somebody else, the statements are named.
    with psycopg.connect(prepared.superuser_conninfo("hardened"), autocommit=True) as admin:
        admin.execute("ALTER SCHEMA public OWNER TO CURRENT_USER")
        admin.execute("REVOKE ALL ON SCHEMA public FROM hitherto_owner")
        with pytest.raises(BootstrapError) as told:
            bootstrap(boss)
        script = str(told.value).split("\n", 1)[1]
        assert script.strip() == 'GRANT USAGE ON SCHEMA "public" TO "hitherto_owner";'
        admin.execute(script.encode())
    bootstrap(boss)


def test_pgvector_in_the_schema_of_supabase_is_found(prepared: EmbeddedPostgres) -> None:
    with psycopg.connect(prepared.superuser_conninfo(), autocommit=True) as admin:
        admin.execute("CREATE DATABASE supabase")
    conninfo = prepared.superuser_conninfo("supabase")
    with psycopg.connect(conninfo, autocommit=True) as admin:
        admin.execute("CREATE SCHEMA extensions; CREATE EXTENSION vector SCHEMA extensions")
    bootstrap(conninfo)
    assert migrate(conninfo)
    login = with_role(prepared.conninfo("supabase"), "hitherto_read", application="test")
    with psycopg.connect(login) as connection:
        _require_vectors(connection, "hitherto_read")
        row = connection.execute("SELECT '[1,2]'::halfvec <=> '[1,2]'::halfvec").fetchone()
        assert row == (0.0,)


def test_any_other_schema_is_named_by_a_variable(prepared: EmbeddedPostgres) -> None:
    with psycopg.connect(prepared.superuser_conninfo(), autocommit=True) as admin:
        admin.execute("CREATE DATABASE elsewhere")
    conninfo = prepared.superuser_conninfo("elsewhere")
    with psycopg.connect(conninfo, autocommit=True) as admin:
        admin.execute('CREATE SCHEMA "My ext"; CREATE EXTENSION vector SCHEMA "My ext"')
    with pytest.raises(BootstrapError, match="HITHERTO_VECTOR_SCHEMA=My ext"):
        bootstrap(conninfo)
    run = subprocess.run(
        [sys.executable, "-m", "hitherto_shared.database.migrate"],
        env={"DATABASE_URL": conninfo, "HITHERTO_VECTOR_SCHEMA": "My ext"},
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    assert "applied 0000_baseline" in run.stdout, run.stderr


@pytest.mark.parametrize(
    ("right", "remedy"), [("CREATEROLE", "NOCREATEROLE"), ("BYPASSRLS", "NOBYPASSRLS")]
)
def test_the_remedy_names_only_what_the_login_has(
    prepared: EmbeddedPostgres, right: str, remedy: str
) -> None:
    with psycopg.connect(prepared.superuser_conninfo(), autocommit=True) as admin:
        admin.execute(f"ALTER ROLE hitherto_read {right}".encode())
    login = with_role(prepared.conninfo(), "hitherto_read", application="test")
    try:
        with psycopg.connect(login) as connection, pytest.raises(LoginTooStrong) as told:
            require_no_more(connection, "hitherto_read")
    finally:
        with psycopg.connect(prepared.superuser_conninfo(), autocommit=True) as admin:
            admin.execute(f"ALTER ROLE hitherto_read {remedy}".encode())
    assert str(told.value).endswith(f"ALTER ROLE hitherto_read {remedy}")


def test_whoever_reads_the_script_may_stop(prepared: EmbeddedPostgres) -> None:
    command = f"{sys.executable} -m hitherto_shared.database.migrate --dry-run | head -3"
    run = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        env={"DATABASE_URL": prepared.superuser_conninfo("postgres"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("-- As an administrator")
    assert OWNER in run.stdout or "EXTENSION" in run.stdout


def test_an_output_that_takes_nothing_is_told(prepared: EmbeddedPostgres) -> None:
    with open("/dev/full", "wb") as full:
        run = subprocess.run(
            [sys.executable, "-m", "hitherto_shared.database.migrate", "--dry-run"],
            env={"DATABASE_URL": prepared.superuser_conninfo("postgres")},
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            text=True,
            timeout=60,
        )
    assert run.returncode == 1
    assert run.stderr == "hitherto-migrate: the output cannot be written: No space left on device\n"
