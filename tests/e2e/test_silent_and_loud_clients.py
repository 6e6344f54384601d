"""Clients that leave, say nothing, ping or send too much (faults.md rows 51 to 54)."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Any

import grpc
import psycopg
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from hitherto.v1 import retrieval_service_pb2 as pb
from hitherto.v1 import retrieval_service_pb2_grpc as rpc
from hitherto_shared.embeddings.offline import OfflineEmbedder
from tests.e2e.conftest import Services, Shared, StartServices
from tests.e2e.sessions import refusal_of
from tests.e2e.test_deadlines import FACTS
from tests.integration.retrieval.seed import remember
from tests.waiting import eventually

SILENT = 400
CHANNELS = 50
CONTEXT = pb.GetContextRequest(user_id="ana")
SEARCH = pb.SearchMemoriesRequest(user_id="ana", query="Porto")


def apart(services: Services, *options: tuple[str, int]) -> grpc.aio.Channel:
    """A channel that shares its connection with no other."""
    return grpc.aio.insecure_channel(
        services.retrieval_address, options=[("grpc.use_local_subchannel_pool", 1), *options]
    )


@pytest.mark.parametrize("request_", [SEARCH, CONTEXT], ids=["SearchMemories", "GetContext"])
async def test_row_51_a_caller_who_leaves_leaves_nothing_at_the_database(
    services: Services, shared: Shared, request_: Any
) -> None:
    await remember(services.conninfo, "ana", FACTS, embedder=OfflineEmbedder())
    # What other logins do is for a superuser to see.
    superuser = shared.superuser_conninfo
    search = isinstance(request_, pb.SearchMemoriesRequest)
    method: Any = services.retrieval.SearchMemories if search else services.retrieval.GetContext
    await method(request_)
    async with (
        await psycopg.AsyncConnection.connect(services.conninfo) as blocker,
        await psycopg.AsyncConnection.connect(superuser, autocommit=True) as observer,
    ):
        await blocker.execute("LOCK TABLE users, memories IN ACCESS EXCLUSIVE MODE")

        async def busy() -> int:
            cursor = await observer.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                " AND application_name = 'hitherto-retrieval' AND state <> 'idle'"
            )
            row = await cursor.fetchone()
            assert row is not None
            return int(row[0])

        call = asyncio.ensure_future(method(request_, timeout=120))

        async def waits() -> bool:
            return await busy() > 0

        await eventually(waits, "the query at the lock")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        refusal = await refusal_of(method(request_, timeout=0.05))
        assert refusal.code == grpc.StatusCode.DEADLINE_EXCEEDED

        async def nothing_left() -> bool:
            return await busy() == 0

        # While the lock is still held: nobody merely got what they waited for.
        await eventually(nothing_left, "the end of the query")
        await blocker.rollback()
    await method(request_)


@pytest.mark.usefixtures("conninfo")
async def test_row_52_silent_connections_are_in_nobodys_way(services: Services) -> None:
    host, _, port = services.retrieval_address.rpartition(":")
    silent = [await asyncio.open_connection(host, int(port)) for _ in range(SILENT)]
    with ExitStack() as stack:
        for _, writer in silent:
            stack.callback(writer.transport.abort)
        channels = [apart(services) for _ in range(CHANNELS)]
        try:
            replies = await asyncio.gather(
                *(rpc.RetrievalServiceStub(channel).GetContext(CONTEXT) for channel in channels)
            )
            assert len(replies) == CHANNELS
        finally:
            await asyncio.gather(*(channel.close() for channel in channels))
        await services.retrieval.GetContext(CONTEXT)
    await services.retrieval.GetContext(CONTEXT)


@pytest.mark.usefixtures("conninfo")
async def test_row_53_a_client_may_ping_every_second(services: Services) -> None:
    """A server with gRPC's defaults ends the connection at the fourth ping or so."""
    async with apart(
        services,
        ("grpc.keepalive_time_ms", 1_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    ) as channel:
        health: Any = health_pb2_grpc.HealthStub(channel)
        watch = health.Watch(health_pb2.HealthCheckRequest())
        first = await watch.read()
        assert first.status == health_pb2.HealthCheckResponse.SERVING
        ended = asyncio.ensure_future(watch.read())
        # What is tried here is that nothing happens, for as long as several pings take.
        done, _ = await asyncio.wait({ended}, timeout=8)
        assert not done, done
        await rpc.RetrievalServiceStub(channel).GetContext(CONTEXT)
        watch.cancel()
        await asyncio.gather(ended, return_exceptions=True)


async def test_bounds_beyond_what_grpc_can_count_are_its_longest(
    start_services: StartServices,
) -> None:
    """The services start, where milliseconds of so many seconds are no number any more."""
    endless = dict.fromkeys(
        (
            "keepalive_seconds",
            "handshake_seconds",
            "max_connection_age_seconds",
            "max_connection_grace_seconds",
            "max_connection_idle_seconds",
        ),
        1e308,
    )
    async with start_services(**endless) as services:
        await services.retrieval.GetContext(CONTEXT)
