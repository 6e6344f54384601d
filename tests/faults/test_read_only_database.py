"""A database that takes no writes for a while, as during a failover (faults.md row 15)."""

from __future__ import annotations

import json
from collections import Counter

import psycopg
import pytest
from grpc_health.v1 import health_pb2
from psycopg import sql

from tests.faults.processes import Processes
from tests.waiting import eventually

pytestmark = pytest.mark.faults

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


def read_only(superuser_conninfo: str, *, on: bool) -> None:
    """Let the database take no writes, or take them again, in new sessions: there are only such."""
    with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = off")
        name = sql.Identifier(connection.info.dbname)
        connection.execute(
            sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = {}").format(
                name, sql.Literal("on" if on else "off")
            )
        )
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


async def test_health_and_the_log_say_so_in_few_lines_and_when_it_ends(
    shared: Processes, superuser_conninfo: str
) -> None:
    # Without the settings of a session, which a pooler drops, the database's own default holds.
    service = await shared.start("extraction", HITHERTO_POOLER="transaction")
    assert await service.health("writes") == SERVING
    read_only(superuser_conninfo, on=True)

    async def refused() -> bool:
        return await service.health("writes") == NOT_SERVING

    await eventually(refused, "health to say that writes are refused")
    assert await service.health("database") == SERVING
    # The process itself serves: what reads goes on, and a restart would cure nothing.
    assert await service.health() == SERVING

    def failed() -> int:
        lines = [json.loads(line) for line in service.said.splitlines()]
        claims = [line for line in lines if "cannot claim jobs" in line["message"]]
        return sum(1 + line.get("repeated", 0) for line in claims)

    await eventually(lambda: failed() > 12, "the claims of a dozen seconds to fail")
    read_only(superuser_conninfo, on=False)

    async def accepted() -> bool:
        return await service.health("writes") == SERVING

    await eventually(accepted, "health to say that writes are accepted")
    assert await service.end() == 0
    lines = [json.loads(line) for line in service.said.splitlines()]
    # What fails each second is not told each second, whichever loop it is, and the driver's.
    assert max(Counter(line["message"] for line in lines).values()) <= 4
    told = Counter(line["message"] for line in lines if line["level"] == "WARNING")
    assert told["the database accepts writes again"] == 1
    (said,) = [message for message in told if message.startswith("the database accepts no writes")]
    assert "let DATABASE_URL name the primary" in said
    assert told[said] == 1
