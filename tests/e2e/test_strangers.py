"""Callers without a credential, and callers who hold on, are in nobody's way (rows 52, 54, 70).

One pair of service processes for the whole module, with small limits.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2

from hitherto.v1 import conversation_pb2
from hitherto.v1 import privacy_service_pb2 as privacy
from hitherto.v1 import retrieval_service_pb2 as retrieval
from hitherto_client.errors import HithertoCallError, read_error
from hitherto_shared.database.embedded import EmbeddedPostgres
from hitherto_shared.rpc.probe import probe
from tests.conftest import new_database
from tests.e2e.credentials import bearer, key
from tests.e2e.methods import SERVICES
from tests.e2e.raw_http2 import RawConnection
from tests.e2e.sessions import refusal_of
from tests.faults.processes import Processes, Service
from tests.listening import free_port
from tests.varint import varint
from tests.waiting import wait_until

PLACES = 24
STREAMS = 60
BODY_SECONDS = 3.0
IDLE_SECONDS = 6.0
PATIENCE = 180.0
GET_CONTEXT = "/hitherto.v1.RetrievalService/GetContext"
SUBMIT = "/hitherto.v1.ExtractionService/SubmitTranscripts"
STREAM = "/hitherto.v1.ExtractionService/StreamTranscripts"
EXPORT = "/hitherto.v1.PrivacyService/ExportUser"
WATCH = "/grpc.health.v1.Health/Watch"
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
REQUEST = retrieval.GetContextRequest(user_id="ana").SerializeToString()
FOUR_MEBIBYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class Edge:
    processes: Processes
    conninfo: str
    reading: Service
    writing: Service
    credential: list[tuple[str, str]]


@pytest.fixture(scope="module")
def edge(postgres: EmbeddedPostgres) -> Iterator[Edge]:
    """Both services as processes, which ask for API keys, on a database of the module's own."""
    place = Path(tempfile.mkdtemp(prefix="hitherto-edge-"))
    place.chmod(0o711)
    # Two workers of one run may each have tests of this module: neither may take the other's name.
    with new_database(postgres) as conninfo:
        processes = Processes(
            place,
            DATABASE_URL=conninfo,
            EMBEDDING_DIMENSIONS="",
            HITHERTO_AUTH="api-key",
            HITHERTO_REFLECTION="true",
            HITHERTO_MAX_CONCURRENT_RPCS=str(PLACES),
            HITHERTO_TENANT_SHARE="1",
            HITHERTO_MAX_STREAMS_PER_CONNECTION=str(STREAMS),
            HITHERTO_BODY_SECONDS=str(BODY_SECONDS),
            HITHERTO_STREAM_IDLE_SECONDS=str(IDLE_SECONDS),
            HITHERTO_STREAM_UNREAD_SECONDS="1.5",
            HITHERTO_HANDSHAKE_SECONDS="2",
        )
        try:
            reading = processes.launch("retrieval", port=free_port())
            writing = processes.launch("extraction", port=free_port())
            for service in (reading, writing):
                wait_for(service)
            secret = asyncio.run(key(conninfo))
            yield Edge(processes, conninfo, reading, writing, bearer(secret))
        finally:
            processes.close()
            shutil.rmtree(place)


def wait_for(service: Service) -> None:
    def answers() -> bool:
        assert service.alive, service.said[-2000:]
        return probe(service.address, timeout=2) is None

    wait_until(answers, f"{service.name} to answer")


@asynccontextmanager
async def channel(service: Service) -> AsyncIterator[Any]:
    """A connection of its own; generic calls over it take and give bytes."""
    async with grpc.aio.insecure_channel(
        service.address,
        options=[
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.max_send_message_length", 8 * FOUR_MEBIBYTES),
            ("grpc.enable_http_proxy", 0),
        ],
    ) as opened:
        yield opened


async def silent(where: Any, path: str, **given: Any) -> Any:
    """A call whose body does not come."""
    call = where.stream_unary(path)(**given)
    await asyncio.wait_for(call.wait_for_connection(), PATIENCE)
    return call


async def answered(edge: Edge, times: int = 10) -> None:
    """A caller with a credential gets answers of both services, none of them late."""
    async with channel(edge.reading) as reads, channel(edge.writing) as writes:
        for _ in range(times):
            await reads.unary_unary(GET_CONTEXT)(REQUEST, metadata=edge.credential, timeout=120)
        jobs = "/hitherto.v1.ExtractionService/ListJobs"
        await writes.unary_unary(jobs)(b"", metadata=edge.credential, timeout=120)


async def ended(call: Any) -> HithertoCallError:
    """How a call ended; it must."""
    async with asyncio.timeout(PATIENCE):
        await call.code()
    return await failure(call)


async def failure(call: Any) -> HithertoCallError:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return read_error(error)
    raise AssertionError("it succeeded")


def highest(service: Service) -> int:
    """The most memory that the process ever had, in bytes."""
    status = Path(f"/proc/{service.process.pid}/status").read_text("utf-8")
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


async def test_calls_of_strangers_whose_body_never_comes_take_no_place(edge: Edge) -> None:
    async with AsyncExitStack() as stack:
        held = []
        for _ in range(3):
            own = await stack.enter_async_context(channel(edge.reading))
            held += [await silent(own, GET_CONTEXT) for _ in range(STREAMS - 1)]
        # All are refused at once, for what they lack and without a wait for their bodies.
        refused = [await ended(call) for call in held]
        assert {error.code for error in refused} == {grpc.StatusCode.UNAUTHENTICATED}
        await answered(edge)


MILLIONS = b"\x0a\x00" * (FOUR_MEBIBYTES // 2 - 100)
"""A body of empty messages."""


def within_one(messages: bytes) -> bytes:
    """A request of one transcript with these messages."""
    number = conversation_pb2.Transcript.DESCRIPTOR.fields_by_name["messages"].number
    inner = messages.replace(b"\x0a", bytes([number << 3 | 2]))
    return b"\x0a" + varint(len(inner)) + inner


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
async def test_bodies_of_millions_of_messages_are_refused_undecoded(edge: Edge) -> None:
    """Row 70: four bodies of 4 MB of empty messages cost 700 MB; one decoded is 180 to 280 MB."""
    before = highest(edge.writing)
    for credential, body, field, room in (
        (None, MILLIONS, "", 60_000_000),
        (edge.credential, MILLIONS, "transcripts", 130_000_000),
        (edge.credential, within_one(MILLIONS), "transcripts.messages", 180_000_000),
    ):
        async with channel(edge.writing) as own:
            submit = own.unary_unary(SUBMIT)
            calls = [submit(body, metadata=credential, timeout=PATIENCE) for _ in range(4)]
            for call in calls:
                error = await failure(call)
                if credential is None:
                    assert error.code is grpc.StatusCode.UNAUTHENTICATED
                    continue
                told = (error.code.name, error.reason)
                assert told == ("RESOURCE_EXHAUSTED", "REQUEST_TOO_LARGE")
                assert error.metadata == {"max_elements": "250000", "field": field}
        assert highest(edge.writing) - before < room, field
        await answered(edge)


async def test_a_body_that_does_not_come_ends(edge: Edge) -> None:
    async with channel(edge.reading) as own:
        calls = [await silent(own, GET_CONTEXT, metadata=edge.credential) for _ in range(5)]
        for call in calls:
            error = await ended(call)
            assert (error.code.name, error.reason) == ("DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED")
    with RawConnection(edge.reading.address) as half:
        # Nothing is left of what it had, whatever its other end does.
        for _ in range(PLACES):
            half.call(GET_CONTEXT, None, edge.credential)
        await asyncio.sleep(BODY_SECONDS)
        await until_answered(edge)


async def until_answered(edge: Edge) -> None:
    """Places are free again."""
    give_up = time.monotonic() + PATIENCE
    while True:
        try:
            return await answered(edge)
        except grpc.aio.AioRpcError as error:
            full = error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            if not full or time.monotonic() > give_up:
                raise
            await asyncio.sleep(0.1)


async def test_calls_without_a_message_or_in_vast_metadata_are_refused(edge: Edge) -> None:
    """Row 54: gRPC's own limits refuse some calls above 8 KiB, by chance; a token may have as
    much. From 16 KiB on metadata is refused, and never below."""
    async with channel(edge.reading) as own:
        call = own.stream_unary(GET_CONTEXT)(iter(()), metadata=edge.credential)
        assert (await ended(call)).code is grpc.StatusCode.INVALID_ARGUMENT
        ask = own.unary_unary(GET_CONTEXT)
        for _ in range(20):
            note = [*edge.credential, ("x-note", "n" * 12_000)]
            await ask(REQUEST, metadata=note, timeout=120)
        refusal = await refusal_of(
            ask(REQUEST, metadata=[*edge.credential, ("x-note", "n" * 20_000)], timeout=120)
        )
        assert refusal.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        await ask(REQUEST, metadata=edge.credential, timeout=120)


async def test_streams_that_say_nothing_end_and_full_is_told(edge: Edge) -> None:
    async with channel(edge.writing) as own:
        start = own.stream_unary(STREAM)
        calls = [start(metadata=edge.credential) for _ in range(PLACES + 8)]
        errors = [await ended(call) for call in calls]
    told = {(error.code.name, error.reason, error.retry_after) for error in errors}
    assert told == {
        ("RESOURCE_EXHAUSTED", "OVERLOADED", 1.0),
        ("DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED", None),
    }
    assert sum(error.reason == "OVERLOADED" for error in errors) <= 8
    silences = [error for error in errors if error.reason == "DEADLINE_EXCEEDED"]
    assert not any("stays" in error.message for error in silences)
    await answered(edge)


async def test_row_70_health_has_places_of_its_own_few_for_a_connection(edge: Edge) -> None:
    watch = health_pb2.HealthCheckRequest().SerializeToString()
    async with AsyncExitStack() as stack:
        serving, refused = [], []
        for _ in range(4):
            own = await stack.enter_async_context(channel(edge.reading))
            for _ in range(12):
                call = own.unary_stream(WATCH)(watch)
                try:
                    await asyncio.wait_for(call.read(), PATIENCE)
                    serving.append(call)
                except grpc.aio.AioRpcError as error:
                    refused.append(read_error(error).reason)
        assert (len(serving), refused) == (32, ["OVERLOADED"] * 16)
        await answered(edge)
        assert probe(edge.reading.address) is None
        for call in serving:
            call.cancel()
        own = await stack.enter_async_context(channel(edge.reading))
        await asyncio.wait_for(own.unary_stream(WATCH)(watch).read(), PATIENCE)


async def test_health_takes_no_long_body_and_no_silence(edge: Edge) -> None:
    async with channel(edge.reading) as own:
        long = health_pb2.HealthCheckRequest(service="s" * 100_000).SerializeToString()
        check: Any = health_pb2_grpc.HealthStub(own)
        for asking, code in (
            (own.unary_stream(WATCH)(long).read(), grpc.StatusCode.INVALID_ARGUMENT),
            (check.Check(health_pb2.HealthCheckRequest(service="no")), grpc.StatusCode.NOT_FOUND),
        ):
            assert (await refusal_of(asyncio.wait_for(asking, PATIENCE))).code is code
        error = await ended(await silent(own, "/grpc.health.v1.Health/Check"))
        assert error.code is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_reflection_is_refused_before_anything_is_asked(edge: Edge) -> None:
    """Row 65."""
    asked = reflection_pb2.ServerReflectionRequest(list_services="").SerializeToString()
    for service, count in ((edge.reading, 1), (edge.writing, 5)):
        async with channel(service) as own, asyncio.timeout(PATIENCE):
            call = own.stream_stream(REFLECTION)()
            assert await call.code() is grpc.StatusCode.UNAUTHENTICATED
            call = own.stream_stream(REFLECTION)(iter([asked]), metadata=edge.credential)
            told = reflection_pb2.ServerReflectionResponse.FromString(await call.read())
            names = {each.name for each in told.list_services_response.service}
            assert "grpc.health.v1.Health" in names
            assert len(names & {each.full_name for each in SERVICES}) == count
    async with channel(edge.reading) as own, asyncio.timeout(PATIENCE):
        silent_one = own.stream_stream(REFLECTION)(metadata=edge.credential)
        assert await silent_one.code() is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_invented_keys_do_not_keep_callers_from_the_database(edge: Edge) -> None:
    await answered(edge, times=1)
    async with AsyncExitStack() as stack:
        own = [await stack.enter_async_context(channel(edge.reading)) for _ in range(6)]
        calls = [
            where.unary_unary(GET_CONTEXT)(
                REQUEST, metadata=bearer(f"mk_{number:012d}_invented"), timeout=PATIENCE
            )
            for number, where in enumerate(own * 100)
        ]
        await answered(edge)
        errors = [await failure(call) for call in calls]
    told = {(error.code.name, error.reason) for error in errors}
    assert told <= {
        ("UNAUTHENTICATED", "CREDENTIAL_INVALID"),
        ("RESOURCE_EXHAUSTED", "OVERLOADED"),
        # gRPC itself, of a connection that opens more streams at once than it may.
        ("UNAVAILABLE", ""),
    }


async def test_row_52_connections_that_say_nothing_are_closed(edge: Edge) -> None:
    host, _, port = edge.reading.address.rpartition(":")
    loop = asyncio.get_running_loop()
    with ExitStack() as stack:
        silent_ones = [
            stack.enter_context(socket.create_connection((host, int(port)))) for _ in range(50)
        ]
        for each in silent_ones:
            each.setblocking(False)
        await answered(edge, times=1)
        async with asyncio.timeout(PATIENCE):
            for each in silent_ones:
                while await loop.sock_recv(each, 4096):
                    pass


async def test_a_reader_who_takes_nothing_gives_its_place_back(edge: Edge) -> None:
    request = privacy.ExportUserRequest(user_id="nobody").SerializeToString()
    with RawConnection(edge.writing.address) as stalled:
        for _ in range(PLACES):
            stalled.call(EXPORT, request, edge.credential)
        await asyncio.sleep(0.5)
        await until_answered(edge)


@pytest.fixture(scope="module")
def short_lived(edge: Edge) -> Service:
    """A retrieval service whose connections are few and soon old."""
    service = edge.processes.launch(
        "retrieval",
        port=free_port(),
        HITHERTO_MAX_CONNECTIONS="30",
        HITHERTO_USER_READS_PER_SECOND="0",
        HITHERTO_TENANT_READS_PER_SECOND="0",
        HITHERTO_MAX_CONNECTION_AGE_SECONDS="1",
        HITHERTO_MAX_CONNECTION_GRACE_SECONDS="4",
    )
    wait_for(service)
    return service


async def test_connections_grow_old_and_nobody_who_calls_notices(
    edge: Edge, short_lived: Service
) -> None:
    started = time.monotonic()
    async with channel(short_lived) as own:
        watch = own.unary_stream(WATCH)(health_pb2.HealthCheckRequest().SerializeToString())
        await asyncio.wait_for(watch.read(), PATIENCE)
        last = asyncio.ensure_future(watch.read())
        calls = 0
        while not last.done():
            assert time.monotonic() < started + PATIENCE
            await own.unary_unary(GET_CONTEXT)(REQUEST, metadata=edge.credential, timeout=120)
            # Without it, both processes would do nothing else for five seconds.
            await asyncio.sleep(0.02)
            calls += 1
        # A long stream outlives the age of its connection by the grace, then it ends.
        assert time.monotonic() - started > 3.5
        assert (await refusal_of(last)).code is grpc.StatusCode.UNAVAILABLE
        assert calls > 10


async def test_more_connections_than_allowed_are_closed_at_once(
    edge: Edge, short_lived: Service
) -> None:
    host, _, port = short_lived.address.rpartition(":")
    loop = asyncio.get_running_loop()
    with ExitStack() as stack:
        many = [stack.enter_context(socket.create_connection((host, int(port)))) for _ in range(60)]
        for each in many:
            each.setblocking(False)
        async with asyncio.timeout(PATIENCE):
            greeted = [bool(await heard(loop, each)) for each in many]
        assert 20 <= sum(greeted) <= 30
    async with channel(short_lived) as own:
        call = own.unary_unary(GET_CONTEXT)
        await call(REQUEST, metadata=edge.credential, timeout=PATIENCE, wait_for_ready=True)


async def heard(loop: asyncio.AbstractEventLoop, end: socket.socket) -> bytes:
    """The first that the service says on a connection; nothing if it was closed."""
    try:
        return await loop.sock_recv(end, 4096)
    except ConnectionResetError:
        return b""


async def test_a_watcher_who_reads_nothing_holds_no_end(edge: Edge) -> None:
    """The last test: it ends the service."""
    with RawConnection(edge.reading.address) as stalled:
        for _ in range(4):
            stalled.call(WATCH, health_pb2.HealthCheckRequest().SerializeToString())
        async with channel(edge.reading) as own:
            health: Any = health_pb2_grpc.HealthStub(own)
            watch = health.Watch(health_pb2.HealthCheckRequest())
            first = await asyncio.wait_for(watch.read(), PATIENCE)
            assert first.status == health_pb2.HealthCheckResponse.SERVING
            edge.reading.send(signal.SIGTERM)
            last = await asyncio.wait_for(watch.read(), PATIENCE)
            assert last.status == health_pb2.HealthCheckResponse.NOT_SERVING
    assert await edge.reading.ended() == 0
