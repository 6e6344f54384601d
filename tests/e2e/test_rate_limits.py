"""Rates of tenants and people: what is refused, how, and that others do not notice (I3)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import grpc
import pytest

from hitherto.v1 import conversation_pb2, memory_pb2
from hitherto.v1 import extraction_service_pb2 as extraction
from hitherto.v1 import memory_service_pb2 as memory
from hitherto.v1 import retrieval_service_pb2 as retrieval
from hitherto_client import Hitherto
from hitherto_client.errors import HithertoCallError, read_error
from hitherto_shared.rpc.rates import BURST_SECONDS
from tests.e2e.conftest import Services, StartServices
from tests.e2e.credentials import bearer, key

A_BURST = int(0.5 * BURST_SECONDS)
"""Calls that pass at once at one call in two seconds."""


async def refusal(call: Callable[[], Any]) -> HithertoCallError:
    """The refusal, at the latest after the few calls for which a slow machine makes room."""

    async def again() -> None:
        for _ in range(100):
            await call()

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await again()
    error = read_error(caught.value)
    assert (error.code.name, error.reason) == ("RESOURCE_EXHAUSTED", "RATE_LIMITED")
    return error


def reading(services: Services, user: str, **given: Any) -> Any:
    return services.retrieval.GetContext(retrieval.GetContextRequest(user_id=user), **given)


def saving(services: Services, user: str, content: str = "Some words.", **given: Any) -> Any:
    request = memory.SaveMemoryRequest(user_id=user, content=content)
    return services.memory.SaveMemory(request, **given)


def talk(user: str, words: str) -> conversation_pb2.Transcript:
    return conversation_pb2.Transcript(
        user_id=user,
        conversation_id="c",
        messages=[conversation_pb2.Message(role=conversation_pb2.ROLE_USER, content=words)],
    )


async def test_a_person_who_reads_too_often_and_one_who_sends_too_much(
    start_services: StartServices,
) -> None:
    limits = {
        "user_reads_per_second": 0.5,
        "user_read_bytes_per_second": 1_000,
        "user_write_bytes_per_second": 1_000,
    }
    async with start_services(**limits) as services:
        for _ in range(A_BURST):
            await reading(services, "ana")
        error = await refusal(lambda: reading(services, "ana"))
        assert error.metadata == {"limit": "user_reads_per_second", "limit_per_second": "0.5"}
        assert error.retry_after is not None
        assert 0 < error.retry_after <= 2
        refused_at = time.monotonic()

        def come_back() -> None:
            with Hitherto(services.retrieval_address, services.extraction_address) as client:
                client.get_context("ana", timeout=120)

        await asyncio.to_thread(come_back)
        assert time.monotonic() - refused_at > 0.9 * error.retry_after
        # Neither what the same person writes nor what others read.
        await saving(services, "ana")
        await reading(services, "bo")

        # A request may overdraw what there is; the next one pays for it.
        batch = extraction.SubmitTranscriptsRequest(transcripts=[talk("cleo", "word " * 4_000)])
        await services.extraction.SubmitTranscripts(batch)
        error = await refusal(lambda: services.extraction.SubmitTranscripts(batch))
        assert error.metadata["limit"] == "user_write_bytes_per_second"
        await saving(services, "dora")

        # A reply counts as well.
        await saving(services, "eve", "Eve owns boats. " * 500)
        error = await refusal(lambda: reading(services, "eve"))
        assert error.metadata["limit"] == "user_read_bytes_per_second"


async def test_a_tenant_that_writes_too_often(start_services: StartServices, conninfo: str) -> None:
    async with start_services(auth="api-key", tenant_writes_per_second=0.5) as services:
        busy, other = bearer(await key(conninfo, "a")), bearer(await key(conninfo, "b"))
        for number in range(A_BURST):
            await saving(services, f"user-{number}", metadata=busy)
        error = await refusal(lambda: saving(services, "one-more", metadata=busy))
        assert error.metadata["limit"] == "tenant_writes_per_second"
        await reading(services, "one-more", metadata=busy)
        await saving(services, "one-more", metadata=other)
        # Refused on its metadata: the body is not waited for.
        channel: Any = services.extraction_channel
        stream = channel.stream_unary("/hitherto.v1.MemoryService/SaveMemory")(metadata=busy)
        async with asyncio.timeout(180):
            assert await stream.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_items_of_a_stream_wait_for_their_turn(start_services: StartServices) -> None:
    async with start_services(user_writes_per_second=10) as services:
        started = time.monotonic()
        reply = await services.memory.StreamMemories(
            iter(
                memory.StreamMemoriesRequest(
                    item=memory.SaveMemoryRequest(
                        user_id="ana",
                        content=f"The user owns {number} bicycles.",
                        type=memory_pb2.MEMORY_TYPE_FACT,
                    )
                )
                for number in range(130)
            )
        )
        assert (reply.saved_count + reply.deduplicated_count, reply.rejected_count) == (130, 0)
        # Thirty more than a burst, at ten a second.
        assert time.monotonic() - started > 2.5
