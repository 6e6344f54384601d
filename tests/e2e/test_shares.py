"""No tenant takes all places or all memory from the others; what is too large is told as such."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

from hitherto.v1 import conversation_pb2
from hitherto.v1 import extraction_service_pb2 as extraction
from hitherto.v1 import privacy_service_pb2 as privacy
from hitherto_client.errors import HithertoCallError, read_error
from hitherto_shared.database.embedded import EmbeddedPostgres
from hitherto_shared.rpc.bodies import MAX_BODY_BYTES
from tests.conftest import new_database
from tests.e2e.credentials import bearer, key
from tests.faults.processes import Processes, Service
from tests.varint import varint
from tests.waiting import eventually

PLACES = 12
OF_ONE_TENANT = 6
BODIES = 6
IDLE_SECONDS = 30.0
MEBIBYTE = 1024 * 1024
SERVICE = "/hitherto.v1.ExtractionService/"

Credential = list[tuple[str, str]]


@dataclass(frozen=True)
class Place:
    service: Service
    ana: Credential
    bo: Credential
    """Of another tenant."""
    person: Credential
    """Of one user of ana's tenant."""


@pytest.fixture(scope="module")
def place(postgres: EmbeddedPostgres) -> Iterator[Place]:
    """An extraction service with few places and little room, and two tenants."""
    folder = Path(tempfile.mkdtemp(prefix="hitherto-shares-"))
    folder.chmod(0o711)
    with new_database(postgres) as conninfo:
        processes = Processes(
            folder,
            DATABASE_URL=conninfo,
            EMBEDDING_DIMENSIONS="",
            HITHERTO_AUTH="api-key",
            HITHERTO_MAX_CONCURRENT_RPCS=str(PLACES),
            HITHERTO_MAX_BODY_BYTES=str(BODIES * MAX_BODY_BYTES),
            HITHERTO_STREAM_IDLE_SECONDS=str(IDLE_SECONDS),
            HITHERTO_EXTRACT_DEBOUNCE_SECONDS="600",
            MEMORY_EXTRACT_EVERY_N_MESSAGES="1",
        )
        try:
            service = asyncio.run(processes.start("extraction"))
            ana, bo = [bearer(asyncio.run(key(conninfo, tenant))) for tenant in "ab"]
            person = asyncio.run(key(conninfo, "a", user_id="u", scopes=["read", "write"]))
            yield Place(service, ana, bo, bearer(person))
        finally:
            processes.close()
            shutil.rmtree(folder)


@asynccontextmanager
async def channel(place: Place) -> AsyncIterator[Any]:
    options = [
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.max_send_message_length", 64 * MEBIBYTE),
        ("grpc.enable_http_proxy", 0),
    ]
    async with grpc.aio.insecure_channel(place.service.address, options=options) as opened:
        yield opened


async def list_jobs(opened: Any, credential: Credential) -> bytes:
    answer: bytes = await opened.unary_unary(f"{SERVICE}ListJobs")(
        b"", metadata=credential, timeout=30
    )
    return answer


async def refused(going: Any) -> HithertoCallError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await going
    return read_error(caught.value)


async def free_again(opened: Any, place: Place, credential: Credential | None = None) -> None:
    async def answered() -> bool:
        try:
            await list_jobs(opened, credential or place.ana)
        except grpc.aio.AioRpcError:
            return False
        return True

    await eventually(answered, "the tenant's places to be free")


async def test_a_tenant_takes_its_share_and_no_more(place: Place) -> None:
    """Of the places, and of the room for bodies: half of that is three bodies; streams whose next
    item may come hold it."""
    async with channel(place) as opened:
        said = extraction.AppendMessagesRequest(
            user_id="u",
            conversation_id="c",
            messages=[conversation_pb2.Message(role=conversation_pb2.ROLE_USER, content="Hello.")],
        )
        data = await opened.unary_unary(f"{SERVICE}AppendMessages")(
            said.SerializeToString(), metadata=place.ana, timeout=30
        )
        job = extraction.AppendMessagesResponse.FromString(data).job
        watch = extraction.WatchJobRequest(job_id=job.id).SerializeToString()
        start = opened.unary_stream(f"{SERVICE}WatchJob")
        watching = [start(watch, metadata=place.ana, timeout=120) for _ in range(OF_ONE_TENANT)]
        for call in watching:
            await asyncio.wait_for(call.read(), 180)
        await full(opened, place, "HITHERTO_MAX_CONCURRENT_RPCS")
        for call in watching:
            call.cancel()
        await free_again(opened, place)

        start = opened.stream_unary(f"{SERVICE}StreamTranscripts")
        streams = [start(metadata=place.ana) for _ in range(BODIES // 2)]
        for call in streams:
            await asyncio.wait_for(call.wait_for_connection(), 180)
        await full(opened, place, "HITHERTO_MAX_BODY_BYTES")
        for call in streams:
            call.cancel()
        await free_again(opened, place)


async def full(opened: Any, place: Place, setting: str) -> None:
    """Ana's tenant is refused, and is told why; not in a moment if its calls are on their way."""
    found: list[HithertoCallError] = []

    async def told() -> bool:
        try:
            await list_jobs(opened, place.ana)
        except grpc.aio.AioRpcError as error:
            found.append(read_error(error))
        return bool(found)

    await eventually(told, "the tenant to have its share")
    assert (found[0].code.name, found[0].reason) == ("RESOURCE_EXHAUSTED", "OVERLOADED")
    assert found[0].metadata == {"limit": "tenant_share"}
    assert found[0].retry_after == 1.0
    assert setting in found[0].message
    await list_jobs(opened, place.bo)


async def test_a_person_s_streams_are_that_person_s_only(place: Place) -> None:
    """The tenant's own backend goes on, and the person does once they have ended."""
    async with channel(place) as opened:
        start = opened.stream_unary(f"{SERVICE}StreamTranscripts")
        streams = [start(metadata=place.person) for _ in range(2 * OF_ONE_TENANT)]
        refusals: list[HithertoCallError] = []

        async def told() -> bool:
            for call in [each for each in streams if each.done()]:
                streams.remove(call)
                refusals.append(await refused(call))
            return bool(refusals)

        await eventually(told, "the person to be refused")
        assert {error.reason for error in refusals} == {"OVERLOADED"}
        assert {error.metadata["limit"] for error in refusals} == {"user_share"}
        for _ in range(5):
            await list_jobs(opened, place.ana)
            await list_jobs(opened, place.bo)
        for call in streams:
            call.cancel()
        await free_again(opened, place, place.person)

        # So it is with imports.
        start = opened.stream_unary("/hitherto.v1.PrivacyService/ImportUser")

        async def slow() -> AsyncIterator[bytes]:
            while True:
                yield privacy.ImportUserRequest(user_id="u", data=b"\n").SerializeToString()
                await asyncio.sleep(0.2)

        streams = [start(slow(), metadata=place.person) for _ in range(4)]
        await asyncio.sleep(1)
        other = privacy.ImportUserRequest(user_id="other", data=b"\n").SerializeToString()
        for credential in (place.ana, place.bo):
            await start(iter([other]), metadata=credential, timeout=30)
        for call in streams:
            call.cancel()
        await free_again(opened, place, place.person)


async def test_a_burst_larger_than_the_room_is_answered_one_after_the_other(place: Place) -> None:
    """Short bodies give their room back at once: nobody who waits is refused."""
    async with channel(place) as opened:
        both = [place.ana, place.bo] * (OF_ONE_TENANT - 1)
        for _ in range(5):
            await asyncio.gather(*(list_jobs(opened, credential) for credential in both))


async def test_a_request_that_is_too_large_is_told_so(place: Place) -> None:
    async with channel(place) as opened:
        submit = opened.unary_unary(f"{SERVICE}SubmitTranscripts")
        # An unknown field, so that size alone is the reason.
        error = await refused(submit(field(4 * MEBIBYTE), metadata=place.ana, timeout=120))
        assert (error.code.name, error.reason) == ("RESOURCE_EXHAUSTED", "REQUEST_TOO_LARGE")
        assert error.metadata == {"max_bytes": str(4 * MEBIBYTE)}
        assert error.retry_after is None
        items = opened.stream_unary(f"{SERVICE}StreamTranscripts")
        error = await refused(items(iter([field(4 * MEBIBYTE)]), metadata=place.ana, timeout=120))
        assert error.reason == "REQUEST_TOO_LARGE"
        # Far above it gRPC answers by itself, and the client knows what it says.
        error = await refused(submit(field(6 * MEBIBYTE), metadata=place.ana, timeout=120))
        assert (error.code.name, error.reason) == ("RESOURCE_EXHAUSTED", "REQUEST_TOO_LARGE")
        assert "max_bytes" not in error.metadata
        await free_again(opened, place)


def field(size: int) -> bytes:
    """Field 1000 with so many bytes."""
    return b"\xc2\x3e" + varint(size) + bytes(size)
