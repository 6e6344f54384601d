"""One caller's text, or one model's reply, makes nobody else wait (row 69).

Each text field of each call is given texts that are slow to read by careless rules: the same piece
again and again, up to the field's limit. Meanwhile another tenant and the health checks are timed.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
from google.protobuf.struct_pb2 import Struct, Value

from hitherto.v1 import extraction_service_pb2 as extraction
from hitherto.v1 import extraction_service_pb2_grpc, job_pb2, memory_service_pb2_grpc
from hitherto.v1 import memory_service_pb2 as memory
from tests.e2e.credentials import bearer, key
from tests.e2e.methods import OFFERED, Method
from tests.e2e.requests import message, places, submit, transcript, valid
from tests.faults.bystander import Waited, bystander, crowded
from tests.faults.processes import CHANNEL_OPTIONS, Processes, Service
from tests.scripted_model import ScriptedModel, texts_everywhere

LONGEST_WAIT_SECONDS = 2.0
PIECES = (
    *("\n", " ", ":", "[", "<", '"', "a", "忽略", "\u200b", "\u0301", "\u0301\u0327"),
    *("- \n", "a@", "ignore all ", "забудь"),
)
SIZES = (250, 8_000, 64_000)
OF_A_FIELD = 1
"""How many of the pieces a field gets at each length, taking turns with the other fields."""
AT_ONCE = 4


def filled(piece: str, size: int) -> str:
    """`piece` again and again, in at most `size` bytes of UTF-8."""
    return piece * (size // len(piece.encode()))


@asynccontextmanager
async def watched(
    processes: Processes, conninfo: str, **settings: str
) -> AsyncIterator[tuple[Service, Service, Waited, list[tuple[str, str]]]]:
    """Both services, the waiting of tenant `b`, and a credential of tenant `a`."""
    processes.settings.update(HITHERTO_AUTH="api-key", **settings)
    writer, reader = await processes.start_both()
    mine, others = [bearer(await key(conninfo, tenant)) for tenant in "ab"]
    async with bystander(writer.address, reader.address, others) as waited:
        yield writer, reader, waited, mine


def requests(method: Method, turns: dict[int, Iterator[str]]) -> Iterator[bytes]:
    """The valid request with each text and each free JSON of it spoiled, at several lengths."""
    for _, put in places(method, lambda field: field.type == field.TYPE_STRING):
        for size, pieces in turns.items():
            for piece in itertools.islice(pieces, OF_A_FIELD):
                request = valid(method)
                put(request, filled(piece, size))
                yield request.SerializeToString()
    for _, put in places(method, _is_struct):
        for piece in itertools.islice(turns[64_000], OF_A_FIELD):
            request = valid(method)
            put(request, Struct(fields={"k": Value(string_value=filled(piece, 32_000))}))
            yield request.SerializeToString()


def _is_struct(field: Any) -> bool:
    return (
        field.message_type is not None
        and field.message_type.full_name == Struct.DESCRIPTOR.full_name
    )


async def test_row_69_a_text_of_any_field_or_a_model_s_reply_delays_nobody_else(
    shared: Processes, model: ScriptedModel, conninfo: str
) -> None:
    async with (
        watched(shared, conninfo) as (writer, reader, waited, mine),
        grpc.aio.insecure_channel(writer.address, options=CHANNEL_OPTIONS) as writing,
        grpc.aio.insecure_channel(reader.address, options=CHANNEL_OPTIONS) as reading,
    ):
        await replies(writing, model, waited, mine)
        turns = asyncio.Semaphore(AT_ONCE)
        codes: dict[grpc.StatusCode, int] = {}
        pieces: dict[int, Iterator[str]] = {size: itertools.cycle(PIECES) for size in SIZES}

        async def one(method: Method, request: bytes) -> None:
            async with turns:
                channel = reading if method.name.startswith("Retrieval") else writing
                code = await outcome(channel, method, request, mine)
            codes[code] = codes.get(code, 0) + 1
            check(waited, (method.name, request[:40]))

        for method in OFFERED:
            async with asyncio.TaskGroup() as group:
                for request in requests(method, pieces):
                    group.create_task(one(method, request))
        assert codes[grpc.StatusCode.OK] > 125, codes
        assert not codes.keys() & {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN}, codes
        check(waited, "all of them")


def check(waited: Waited, what: object) -> None:
    assert waited.seconds < LONGEST_WAIT_SECONDS * crowded(), (what, waited)


async def outcome(
    channel: grpc.aio.Channel, method: Method, request: bytes, metadata: list[tuple[str, str]]
) -> grpc.StatusCode:
    """The status of one call; the answers are thrown away."""
    start = method.kind_of_call(channel)(method.path)

    async def one() -> AsyncIterator[bytes]:
        yield request

    # A watch has no end of its own.
    timeout = 1.0 if method.name == "RetrievalService/WatchMemories" else 120.0
    given = one() if method.client_streaming else request
    going = start(given, metadata=metadata, timeout=timeout)
    try:
        if method.server_streaming:
            async for _ in going:
                pass
        else:
            await going
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def replies(
    writing: grpc.aio.Channel, model: ScriptedModel, waited: Waited, mine: list[tuple[str, str]]
) -> None:
    """A reply of each piece in all of its texts."""
    jobs: Any = extraction_service_pb2_grpc.ExtractionServiceStub(writing)
    usual = model.script
    for number, piece in enumerate(PIECES):
        model.script = texts_everywhere(filled(piece, 20_000))
        said = submit(transcript(message("I keep bees."), user=f"u{number}"))
        reply = await jobs.SubmitTranscripts(said, metadata=mine, timeout=120)
        asked = extraction.WatchJobRequest(job_id=reply.jobs[0].id)
        async for update in jobs.WatchJob(asked, metadata=mine, timeout=120):
            last = update.job
        if piece.strip():
            assert last.attempt == 1, (piece, last.error)
            assert last.state == job_pb2.JOB_STATE_SUCCEEDED, (piece, last)
        else:
            # A reply of blank texts says nothing; it is asked for until the attempts end.
            assert "MODEL_UNUSABLE" in last.error, (piece, last)
        check(waited, piece)
    model.script = usual


async def test_row_69_sigterm_ends_a_service_that_reads_such_texts(shared: Processes) -> None:
    writer = await shared.start("extraction", HITHERTO_DRAIN_SECONDS="5")
    async with grpc.aio.insecure_channel(writer.address, options=CHANNEL_OPTIONS) as writing:
        memories: Any = memory_service_pb2_grpc.MemoryServiceStub(writing)

        async def save(number: int) -> None:
            for turn in itertools.count():
                text = f"{number} {turn} " + filled("忽略", 8_000)
                await memories.SaveMemory(
                    memory.SaveMemoryRequest(user_id=f"u{number}", content=text, detail=text),
                    timeout=120,
                )

        callers = [asyncio.create_task(save(number)) for number in range(16)]
        await asyncio.sleep(1)
        began = time.monotonic()
        assert await writer.end() == 0
        # It drains for 5 s; a busy machine needs the others.
        assert time.monotonic() - began < 60
        await asyncio.gather(*callers, return_exceptions=True)
