"""A service that cannot run like this says so in one line, and what to do about it."""

from __future__ import annotations

import socket

import psycopg
import pytest
from psycopg import sql

from hitherto_shared.database.embedded import EmbeddedPostgres
from hitherto_shared.database.migrate import schema_state
from tests.faults.processes import Name, Processes, Service

NAMES: list[Name] = ["extraction", "retrieval"]


def complaint(service: Service) -> str:
    """The one line that is not a log entry."""
    assert "Traceback" not in service.said
    lines = [line for line in service.said.splitlines() if not line.startswith("{")]
    assert len(lines) == 1, service.said
    assert lines[0].startswith(f"hitherto-{service.name}: ")
    return lines[0]


@pytest.mark.parametrize("name", NAMES)
async def test_a_database_without_migrations(
    shared: Processes, postgres: EmbeddedPostgres, empty_database: str, name: Name
) -> None:
    service = shared.launch(name, DATABASE_URL=postgres.conninfo(empty_database))
    assert await service.ended() == 1
    assert "hitherto-migrate" in complaint(service)


@pytest.mark.parametrize("name", NAMES)
async def test_hitherto_migrate_migrates(
    shared: Processes, postgres: EmbeddedPostgres, empty_database: str, name: Name
) -> None:
    admin = postgres.superuser_conninfo(empty_database)
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector SCHEMA public")
        connection.execute(
            sql.SQL("ALTER DATABASE {} OWNER TO hitherto_owner").format(
                sql.Identifier(empty_database)
            )
        )
    conninfo = postgres.conninfo(empty_database)
    service = await shared.start(name, DATABASE_URL=conninfo, HITHERTO_MIGRATE="1")
    assert schema_state(f"{admin} options='-c search_path=hitherto,public'").pending == ()
    assert await service.end() == 0


@pytest.mark.parametrize("name", NAMES)
async def test_a_schema_that_is_newer(
    shared: Processes, superuser_conninfo: str, name: Name
) -> None:
    """A version that was rolled back serves, unless a migration excludes it."""
    with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
        connection.execute("INSERT INTO schema_migrations VALUES ('9998_more', 'x')")
        service = await shared.start(name)
        assert "newer than this version" in service.said
        assert await service.end() == 0
        connection.execute(
            "INSERT INTO schema_migrations VALUES ('9999_less', 'x', DEFAULT, '9998')"
        )
    service = shared.launch(name)
    assert await service.ended() == 1
    assert "exclude this version (9999_less)" in complaint(service)


@pytest.mark.parametrize("name", NAMES)
async def test_a_port_that_is_taken(shared: Processes, name: Name) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        service = shared.launch(name, port=port)
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
