"""A service that cannot run like this says so in one line, and what to do about it."""

from __future__ import annotations

import socket

import psycopg
import pytest
from psycopg import sql

from hitherto_shared.database.embedded import EmbeddedPostgres
from hitherto_shared.database.migrate import schema_state
from hitherto_shared.encryption.key_store import KeyStore
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.encryption.wrapping import LocalWrapper
from tests.faults.processes import Name, Processes, Service

NAMES: list[Name] = ["extraction", "retrieval"]


def complaint(service: Service) -> str:
    """The one line that is not a log entry."""
    assert "Traceback" not in service.said
    lines = [line for line in service.said.splitlines() if not line.startswith("{")]
    assert len(lines) == 1, service.said
    assert lines[0].startswith(f"hitherto-{service.name}: ")
    return lines[0]


async def test_a_database_without_migrations_and_hitherto_migrate(
    shared: Processes, postgres: EmbeddedPostgres, empty_database: str
) -> None:
    conninfo = postgres.conninfo(empty_database)
    refused = shared.launch("retrieval", DATABASE_URL=conninfo)
    assert await refused.ended() == 1
    assert "hitherto-migrate" in complaint(refused)

    admin = postgres.superuser_conninfo(empty_database)
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector SCHEMA public")
        connection.execute(
            sql.SQL("ALTER DATABASE {} OWNER TO hitherto_owner").format(
                sql.Identifier(empty_database)
            )
        )
    service = await shared.start("extraction", DATABASE_URL=conninfo, HITHERTO_MIGRATE="1")
    assert schema_state(f"{admin} options='-c search_path=hitherto,public'").pending == ()
    assert await service.end() == 0


async def test_a_schema_that_is_newer(shared: Processes, superuser_conninfo: str) -> None:
    """A version that was rolled back serves, unless a migration excludes it."""
    with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
        connection.execute("INSERT INTO schema_migrations VALUES ('9998_more', 'x')")
        # It may have revoked what this version granted.
        connection.execute("REVOKE INSERT ON query_usage FROM hitherto_read")
        service = await shared.start("retrieval")
        assert "newer than this version" in service.said
        assert "has no INSERT" not in service.said
        assert await service.end() == 0
        connection.execute(
            "INSERT INTO schema_migrations VALUES ('9999_less', 'x', DEFAULT, '9998')"
        )
    service = shared.launch("retrieval")
    assert await service.ended() == 1
    assert "exclude this version (9999_less)" in complaint(service)


async def test_a_login_that_lost_a_right(shared: Processes, superuser_conninfo: str) -> None:
    """A service that can do the rest serves and says so; one that can do nothing ends."""
    with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
        connection.execute("REVOKE INSERT ON query_usage FROM hitherto_read")
        # As after a restore with --no-owner: only a later migration fails.
        connection.execute("ALTER TABLE memories OWNER TO CURRENT_USER")
        service = await shared.start("retrieval")
        assert "belongs to postgres, not to hitherto_owner" in service.said
        assert "hitherto_read has no INSERT on hitherto.query_usage" in service.said
        assert "hitherto-migrate" in service.said
        assert await service.end() == 0
        connection.execute("REVOKE USAGE ON SCHEMA hitherto FROM hitherto_maintenance")
    service = shared.launch("extraction")
    assert await service.ended() == 1
    assert "hitherto_maintenance has no USAGE on SCHEMA hitherto" in complaint(service)
    assert "hitherto-migrate" in complaint(service)


async def test_a_port_that_is_taken(shared: Processes) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        service = shared.launch("extraction", port=port)
        assert await service.ended() == 1
    assert f"127.0.0.1:{port}" in complaint(service)


@pytest.mark.parametrize("name", NAMES)
async def test_values_that_make_no_sense(shared: Processes, name: Name) -> None:
    spoilt = {
        "HITHERTO_MAX_CONCURRENT_RPCS": "many-hush-hush",
        "EMBEDDING_DIMENSIONS": "hush-hush",
        "HITHERTO_AUTH": "hush-hush",
        "HITHERTO_DRAIN_SECONDS": "-5",
    }
    service = shared.launch(name, port=0, **spoilt)
    assert await service.ended() == 2
    told = complaint(service)
    assert [variable for variable in spoilt if f"{variable}: " not in told] == []
    assert "hush-hush" not in service.said


async def test_h3_another_key_encryption_key_and_none(shared: Processes) -> None:
    """They serve, and say so at their start; `test_backup.py` starts them with the right one."""
    store = KeyStore(shared.data_dir / "user-keys")
    await UserKeys(LocalWrapper(b"o" * 32), store, b"h" * 32).make("default", "ana")
    wrong, none = await shared.start_both({"HITHERTO_ENCRYPTION_KEY": "ab" * 32})
    assert wrong.said.count("wrapped with another key-encryption key") == 1
    assert "hitherto-keys rewrap" in wrong.said
    assert "no key-encryption key is set" in none.said
