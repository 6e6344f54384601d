"""A full disk is told by the health service, with callers and without (row 20)."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import grpc
import pytest
from google.protobuf.struct_pb2 import Struct, Value
from grpc_health.v1 import health_pb2

from hitherto_shared.database.room import STORAGE
from tests.faults.processes import Processes, Service
from tests.faults.small_disk import SmallDisk, can_mount
from tests.waiting import eventually

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING

pytestmark = pytest.mark.skipif(
    not can_mount(), reason="the right to mount a file system is needed, to fill one up"
)


@pytest.fixture
def disk() -> Iterator[tuple[SmallDisk, Processes]]:
    """A disk with the data folder on it, and services without a model."""
    place = Path(tempfile.mkdtemp(prefix="hf-"))
    os.chmod(place, 0o711)
    disk = SmallDisk(place / "data")
    processes = Processes(place, EMBEDDING_DIMENSIONS="")
    try:
        yield disk, processes
    finally:
        disk.clear()
        processes.close()
        disk.close()
        shutil.rmtree(place)


async def until(services: list[Service], status: int) -> None:
    for service in services:

        async def says(service: Service = service) -> bool:
            return await service.health(STORAGE) == status

        await eventually(says, f"{service.name} to say {status} of its storage")
        # It goes on: a restart would give it no room.
        assert await service.health() == SERVING


async def without_end(service: Service) -> None:
    for _ in range(1_000):
        # Postgres compresses what repeats; this takes as much room as it has characters.
        metadata = Struct(fields={"k": Value(string_value=os.urandom(30_000).hex())})
        note = f"Note: {uuid4().hex}"
        await service.ask("MemoryService/SaveMemory", user_id="u", content=note, metadata=metadata)


@pytest.mark.timeout(600)
async def test_row_20_health_tells_that_the_disk_is_full(
    disk: tuple[SmallDisk, Processes],
) -> None:
    small, processes = disk
    services = [*await processes.start_both()]
    await until(services, SERVING)
    # Nobody calls: an attempt finds out.
    small.fill(1 << 20)
    await until(services, NOT_SERVING)
    small.clear()
    await until(services, SERVING)
    # Somebody does, and the write that fails tells at once.
    small.fill(5 << 20)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await without_end(services[0])
    assert caught.value.code() in (
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        # If it was the log of its writes that found no room, Postgres starts anew.
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
    )
    await until(services[:1], NOT_SERVING)
    small.clear()
    await until(services, SERVING)
