"""Reads under slow, failing and exhausted parts (D10; faults.md rows 16, 18 and 51)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import psutil
import psycopg
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from psycopg.conninfo import make_conninfo

from hitherto.v1 import retrieval_service_pb2, retrieval_service_pb2_grpc, search_pb2
from hitherto_retrieval import __main__ as retrieval
from hitherto_retrieval.config import RetrievalSettings
from hitherto_shared.database.embedded import EmbeddedPostgres
from hitherto_shared.database.migrate import migrate
from hitherto_shared.embeddings.offline import OfflineEmbedder
from hitherto_shared.rpc import call as time_of_a_call
from tests.e2e.conftest import Services, StartServices, model_settings
from tests.e2e.sessions import refusal_of
from tests.e2e.test_search import leg, search
from tests.integration.retrieval.seed import Fact, remember
from tests.scripted_model import ScriptedModel, text_vector
from tests.waiting import eventually

PATIENCE = 180.0
FACTS = [Fact("Ana lives in Porto"), Fact("Ana writes Python"), Fact("Ana drinks tea")]


@pytest.fixture(autouse=True)
def usual_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that other tests raise are what these are about."""
    monkeypatch.setattr(retrieval, "_POOL_WAIT_SECONDS", 1.0)
    monkeypatch.setattr(time_of_a_call, "CALL_SECONDS", 5.0)


@pytest.fixture
async def ana(superuser_conninfo: str) -> None:
    await remember(superuser_conninfo, "ana", FACTS, embedder=OfflineEmbedder())


async def code_of(call: Any) -> grpc.StatusCode:
    """How the call was refused."""
    return (await refusal_of(asyncio.wait_for(call, PATIENCE))).code


async def test_a_model_that_is_registered_later_is_used_and_another_is_not(
    start_services: StartServices, model: ScriptedModel
) -> None:
    """Contract, active embedding model: never mixed, and the missing leg says why."""
    async with start_services() as services:
        await remember(services.conninfo, "ana", FACTS, embedder=OfflineEmbedder())
        found = await search(services, "Porto")
        assert leg(found, "semantic").state == search_pb2.LEG_STATE_RAN
    async with start_services(model) as services:
        # Retrieval can make these vectors itself, whatever it is configured for.
        assert leg(await search(services, "tea"), "semantic").state == search_pb2.LEG_STATE_RAN
        assert model.calls["embeddings"] == 0


@asynccontextmanager
async def retrieval_alone(
    conninfo: str, folder: Path, **given: Any
) -> AsyncIterator[retrieval_service_pb2_grpc.RetrievalServiceAsyncStub]:
    """Retrieval without the service that registers the configured model when it starts."""
    settings = RetrievalSettings(
        retrieval_listen="127.0.0.1:0",
        database_url=conninfo,
        data_dir=folder,
        auth="off",
        drain_seconds=5.0,
        **given,
    )
    async with (
        retrieval.running(settings, conninfo) as server,
        grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        yield retrieval_service_pb2_grpc.RetrievalServiceStub(channel)


def embedded_with(model: tuple[str, int]) -> list[Fact]:
    return [replace(fact, vector=text_vector(fact.content, model[1])) for fact in FACTS]


@pytest.mark.parametrize(
    ("active", "state"),
    [
        (("text-embedding-3-small", 64), search_pb2.LEG_STATE_RAN),
        # Another size of a model that the API has: the service follows.
        (("text-embedding-3-small", 128), search_pb2.LEG_STATE_RAN),
        (("onnx:another-model", 64), search_pb2.LEG_STATE_SKIPPED),
    ],
)
async def test_retrieval_that_began_before_the_first_model(
    active: tuple[str, int],
    state: int,
    conninfo: str,
    superuser_conninfo: str,
    model: ScriptedModel,
    tmp_path: Path,
) -> None:
    async with retrieval_alone(conninfo, tmp_path, **model_settings(model)) as stub:
        request = retrieval_service_pb2.SearchMemoriesRequest(user_id="ana", query="Porto")
        assert not (await stub.SearchMemories(request)).results
        await remember(superuser_conninfo, "ana", embedded_with(active), model=active)
        found = await stub.SearchMemories(request)
        assert leg(found, "semantic").state == state
        if state == search_pb2.LEG_STATE_SKIPPED:
            assert active[0] in leg(found, "semantic").reason
        assert found.results[0].memory.content == "Ana lives in Porto"
        assert not found.degraded
        # The caller's own vector of the active model needs no embedder.
        own = await stub.SearchMemories(
            retrieval_service_pb2.SearchMemoriesRequest(
                user_id="ana", query_embedding=[1.0] * active[1]
            )
        )
        assert leg(own, "semantic").state == search_pb2.LEG_STATE_RAN
        assert leg(own, "semantic").candidates == len(FACTS)


async def test_a_full_pool_is_told_at_once_while_health_answers(
    start_services: StartServices, ana: None
) -> None:
    """faults.md row 18, and row 51: a slot is free again when its caller goes."""
    async with start_services(read_pool_size=1) as services:
        health: Any = health_pb2_grpc.HealthStub(services.retrieval_channel)
        blocker = await psycopg.AsyncConnection.connect(services.conninfo)
        async with blocker:
            await blocker.execute("LOCK TABLE memories IN ACCESS EXCLUSIVE MODE")
            first = asyncio.ensure_future(search(services, "Porto"))

            async def waiting() -> bool:
                cursor = await blocker.execute(
                    "SELECT count(*) FROM pg_locks WHERE NOT granted"
                    " AND relation = 'memories'::regclass"
                )
                return await cursor.fetchone() == (1,)

            await eventually(waiting, "the first search at the lock")

            async def told_busy() -> bool:
                # On a slow machine the first may have given up meanwhile.
                nonlocal first
                if first.done():
                    first.exception()
                    first = asyncio.ensure_future(search(services, "Porto"))
                    await eventually(waiting, "another search at the lock")
                code = await code_of(search(services, "Porto"))
                return code == grpc.StatusCode.RESOURCE_EXHAUSTED

            await eventually(told_busy, "the refusal of the second search")
            answer = await health.Check(health_pb2.HealthCheckRequest())
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
            first.cancel()

            async def nobody_waits() -> bool:
                return not await waiting()

            await eventually(nobody_waits, "the end of the cancelled search")
            await blocker.rollback()
        assert len((await search(services, "Porto")).results) == 3


async def test_a_lock_is_waited_for_no_longer_than_the_deadline(
    services: Services, ana: None, superuser_conninfo: str
) -> None:
    async with await psycopg.AsyncConnection.connect(superuser_conninfo) as blocker:
        await blocker.execute("LOCK TABLE memories IN ACCESS EXCLUSIVE MODE")
        for call in (
            services.retrieval.GetContext(
                retrieval_service_pb2.GetContextRequest(user_id="ana"), timeout=0.3
            ),
            services.retrieval.ListMemories(
                retrieval_service_pb2.ListMemoriesRequest(user_id="ana")
            ),
        ):
            assert await code_of(call) == grpc.StatusCode.DEADLINE_EXCEEDED
        await blocker.rollback()
    assert len((await search(services, "Porto")).results) == 3


class Frozen:
    """A Postgres of this test's own that can be stopped in its tracks."""

    def __init__(self, server: EmbeddedPostgres) -> None:
        self.server = server
        self._stopped: list[psutil.Process] = []

    def freeze(self) -> None:
        assert self.server.pid is not None
        postmaster = psutil.Process(self.server.pid)
        # The postmaster first, so that it makes no child that is missed.
        for process in (postmaster, *postmaster.children(recursive=True)):
            process.suspend()
            self._stopped.append(process)

    def thaw(self) -> None:
        while self._stopped:
            self._stopped.pop().resume()


@pytest.fixture
def private_postgres(place: Path) -> Iterator[Frozen]:
    with EmbeddedPostgres.acquire(place / "data", supervise=False) as server:
        migrate(server.conninfo())
        frozen = Frozen(server)
        try:
            yield frozen
        finally:
            frozen.thaw()


async def test_a_frozen_postgres_holds_nobody_past_the_deadline(
    private_postgres: Frozen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """faults.md row 16: statement_timeout and keepalives do nothing here. Then it stops."""
    server = private_postgres.server
    admin = make_conninfo(
        server.superuser_conninfo("hitherto"), options="-c search_path=hitherto,public"
    )
    await remember(admin, "ana", FACTS, embedder=OfflineEmbedder())
    request = retrieval_service_pb2.GetContextRequest(user_id="ana", query="Porto")
    async with retrieval_alone(server.conninfo(), tmp_path) as stub:
        assert "Porto" in (await stub.GetContext(request)).prompt_block
        private_postgres.freeze()
        monkeypatch.setattr(time_of_a_call, "CALL_SECONDS", 2.0)
        # Without a deadline of the caller's it is the service that ends the call.
        calls = [stub.GetContext(request) for _ in range(3)]
        late = stub.GetContext(request, timeout=0.3)
        for call in (*calls, late):
            assert await code_of(call) == grpc.StatusCode.DEADLINE_EXCEEDED
        for call in calls:
            assert "database" in (await call.details() or "")
        monkeypatch.setattr(time_of_a_call, "CALL_SECONDS", 5.0)
        private_postgres.thaw()

        async def answered() -> bool:
            try:
                return "Porto" in (await stub.GetContext(request)).prompt_block
            except grpc.aio.AioRpcError:
                return False

        await eventually(answered, "an answer after the thaw")
        server.release()
        assert await code_of(stub.GetContext(request)) == grpc.StatusCode.UNAVAILABLE
