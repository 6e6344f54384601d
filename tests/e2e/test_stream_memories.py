"""StreamMemories: bulk import by hand, each statement by itself (B1, G1); faults.md rows 36, 48."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import grpc
import pytest

from hitherto.v1 import memory_service_pb2 as pb
from tests.e2e.conftest import Services
from tests.e2e.curating import checks, statement, stream
from tests.e2e.learning import memories, rows
from tests.e2e.methods import METHODS
from tests.scripted_model import StatusFault


async def test_many_statements_are_saved_in_order(services: Services) -> None:
    """Three times what is read ahead, of several users; what is to hold later is not checked, so
    that this is about the stream alone."""
    count = 101
    later = datetime.now(UTC) + timedelta(days=1)
    reply = await stream(
        services,
        (
            statement(
                f"Fact number {n} of the list",
                user=f"user{n % 3}",
                metadata={"n": n},
                valid_from=later,
            )
            for n in range(count)
        ),
    )
    assert (reply.saved_count, reply.rejected_count, len(reply.errors)) == (count, 0, 0)
    assert reply.deduplicated_count == 0
    assert len(set(reply.memory_ids)) == count
    assert reply.consistency_token
    kept = {
        str(row[0]): int(row[1])
        for row in rows(services.conninfo, "SELECT memory_id, metadata -> 'n' FROM memories")
    }
    assert [kept[memory_id] for memory_id in reply.memory_ids] == list(range(count))


async def test_a_refused_one_is_told_and_the_others_are_saved(services: Services) -> None:
    bad = statement("x" * 8193, user="")
    reply = await stream(
        services,
        [
            statement("Ana likes tea"),
            bad,
            pb.SaveMemoryRequest(),
            statement("Ana likes figs", idempotency_key="k"),
            statement("Ana likes nuts", idempotency_key="k"),
            statement("a\x00b"),
            statement("Ana likes tea", metadata={"a": 1}),
            statement("Ana likes figs", idempotency_key="k"),
        ],
    )
    assert (reply.saved_count, reply.deduplicated_count, reply.rejected_count) == (4, 1, 4)
    assert len(reply.memory_ids) == 4
    assert reply.memory_ids[0] == reply.memory_ids[2]
    assert reply.memory_ids[1] == reply.memory_ids[3]
    told = {error.index: error for error in reply.errors}
    assert set(told) == {1, 2, 4, 5}
    assert {v.field for v in told[1].field_violations} == {"item.user_id", "item.content"}
    assert {v.field for v in told[2].field_violations} == {"item.user_id", "item.content"}
    assert (told[4].code, told[4].reason) == (
        grpc.StatusCode.ALREADY_EXISTS.value[0],
        "IDEMPOTENCY_KEY_REUSED",
    )
    assert [v.field for v in told[5].field_violations] == ["item.content"]
    assert {m.content for m in await memories(services)} == {"Ana likes tea", "Ana likes figs"}


async def test_only_a_thousand_refusals_are_told(services: Services) -> None:
    requests = [statement("", user="ana") for _ in range(1_100)]
    reply = await stream(services, [*requests, statement("Ana likes tea")])
    assert (reply.saved_count, reply.rejected_count, len(reply.errors)) == (1, 1_100, 1_000)
    assert [error.index for error in reply.errors] == list(range(1_000))


async def test_texts_are_embedded_many_at_a_time_and_all_again_changes_nothing(
    modelled: Services,
) -> None:
    requests = [statement(f"Fact number {n} of the list") for n in range(100)]
    first = await stream(modelled, requests)
    assert modelled.model.calls["embeddings"] <= 20
    states = rows(modelled.conninfo, "SELECT DISTINCT embedding_state FROM memories")
    assert states == [("stored",)]
    await checks(modelled)
    table = "SELECT memory_id, version, content, updated_at, importance FROM memories ORDER BY 1"
    before = rows(modelled.conninfo, table)
    again = await stream(modelled, requests)
    assert (again.saved_count, again.deduplicated_count) == (100, 100)
    assert list(again.memory_ids) == list(first.memory_ids)
    assert rows(modelled.conninfo, table) == before
    # Row 32: without an embedder all are saved.
    modelled.model.always(StatusFault(503), endpoint="embeddings")
    reply = await stream(modelled, [statement(f"Ana likes tea {n}") for n in range(10)])
    assert (reply.saved_count, reply.rejected_count) == (10, 0)


async def test_a_stream_that_breaks_off_keeps_what_was_saved(services: Services) -> None:
    going = services.memory.StreamMemories()
    for n in range(4):
        await going.write(pb.StreamMemoriesRequest(item=statement(f"Fact number {n} of the list")))
    # What has come does not wait for the end of the stream.
    async with asyncio.timeout(180):
        while len(await memories(services)) < 4:  # noqa: ASYNC110 - nothing tells of a row
            await asyncio.sleep(0.01)
    going.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going
    assert [m.content for m in await memories(services)] == [
        f"Fact number {n} of the list" for n in range(4)
    ]
    assert rows(services.conninfo, "SELECT count(*) FROM history") == [(4,)]


async def test_row_44_an_item_that_is_no_message_ends_the_stream_after_the_others(
    services: Services,
) -> None:
    async def sent() -> AsyncIterator[bytes]:
        for n in range(3):
            item = pb.StreamMemoriesRequest(item=statement(f"Fact number {n} of the list"))
            yield item.SerializeToString()
        yield b"\xff\xff\xff"
        # It is told while much more is on its way.
        for _ in range(30):
            yield pb.StreamMemoriesRequest(item=statement("x" * 2**21)).SerializeToString()

    call = services.extraction_channel.stream_unary(
        METHODS["MemoryService/StreamMemories"].path,
        request_serializer=lambda given: given,
        response_deserializer=pb.StreamMemoriesResponse.FromString,
    )
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call(sent())
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "what was stored stays" in (refused.value.details() or "")
    assert len(await memories(services)) == 3
