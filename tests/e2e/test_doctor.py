"""`hitherto doctor` finds what is wrong with an installation, and says what to set."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, LiteralString

import psycopg
import pytest
from psycopg import sql

from hitherto_client.command import main
from hitherto_shared.database.connect import service_passwords
from hitherto_shared.database.embedded import EmbeddedPostgres
from hitherto_shared.database.examination import Diagnosis
from hitherto_shared.database.logins import LoginTooStrong
from hitherto_shared.encryption.key_store import KeyStore
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.encryption.wrapping import KeyWrapper, LocalWrapper
from tests.conftest import as_superuser, new_database
from tests.listening import free_port
from tests.pgbouncer import PgBouncer
from tests.scripted_model import ChatAnswer, Hang, RawReply, ScriptedModel, StatusFault
from tests.scripted_model.scripts import empty_script

Break = Callable[["Installation"], None]


class Installation:
    """The environment of a service, in which a test breaks something."""

    def __init__(
        self, patch: pytest.MonkeyPatch, model: ScriptedModel, postgres: EmbeddedPostgres
    ) -> None:
        self.patch, self.model, self.postgres = patch, model, postgres

    def mend(self) -> None:
        """Let the model answer again."""
        self.model.script = empty_script
        for endpoint in ("chat", "embeddings"):
            self.model.always(None, endpoint=endpoint)

    def set(self, **variables: str) -> None:
        for name, value in variables.items():
            self.patch.setenv(name, value)


@pytest.fixture(scope="module")
def conninfo(postgres: EmbeddedPostgres) -> Iterator[str]:
    """One database for all: each test leaves it in order."""
    with new_database(postgres) as made:
        with psycopg.connect(as_superuser(postgres, made), autocommit=True) as connection:
            connection.execute("CREATE TABLE public.kept AS TABLE hitherto.schema_migrations")
        yield made


@pytest.fixture
async def installation(
    monkeypatch: pytest.MonkeyPatch, postgres: EmbeddedPostgres, conninfo: str, tmp_path: Path
) -> Any:
    for name in os.environ:
        if name.startswith(("HITHERTO_", "OPENAI_", "EMBEDDING_", "MEMORY_", "AZURE_")):
            monkeypatch.delenv(name)
    async with ScriptedModel(empty_script, dimensions=64) as model:
        made = Installation(monkeypatch, model, postgres)
        made.set(
            DATABASE_URL=conninfo,
            OPENAI_BASE_URL=model.base_url,
            OPENAI_API_KEY="sk-canary",
            EMBEDDING_MODEL="bge-m3",
            EMBEDDING_DIMENSIONS="64",
            HITHERTO_DATA_DIR=str(tmp_path / "kept"),
        )
        yield made


async def examined(capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Diagnosis], str]:
    """The exit code, the first finding of each check that is not ok, or else ok, and all words."""
    code = await asyncio.to_thread(main, ["doctor", "--json"])
    told = capsys.readouterr()
    found: dict[str, Diagnosis] = {}
    for each in json.loads(told.out)["findings"]:
        finding = Diagnosis(**each)
        if finding.check not in found or found[finding.check].state == "ok":
            found[finding.check] = finding
    assert "canary" not in told.out + told.err
    return code, found, told.err


async def test_an_installation_in_order_is_told_so(
    installation: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found, _ = await examined(capsys)

    assert {name: each.state for name, each in found.items()} == dict.fromkeys(
        ("settings", "chat", "schema", "embedding", "dimensions", "database", "roles", "clocks",
         "stored vectors"), "ok",
    )  # fmt: skip
    assert code == 0
    assert installation.model.calls == {"chat": 1, "embeddings": 1}


def _nobody(installation: Installation) -> None:
    installation.set(OPENAI_BASE_URL=f"http://127.0.0.1:{free_port()}/v1")


def _without_a_path(installation: Installation) -> None:
    """As of a server of which only the host and the port are known."""
    installation.set(OPENAI_BASE_URL=installation.model.base_url.removesuffix("/v1"))


def _slow(endpoint: Literal["chat", "embeddings"]) -> Break:
    def apply(installation: Installation) -> None:
        installation.model.always(Hang(), endpoint=endpoint)
        installation.set(HITHERTO_MODEL_TIMEOUT_SECONDS="0.3")

    return apply


def _refuse_chat(fault: Any) -> Break:
    return lambda installation: installation.model.always(fault)


def _refuse_vectors(fault: Any) -> Break:
    return lambda installation: installation.model.always(fault, endpoint="embeddings")


def _say(text: str) -> Break:
    def apply(installation: Installation) -> None:
        installation.model.script = lambda _: ChatAnswer(text)

    return apply


def _set(**variables: str) -> Break:
    return lambda installation: installation.set(**variables)


def _database() -> str:
    return str(psycopg.conninfo.conninfo_to_dict(os.environ["DATABASE_URL"])["dbname"])


def _execute(statement: LiteralString, *values: str) -> Break:
    """The administrator changes the database."""

    def apply(installation: Installation) -> None:
        administrator = installation.postgres.superuser_conninfo(_database())
        with psycopg.connect(administrator, autocommit=True) as connection:
            connection.execute(statement, values)

    return apply


_another_model = _execute(
    "INSERT INTO hitherto.embedding_models (model, dimensions, active) VALUES ('nomic', 768, true)"
)
_unmigrated = _execute(
    "DELETE FROM hitherto.schema_migrations WHERE name ="
    " (SELECT max(name) FROM hitherto.schema_migrations)"
)
_given_away = _execute("ALTER SCHEMA hitherto OWNER TO CURRENT_USER")
_lost_hash_key = _execute(
    "INSERT INTO hitherto.installation (fact, value) VALUES ('hash_key_id', %s)", "0" * 16
)


def _late_clock(installation: Installation) -> None:
    late = SimpleNamespace(time=lambda: time.time() + 1_200)
    installation.patch.setattr("hitherto_shared.database.examination.time", late)


def _open_secret(installation: Installation) -> None:
    secret = _data_folder(installation) / "secret"
    secret.write_text("ab" * 32)
    secret.chmod(0o644)


def _foreign_hash_key(installation: Installation) -> None:
    _lost_hash_key(installation)
    key = _data_folder(installation) / "hash_key"
    key.write_text("cd" * 32)
    key.chmod(0o600)


def _data_folder(installation: Installation) -> Path:
    """The data folder of the environment, made."""
    folder = Path(os.environ["HITHERTO_DATA_DIR"])
    folder.mkdir(exist_ok=True)
    return folder


def _made_key(installation: Installation, wrapper: KeyWrapper | None = None) -> None:
    """Somebody encrypted, with a key that this one wrapped."""
    store = KeyStore(_data_folder(installation) / "user-keys")
    asyncio.run(UserKeys(wrapper or LocalWrapper(b"o" * 32), store, b"h" * 32).make("acme", "ana"))


def _another_kek(installation: Installation) -> None:
    _made_key(installation)
    installation.set(HITHERTO_ENCRYPTION_KEY="ab" * 32)


def _namesake_kek(installation: Installation) -> None:
    """Of a service that gives another key the same id."""
    wrapper = LocalWrapper(b"o" * 32)
    wrapper.id = LocalWrapper(bytes.fromhex("ab" * 32)).id
    _made_key(installation, wrapper)
    installation.set(HITHERTO_ENCRYPTION_KEY="ab" * 32)


def _encrypting(key_id: str) -> Break:
    """Ana turned encryption on with a key of this id."""

    def breaking(installation: Installation) -> None:
        key = _data_folder(installation) / "hash_key"
        key.write_text((b"h" * 32).hex())
        key.chmod(0o600)
        installation.set(HITHERTO_ENCRYPTION_KEY=(b"o" * 32).hex())
        _execute(
            "INSERT INTO hitherto.users (tenant_id, user_id, encrypt_sensitive, key_id)"
            " VALUES ('acme', 'ana', true, %s)",
            key_id,
        )(installation)

    return breaking


def _key_of_an_earlier_folder(installation: Installation) -> None:
    _encrypting("another")(installation)
    _made_key(installation)


FAULTS: dict[str, tuple[Break, str, str]] = {
    "wrong key": (_refuse_chat(StatusFault(401)), "chat", "OPENAI_API_KEY"),
    "no such model": (_refuse_chat(StatusFault(404)), "chat", "the requested model is gpt-"),
    "no path": (_without_a_path, "chat", "/v1"),
    "no path to vectors": (_without_a_path, "embedding", "/v1"),
    "slow": (_slow("chat"), "chat", "HITHERTO_MODEL_TIMEOUT_SECONDS"),
    "slow vectors": (_slow("embeddings"), "embedding", "HITHERTO_MODEL_TIMEOUT_SECONDS"),
    "nobody there": (_nobody, "chat", "OPENAI_BASE_URL"),
    "a web page": (_refuse_chat(RawReply.html()), "chat", "OPENAI_BASE_URL"),
    "prose": (_say("I am sorry."), "schema", "MEMORY_EXTRACTION_MAX_TOKENS"),
    "empty": (_say("{}"), "schema", "model"),
    "no vectors": (_refuse_vectors(StatusFault(404)), "embedding", "HITHERTO_EMBEDDER=offline"),
    "other length": (
        _set(EMBEDDING_DIMENSIONS="128"), "dimensions", "EMBEDDING_DIMENSIONS=64",
    ),
    "unknown length": (_set(EMBEDDING_DIMENSIONS=""), "embedding", "EMBEDDING_DIMENSIONS"),
    "no folder": (_set(HITHERTO_EMBEDDER="onnx"), "embedding", "HITHERTO_ONNX_MODEL_DIR"),
    "misspelt": (_set(HITHERTO_EMBEDER="offline"), "settings", "HITHERTO_EMBEDDER"),
    "wrong value": (_set(HITHERTO_EXTRACTOR="gpt"), "settings", "HITHERTO_EXTRACTOR"),
    "Azure by half": (
        _set(OPENAI_BASE_URL="", AZURE_OPENAI_ENDPOINT="https://x.openai.azure.com"),
        "settings", "OPENAI_API_VERSION",
    ),
    "no price": (_set(HITHERTO_DAILY_BUDGET_USD="5"), "settings", "HITHERTO_PRICES_FILE"),
    "proxy": (_set(HTTP_PROXY="http://127.0.0.1:1", NO_PROXY=""), "chat", "HTTP_PROXY"),
    "readable by others": (_open_secret, "settings", "chmod"),
    "no such key": (
        _set(HITHERTO_ENCRYPTION_KEY_FILE="/none"), "settings", "HITHERTO_ENCRYPTION_KEY_FILE",
    ),
    "no certificate": (
        _set(HITHERTO_TLS_CERTIFICATE_FILE="/none", HITHERTO_TLS_KEY_FILE="/none"),
        "settings", "HITHERTO_TLS_KEY_FILE",
    ),
    "open to everybody": (
        _set(HITHERTO_AUTH="off", HITHERTO_EXTRACTION_LISTEN="0.0.0.0:0"),
        "settings", "HITHERTO_AUTH=api-key",
    ),
    "in clear": (
        _set(HITHERTO_EXTRACTION_LISTEN="0.0.0.0:0"), "settings", "HITHERTO_INSECURE_LISTEN",
    ),
    "lost hash key": (_lost_hash_key, "settings", "HITHERTO_HASH_KEY_FILE"),
    "foreign hash key": (_foreign_hash_key, "settings", "HITHERTO_HASH_KEY_FILE"),
    "another key-encryption key": (_another_kek, "encryption", "hitherto-keys rewrap"),
    "no key-encryption key": (_made_key, "encryption", "HITHERTO_ENCRYPTION_KEY_FILE"),
    "lost user keys": (_encrypting("k1"), "encryption", "HITHERTO_USER_KEYS_DIR"),
    "other user keys": (_key_of_an_earlier_folder, "encryption", "HITHERTO_USER_KEYS_DIR"),
    "a namesake of it": (_namesake_kek, "encryption", "hitherto-keys check"),
    "no volume": (
        _set(DATABASE_URL="", HITHERTO_REQUIRE_DATABASE_URL="true", HITHERTO_DATA_DIR="/"),
        "database", "HITHERTO_REQUIRE_DATABASE_URL=false",
    ),
    "no database": (
        _set(DATABASE_URL="postgresql://u:canary@127.0.0.1:1/x"), "database", "DATABASE_URL",
    ),
    "old schema": (_unmigrated, "database", "hitherto-migrate"),
    "other vectors": (_another_model, "stored vectors", "EMBEDDING_MODEL=nomic"),
    "another owner": (_given_away, "database", "--no-owner"),
    "late clock": (_late_clock, "clocks", "NTP"),
}  # fmt: skip


_mend = _execute(
    "ALTER SCHEMA hitherto OWNER TO hitherto_owner;"
    " WITH key AS (DELETE FROM hitherto.installation WHERE fact = 'hash_key_id'),"
    " model AS (DELETE FROM hitherto.embedding_models), ana AS (DELETE FROM hitherto.users)"
    " INSERT INTO hitherto.schema_migrations SELECT * FROM public.kept"
    " WHERE name NOT IN (SELECT name FROM hitherto.schema_migrations)"
)
"""Takes back what the faults above leave in the database."""


async def test_each_fault_is_named_with_what_to_set(
    installation: Installation,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    for number, (name, (breaking, check, remedy)) in enumerate(FAULTS.items()):
        try:
            with monkeypatch.context() as installation.patch:
                installation.set(HITHERTO_DATA_DIR=str(tmp_path / f"kept-{number}"))
                await asyncio.to_thread(breaking, installation)
                code, found, told = await examined(capsys)
        finally:
            installation.mend()
            await asyncio.to_thread(_mend, installation)
        assert code == 1, name
        assert found[check].state == "fault", name
        assert remedy in f"{found[check].told} {found[check].remedy}", name
        assert check in told, name


async def test_a_key_that_opens_what_is_stored_is_told_so(
    installation: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    await asyncio.to_thread(_made_key, installation)
    installation.set(HITHERTO_ENCRYPTION_KEY=(b"o" * 32).hex())
    code, found, _ = await examined(capsys)
    assert code == 0
    assert (found["encryption"].state, found["encryption"].told) == (
        "ok",
        "keys of users tried: 1, all open",
    )


async def test_a_login_with_too_many_rights_is_named(
    installation: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    """The logins of the server belong to all tests, so that none is given more rights here."""

    def require(_: object, role: str) -> None:
        if role == "hitherto_removal":
            raise LoginTooStrong("an administrator must run: ALTER ROLE hitherto_removal")

    installation.patch.setattr("hitherto_shared.database.examination.require_no_more", require)
    code, found, _ = await examined(capsys)

    assert code == 1
    assert "ALTER ROLE hitherto_removal" in found["roles"].told


async def test_a_table_without_its_second_wall_is_named(
    installation: Installation, superuser_conninfo: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """H4: nothing else says that row-level security is off."""
    with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
        for change in (
            "ALTER TABLE hitherto.memories DISABLE ROW LEVEL SECURITY",
            "ALTER TABLE hitherto.webhooks DISABLE ROW LEVEL SECURITY",
        ):
            connection.execute(change)
    code, found, _ = await examined(capsys)
    assert (code, found["row security"].state) == (1, "fault")
    assert "memories and 1 more" in found["row security"].told
    assert "ALTER TABLE hitherto.memories ENABLE ROW LEVEL SECURITY" in found["row security"].remedy
    with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
        for table in ("memories", "webhooks"):
            connection.execute(f"ALTER TABLE hitherto.{table} ENABLE ROW LEVEL SECURITY".encode())


async def test_a_server_that_needs_a_simpler_form_is_in_order(
    installation: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    installation.model.script = lambda request: (
        StatusFault(500, message="cannot build the grammar")
        if "json_schema" in str(request.body.get("response_format"))
        else empty_script(request)
    )
    code, found, _ = await examined(capsys)

    assert (code, found["chat"].state, found["schema"].state) == (0, "ok", "ok")


async def test_nothing_configured_is_no_fault_and_nothing_is_made(
    installation: Installation, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    installation.set(
        OPENAI_BASE_URL="", OPENAI_API_KEY="", EMBEDDING_DIMENSIONS="", DATABASE_URL="",
        HITHERTO_DATA_DIR=str(tmp_path / "data"),
    )  # fmt: skip
    code, found, told = await examined(capsys)

    assert code == 0
    assert (found["chat"].state, found["database"].state) == ("note", "note")
    assert "OPENAI_API_KEY" in told
    assert not (tmp_path / "data").exists()


async def test_a_database_that_takes_no_more_connections_is_not_to_be_migrated(
    installation: Installation,
    conninfo: str,
    superuser_conninfo: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    limit = sql.SQL("ALTER DATABASE {} CONNECTION LIMIT {}")
    database = sql.Identifier(_database())
    password = service_passwords(conninfo)["hitherto_read"]
    installation.set(HITHERTO_RETRIEVAL_PASSWORD=str(password))
    with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
        connection.execute(limit.format(database, sql.Literal(0)))
    try:
        # The limit does not apply to a superuser.
        for url, check in ((conninfo, "database"), (superuser_conninfo, "roles")):
            installation.set(DATABASE_URL=url)
            code, found, _ = await examined(capsys)
            assert (code, found[check].state, found[check].remedy) == (1, "fault", ""), check
            assert "CONNECTION LIMIT" in found[check].told
    finally:
        with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
            connection.execute(limit.format(database, sql.Literal(-1)))


@pytest.fixture
def pooled(installation: Installation, conninfo: str) -> Iterator[Installation]:
    """The same installation behind a pooler that knows the logins of the services alone."""
    with PgBouncer(installation.postgres, conninfo) as pooler:
        installation.set(
            DATABASE_URL=pooler.conninfo,
            HITHERTO_POOLER="transaction",
            HITHERTO_DIRECT_DATABASE_URL=conninfo,
        )
        yield installation
    _read_only(installation, "off")
    for name in ("default_transaction_read_only", "default_transaction_isolation"):
        _of_a_login(installation, f"RESET {name}")


def _unnamed_pooler(pooled: Installation) -> None:
    pooled.set(HITHERTO_POOLER="none")


def _wrong_way_past(pooled: Installation) -> None:
    direct = psycopg.conninfo.make_conninfo(os.environ["HITHERTO_DIRECT_DATABASE_URL"], port=1)
    pooled.set(HITHERTO_DIRECT_DATABASE_URL=direct)


def _read_only(pooled: Installation, only: str = "on") -> None:
    with psycopg.connect(pooled.postgres.superuser_conninfo(), autocommit=True) as connection:
        connection.execute(
            psycopg.sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = {}").format(
                psycopg.sql.Identifier(_database()), psycopg.sql.Literal(only)
            )
        )
        _end_sessions(connection)


def _end_sessions(connection: psycopg.Connection[Any]) -> None:
    """The pooler keeps its servers."""
    connection.execute(
        "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = %s",
        [_database()],
    )


def _of_a_login(pooled: Installation, change: str) -> None:
    """In this database alone: the logins of the server belong to all tests."""
    with psycopg.connect(pooled.postgres.superuser_conninfo(), autocommit=True) as connection:
        connection.execute(f"ALTER ROLE hitherto_write IN DATABASE {_database()} {change}".encode())
        _end_sessions(connection)


def _writer_read_only(pooled: Installation) -> None:
    _of_a_login(pooled, "SET default_transaction_read_only = on")


def _writer_serializable(pooled: Installation) -> None:
    _of_a_login(pooled, "RESET default_transaction_read_only")
    _of_a_login(pooled, "SET default_transaction_isolation = serializable")


async def test_what_is_wrong_behind_a_pooler_is_named(
    pooled: Installation, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, found, told = await examined(capsys)
    assert {name for name, each in found.items() if each.state != "ok"} == set(), told
    assert code == 0
    for breaking, remedy in (
        (_unnamed_pooler, "HITHERTO_POOLER=transaction"),
        (_wrong_way_past, "HITHERTO_DIRECT_DATABASE_URL"),
        (_writer_read_only, "hitherto_write have default_transaction_read_only = on"),
        (_writer_serializable, "hitherto_write have default_transaction_isolation"),
        (_read_only, "the primary"),
    ):
        with monkeypatch.context() as pooled.patch:
            breaking(pooled)
            code, found, _ = await examined(capsys)
        assert (code, found["database"].state) == (1, "fault"), remedy
        assert remedy in f"{found['database'].told} {found['database'].remedy}"


async def test_a_right_that_a_login_lost_is_named(
    installation: Installation, postgres: EmbeddedPostgres, capsys: pytest.CaptureFixture[str]
) -> None:
    with new_database(postgres) as made:
        installation.set(DATABASE_URL=made)
        with psycopg.connect(as_superuser(postgres, made), autocommit=True) as connection:
            for taken, named in (
                ("UPDATE ON hitherto.webhooks", "hitherto_maintenance has no UPDATE (dead), "),
                ("USAGE ON SCHEMA hitherto", "hitherto_maintenance has no USAGE on SCHEMA"),
            ):
                connection.execute(f"REVOKE {taken} FROM hitherto_maintenance".encode())
                code, found, _ = await examined(capsys)
                assert (code, found["roles"].state) == (1, "fault"), taken
                assert named in found["roles"].told
                assert "run `hitherto-migrate`" in found["roles"].remedy
                if "USAGE" not in taken:
                    # A newer migration may have revoked it.
                    connection.execute(
                        "INSERT INTO hitherto.schema_migrations VALUES ('9998_less', 'x')"
                    )
                    _, found, _ = await examined(capsys)
                    assert found["roles"].state == "ok"
