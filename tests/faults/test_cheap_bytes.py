"""The bytes that cost their sender least, up to the limit of every stream and field, delay nobody.

A text of newlines or brackets is small to write and may be much to split, decode or compare. One
tenant sends such texts in every field that takes a text or bytes, and imports of them, while
another tenant and the health checks are timed.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor

from hitherto.v1 import privacy_service_pb2 as privacy
from tests.e2e.methods import OFFERED, Method
from tests.e2e.requests import places, valid
from tests.faults.bystander import Waited
from tests.faults.processes import CHANNEL_OPTIONS, Processes
from tests.faults.test_hostile_texts import check, filled, outcome, watched

MEBIBYTE = 1024 * 1024
MOST = 4 * MEBIBYTE - 4096
AT_ONCE = 4
UNLIMITED = {
    f"HITHERTO_{whose}_{what}_PER_SECOND": "0"
    for whose in ("TENANT", "USER")
    for what in ("READS", "WRITES", "READ_BYTES", "WRITE_BYTES")
}
PIECES = ("\n", " ", "[", '{"":', ",", '"', "\u0301", "\u0301\u0327", "\u200b", "a.", "\ud55c")
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


def requests(method: Method, turns: Iterator[str], sent: set[str]) -> Iterator[bytes]:
    """The valid request with each text or bytes of it as long as a request may be.

    A field that several requests share, as that of a message, is sent once.
    """

    def new(kind: str, of: FieldDescriptor) -> bool:
        if of.type != getattr(of, kind) or of.full_name in sent:
            return False
        sent.add(of.full_name)
        return True

    for kind in ("TYPE_STRING", "TYPE_BYTES"):
        for _, put in places(method, partial(new, kind)):
            # Each field gets one of the pieces, and all of the fields get all of them.
            request = valid(method)
            text = filled(next(turns), MOST)
            put(request, text if kind == "TYPE_STRING" else text.encode())
            yield request.SerializeToString()


@pytest.mark.timeout(1800)
async def test_row_69_the_cheapest_bytes_in_an_import_or_any_field_delay_nobody_else(
    shared: Processes, conninfo: str
) -> None:
    async with (
        watched(shared, conninfo, **UNLIMITED) as (writer, reader, waited, mine),
        grpc.aio.insecure_channel(writer.address, options=CHANNEL_OPTIONS) as writing,
        grpc.aio.insecure_channel(reader.address, options=CHANNEL_OPTIONS) as reading,
    ):
        await imports(writing, waited, mine)
        turns = asyncio.Semaphore(AT_ONCE)
        codes: dict[grpc.StatusCode, int] = {}

        async def one(method: Method, request: bytes) -> None:
            channel = reading if method.name.startswith("Retrieval") else writing
            try:
                code = await outcome(channel, method, request, mine)
            finally:
                turns.release()
            codes[code] = codes.get(code, 0) + 1
            check(waited, (method.name, len(request), request[:40]))

        pieces, sent = itertools.cycle(PIECES), set[str]()
        async with asyncio.TaskGroup() as group:
            for method in OFFERED:
                for request in requests(method, pieces, sent):
                    # Made only when it can be sent: each has four megabytes.
                    await turns.acquire()
                    group.create_task(one(method, request))
        assert codes[grpc.StatusCode.INVALID_ARGUMENT] > 100, codes
        assert not codes.keys() & {
            grpc.StatusCode.INTERNAL,
            grpc.StatusCode.UNKNOWN,
            grpc.StatusCode.UNAVAILABLE,
        }, codes
        check(waited, "all")
