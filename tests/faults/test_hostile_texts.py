"""One caller's text, or one model's reply, makes nobody else wait (row 69).

Each field of each call that takes a text or bytes is given what is slow to read by careless rules:
the same piece again and again, up to the field's limit, and as much as a request may have. So are
imports. Meanwhile another tenant and the health checks are timed.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.struct_pb2 import Struct, Value

from hitherto.v1 import extraction_service_pb2 as extraction
from hitherto.v1 import extraction_service_pb2_grpc, job_pb2, memory_service_pb2_grpc
from hitherto.v1 import memory_service_pb2 as memory
from hitherto.v1 import privacy_service_pb2 as privacy
from tests.e2e.credentials import bearer, key
from tests.e2e.methods import OFFERED, Method
from tests.e2e.requests import message, places, submit, transcript, valid
from tests.faults.bystander import Waited, bystander, crowded
from tests.faults.processes import CHANNEL_OPTIONS, Processes, Service
from tests.scripted_model import ScriptedModel, texts_everywhere

LONGEST_WAIT_SECONDS = 2.0
MEBIBYTE = 1024 * 1024
MOST = 4 * MEBIBYTE - 4096
UNLIMITED = {
    f"HITHERTO_{whose}_{what}_PER_SECOND": "0"
    for whose in ("TENANT", "USER")
    for what in ("READS", "WRITES", "READ_BYTES", "WRITE_BYTES")
}
PIECES = (
    *("\n", " ", ":", "[", "<", '"', "a", "忽略", "\u200b", "\u0301", "\u0301\u0327"),
    *("- \n", "a@", "ignore all ", "забудь", '{"":', ",", "a.", "\ud55c"),
)
SIZES = (250, 8_000, 64_000, MOST)
AT_ONCE = 4


def filled(piece: str, size: int) -> str:
    """`piece` again and again, in at most `size` bytes of UTF-8."""
    return piece * (size // len(piece.encode()))


@asynccontextmanager
async def watched(
    processes: Processes, conninfo: str
) -> AsyncIterator[tuple[Service, Service, Waited, list[tuple[str, str]]]]:
    """Both services, the waiting of tenant `b`, and a credential of tenant `a`."""
    processes.settings.update(HITHERTO_AUTH="api-key", **UNLIMITED)
    writer, reader = await processes.start_both()
    mine, others = [bearer(await key(conninfo, tenant)) for tenant in "ab"]
    async with bystander(writer.address, reader.address, others) as waited:
        yield writer, reader, waited, mine


LEFT_OUT = b'{"table":"jobs","row":{}}\n'
RECORD = b'{"table":"memories","row":{"content":%s}}\n'

IMPORTS: dict[str, bytes] = {
    "newlines": b"\n" * MOST,
    "spaces": b" " * MOST,
    "left-out lines": LEFT_OUT * (MOST // len(LEFT_OUT)),
    "brackets": b"[" * MOST,
    "objects": b'{"":' * (MOST // 4),
    "lines of a letter": b"x\n" * (MOST // 2),
    "values": RECORD % (b"[%s0]" % (b"0," * (MOST // 2 - 40))),
    "commas in a text": RECORD % (b'"%s"' % (b"," * (MOST - 80))),
    "quotes": RECORD % (b'"%s"' % (b'\\"' * (MOST // 2 - 40))),
    "combining characters": RECORD % (b'"%s"' % ("\u0301\u0327".encode() * (MOST // 4 - 20))),
    "left-out combining characters": b'{"table":"jobs","row":{"a":"%s"}}\n'
    % ("\u0301\u0327".encode() * (MOST // 4 - 20)),
}
LONGER = ("newlines", "brackets")
"""Those that go on in a second piece."""


async def imports(writing: grpc.aio.Channel, waited: Waited, mine: list[tuple[str, str]]) -> None:
    """Import each of them, some at a time."""
    turns = asyncio.Semaphore(AT_ONCE)
    call: Any = writing.stream_unary("/hitherto.v1.PrivacyService/ImportUser")

    async def one(name: str, data: bytes) -> None:
        piece = privacy.ImportUserRequest(user_id=name, data=data).SerializeToString()
        async with turns:
            try:
                pieces = [piece] * (2 if name in LONGER else 1)
                await call(iter(pieces), metadata=mine, timeout=300)
                code, told = grpc.StatusCode.OK, ""
            except grpc.aio.AioRpcError as error:
                code, told = error.code(), str(error.details())
        assert code in (grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT), (name, told)
        assert code is grpc.StatusCode.OK or name not in ("newlines", "left-out lines"), told
        check(waited, name)

    async with asyncio.TaskGroup() as group:
        for name, data in IMPORTS.items():
            group.create_task(one(name, data))


def requests(method: Method, turns: dict[int, Iterator[str]], sent: set[str]) -> Iterator[bytes]:
    """The valid request with each text, bytes and free JSON of it spoiled, at several lengths.

    A field that several requests share, as that of a message, is sent as long as may be once.
    """

    def new(of: FieldDescriptor) -> bool:
        if of.type not in (of.TYPE_STRING, of.TYPE_BYTES) or of.full_name in sent:
            return False
        sent.add(of.full_name)
        return True

    for size, pieces in turns.items():
        # Each field gets one of the pieces, and all of the fields get all of them.
        for _, put in places(method, new if size == MOST else _is_text):
            request = valid(method)
            text = filled(next(pieces), size)
            try:
                put(request, text)
            except TypeError:
                put(request, text.encode())
            yield request.SerializeToString()
    for _, put in places(method, _is_struct):
        request = valid(method)
        value = Value(string_value=filled(next(turns[64_000]), 32_000))
        put(request, Struct(fields={"k": value}))
        yield request.SerializeToString()


def _is_text(field: FieldDescriptor) -> bool:
    return field.type == field.TYPE_STRING


def _is_struct(field: Any) -> bool:
    return (
        field.message_type is not None
        and field.message_type.full_name == Struct.DESCRIPTOR.full_name
    )


@pytest.mark.timeout(1800)
async def test_row_69_a_text_of_any_field_an_import_or_a_model_s_reply_delays_nobody_else(
    shared: Processes, model: ScriptedModel, conninfo: str
) -> None:
    async with (
        watched(shared, conninfo) as (writer, reader, waited, mine),
        grpc.aio.insecure_channel(writer.address, options=CHANNEL_OPTIONS) as writing,
        grpc.aio.insecure_channel(reader.address, options=CHANNEL_OPTIONS) as reading,
    ):
        await replies(writing, model, waited, mine)
        await imports(writing, waited, mine)
        turns = asyncio.Semaphore(AT_ONCE)
        codes = Counter[grpc.StatusCode]()
        long = Counter[grpc.StatusCode]()

        async def one(method: Method, request: bytes) -> None:
            channel = reading if method.name.startswith("Retrieval") else writing
            try:
                code = await outcome(channel, method, request, mine)
            finally:
                turns.release()
            codes[code] += 1
            long[code] += len(request) >= MEBIBYTE
            check(waited, (method.name, len(request), request[:40]))

        pieces: dict[int, Iterator[str]] = {size: itertools.cycle(PIECES) for size in SIZES}
        sent = set[str]()
        async with asyncio.TaskGroup() as group:
            for method in OFFERED:
                for request in requests(method, pieces, sent):
                    # Made only when it can be sent: some have four megabytes.
                    await turns.acquire()
                    group.create_task(one(method, request))
        assert codes[grpc.StatusCode.OK] > 125, codes
        assert long[grpc.StatusCode.INVALID_ARGUMENT] > 150, long
        assert not codes.keys() & {
            grpc.StatusCode.INTERNAL,
            grpc.StatusCode.UNKNOWN,
            grpc.StatusCode.UNAVAILABLE,
        }, codes
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
