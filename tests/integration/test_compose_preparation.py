"""The one-shot of docker-compose.yml on a real server, and what the services then log in as."""

from __future__ import annotations

import asyncio
import importlib.util
import stat
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from hitherto_shared.auth.api_keys import find_principal
from hitherto_shared.auth.principal import Principal
from hitherto_shared.database.connect import with_role
from hitherto_shared.database.embedded import EmbeddedPostgres
from hitherto_shared.sealing import load_secret

ROOT = Path(__file__).resolve().parents[2]


def load(name: str) -> ModuleType:
    """A script of docker/, which is no package because it is copied into an image by itself."""
    spec = importlib.util.spec_from_file_location(f"docker_{name}", ROOT / "docker" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def empty_database(postgres: EmbeddedPostgres) -> Iterator[str]:
    """An administrator's connection string of a database without anything of ours."""
    name = f"test_{uuid4().hex}"
    with psycopg.connect(postgres.superuser_conninfo(), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    yield postgres.superuser_conninfo(name)
    with psycopg.connect(postgres.superuser_conninfo(), autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def service_login(
    postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[ModuleType, str]]:
    """The script with a login of this test's own: roles belong to the whole server."""
    script, login = load("prepare"), f"service_{uuid4().hex}"
    monkeypatch.setattr(script, "SERVICE_LOGIN", login)
    yield script, login
    with psycopg.connect(postgres.superuser_conninfo(), autocommit=True) as connection:
        connection.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(login)))


def find(conninfo: str, key: str) -> Principal | None:
    async def look() -> Principal | None:
        async with await psycopg.AsyncConnection.connect(conninfo) as connection:
            return await find_principal(connection, key)

    return asyncio.run(look())


def test_an_empty_database_is_ready_after_it_and_a_second_run_changes_nothing(
    empty_database: str, service_login: tuple[ModuleType, str], tmp_path: Path
) -> None:
    script, login = service_login
    secret, key_file = tmp_path / "secret", tmp_path / "api-key"

    def prepare() -> tuple[bytes, str]:
        script.prepare(
            empty_database, service_password="s3cret", secret_file=secret, api_key_file=key_file
        )
        return load_secret(secret), key_file.read_text()

    first = prepare()
    assert prepare() == first
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600

    service = make_conninfo(empty_database, user=login, password="s3cret")
    with psycopg.connect(with_role(service, "hitherto_read", application="test")) as connection:
        row = connection.execute(
            "SELECT session_user, current_user, rolsuper FROM pg_roles WHERE rolname = session_user"
        ).fetchone()
    assert row == (login, "hitherto_read", False)

    principal = find(with_role(service, "hitherto_read", application="test"), first[1].strip())
    assert principal is not None
    assert principal.tenant_id == "default"
    assert principal.scopes == {"read", "write"}


def test_passwords_are_generated_once(tmp_path: Path) -> None:
    script = load("make_env")
    path = tmp_path / ".env"
    assert script.write_env(path)
    lines = dict(line.split("=") for line in path.read_text().splitlines())
    assert set(lines) == {"POSTGRES_PASSWORD", "HITHERTO_SERVICE_PASSWORD"}
    assert len(set(lines.values())) == 2
    assert all(len(value) == 48 and value.isalnum() for value in lines.values())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not script.write_env(path)
    assert dict(line.split("=") for line in path.read_text().splitlines()) == lines
