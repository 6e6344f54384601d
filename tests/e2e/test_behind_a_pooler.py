"""Both services through a real PgBouncer that lends servers for one transaction (I5)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc
import psycopg
import pytest
from psycopg import sql

from hitherto.v1 import job_pb2, retrieval_service_pb2
from hitherto_shared.database.embedded import EmbeddedPostgres
from tests.conftest import as_superuser, new_database
from tests.e2e import privacy
from tests.e2e.conftest import Services, both_services
from tests.e2e.learning import ended, learn, memories, submit, talk
from tests.e2e.leaving import erase, export
from tests.e2e.sessions import refusal_of
from tests.pgbouncer import PgBouncer
from tests.tenants import Tenant, token_settings

pytestmark = pytest.mark.faults

_SECONDS = 120.0
_AGAIN = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
)


@dataclass(frozen=True)
class Pooled:
    """Services and the pooler that they go through."""

    services: Services
    pooler: PgBouncer


@pytest.fixture(scope="module", params=["listening", "polling"])
async def pooled(
    request: pytest.FixtureRequest,
    postgres: EmbeddedPostgres,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Pooled]:
    """With and without a direct connection for signals; two servers for each login."""
    folder = tmp_path_factory.mktemp("pooled")
    with new_database(postgres) as conninfo, PgBouncer(postgres, conninfo) as pooler:
        name = str(psycopg.conninfo.conninfo_to_dict(conninfo)["dbname"])
        with psycopg.connect(as_superuser(postgres, conninfo), autocommit=True) as connection:
            for setting in ("timezone = 'Asia/Ho_Chi_Minh'", "search_path = pg_catalog"):
                connection.execute(
                    sql.SQL("ALTER DATABASE {} SET {}").format(
                        sql.Identifier(name), sql.SQL(setting)
                    )
                )
        async with both_services(
            pooler.conninfo,
            folder / "data",
            pooler="transaction",
            # A claim whose answer was lost with the pooler ends with its lease.
            lease_seconds=5.0,
            direct_database_url=conninfo if request.param == "listening" else None,
            **token_settings(folder),
        ) as running:
            yield Pooled(running, pooler)


@pytest.fixture
def services(pooled: Pooled, tenant: Tenant) -> Services:
    return pooled.services.as_tenant(tenant)


Answer = TypeVar("Answer")


async def insist(ask: Callable[..., Awaitable[Answer]], *given: Any, **named: Any) -> Answer:
    """The answer, asking again while the database is away or has no free server."""
    async with asyncio.timeout(_SECONDS):
        while True:
            try:
                return await ask(*given, **named)
            except grpc.aio.AioRpcError as error:
                if error.code() not in _AGAIN:
                    raise
                await asyncio.sleep(0.1)


async def test_learnt_found_exported_and_erased(services: Services) -> None:
    await learn(services, talk("My name is Ana.", "I live in Hanoi.", "I play the oboe."))
    for told in (
        await memories(services),
        await privacy.search(services, "Where does the user live?"),
        await privacy.context(services, "Where does the user live?"),
    ):
        assert "Hanoi" in str(told)
    gone = await export(services)
    assert "Hanoi" in str(gone.rows)
    await erase(services)
    assert not await memories(services)
    refusal = await refusal_of(submit(services, talk("I live in Hanoi.")))
    assert refusal.code == grpc.StatusCode.FAILED_PRECONDITION


async def test_a_pooler_that_dies_takes_nothing_along(pooled: Pooled, services: Services) -> None:
    """What was accepted is learnt once the pooler is back."""
    ids = await submit(
        services, *(talk(f"I own {number} cats.", user=f"u{number}") for number in range(6))
    )
    pooled.pooler.kill()
    refusal = await refusal_of(
        services.retrieval.ListMemories(
            retrieval_service_pb2.ListMemoriesRequest(user_id="u1"), timeout=10
        )
    )
    assert refusal.code in _AGAIN
    await asyncio.to_thread(pooled.pooler.start)
    for number, job in enumerate(ids):
        state = (await insist(ended, services, job)).state
        assert state == job_pb2.JOB_STATE_SUCCEEDED
        listed = await insist(memories, services, user=f"u{number}")
        assert len(listed) == 1
