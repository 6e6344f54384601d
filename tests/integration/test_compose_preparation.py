"""The one-shot of docker-compose.yml on a real server, and what the services then log in as."""

from __future__ import annotations

import asyncio
import importlib.util
import re
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import psycopg
import pytest

from hitherto_shared.auth.api_keys import find_principal
from hitherto_shared.auth.principal import Principal
from hitherto_shared.database.connect import EXTRACTION_LOGINS, logging_in, with_role
from hitherto_shared.database.embedded import EmbeddedPostgres
from hitherto_shared.database.pipeline_connection import PipelineConnection
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


@pytest.fixture(scope="module")
def empty_database() -> Iterator[str]:
    """An administrator's connection string of a database without anything of ours, on a server of
    its own: logins belong to the whole server."""
    with (
        tempfile.TemporaryDirectory(prefix="rc-") as name,
        EmbeddedPostgres.acquire(_opened(Path(name)) / "data") as server,
    ):
        with psycopg.connect(server.superuser_conninfo(), autocommit=True) as connection:
            connection.execute("CREATE DATABASE compose")
        yield server.superuser_conninfo("compose")


def _opened(folder: Path) -> Path:
    # Postgres runs as another account where tests run as root.
    folder.chmod(0o711)
    return folder


def find(conninfo: str, key: str) -> Principal | None:
    async def look() -> Principal | None:
        async with await PipelineConnection.connect(conninfo, autocommit=True) as connection:
            return await find_principal(connection, key)

    return asyncio.run(look())


def test_an_empty_database_is_ready_after_it_and_a_second_run_changes_nothing(
    empty_database: str, tmp_path: Path
) -> None:
    script = load("prepare")
    secret, key_file = tmp_path / "secret", tmp_path / "api-key"

    def prepare(retrieval: str = "r3trieval") -> tuple[bytes, str]:
        script.prepare(
            empty_database,
            retrieval_password=retrieval,
            extraction_password="3xtraction",
            secret_file=secret,
            api_key_file=key_file,
        )
        return load_secret(secret), key_file.read_text()

    first = prepare()
    assert prepare() == first
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600

    extraction = logging_in(empty_database, "hitherto_write", "3xtraction")
    for role in EXTRACTION_LOGINS:
        with psycopg.connect(with_role(extraction, role, application="test")) as connection:
            row = connection.execute("SELECT session_user, current_user").fetchone()
        assert row == (role, role)

    reader = logging_in(empty_database, "hitherto_read", "r3trieval")
    login = with_role(reader, "hitherto_read", application="test")
    principal = find(login, first[1].strip())
    assert principal is not None
    assert principal.tenant_id == "default"
    assert principal.scopes == {"read", "write"}

    # Another password in .env is that of the next start.
    assert prepare(retrieval="another") == first
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(login)
    psycopg.connect(logging_in(login, "hitherto_read", "another")).close()


def test_passwords_are_generated_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = load("make_env")
    passwords, settings = tmp_path / ".env", tmp_path / "hitherto.env"
    monkeypatch.setattr(sys, "argv", ["make_env.py", str(passwords), str(settings)])
    script.main()
    written = passwords.read_text().splitlines()
    lines = dict(line.split("=") for line in written if line and line[0] != "#")
    assert set(lines) == {
        "POSTGRES_PASSWORD",
        "HITHERTO_RETRIEVAL_PASSWORD",
        "HITHERTO_EXTRACTION_PASSWORD",
        "REPLICATION_PASSWORD",
        "GRAFANA_PASSWORD",
    }
    assert len(set(lines.values())) == 5
    assert all(len(value) == 48 and value.isalnum() for value in lines.values())
    assert stat.S_IMODE(passwords.stat().st_mode) == 0o600
    settings.write_text("HITHERTO_LOG_LEVEL=DEBUG\n")
    script.main()
    assert capsys.readouterr().out.count("was left as it is") == 2
    assert passwords.read_text().splitlines() == written
    assert settings.read_text() == "HITHERTO_LOG_LEVEL=DEBUG\n"


def test_the_settings_to_edit_change_nothing_until_edited_and_have_known_names() -> None:
    lines = load("make_env").SETTINGS.splitlines()
    assert all(line.startswith("#") or not line for line in lines)
    named = {line[1:].split("=")[0] for line in lines if re.match(r"#[A-Z_]+=", line)}
    documented = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    assert len(named) > 8
    assert [name for name in named if f"`{name}`" not in documented] == []
