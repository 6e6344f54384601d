"""A caller of another tenant who times how long everybody else has to wait."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from hitherto.v1 import extraction_service_pb2 as extraction
from hitherto.v1 import (
    extraction_service_pb2_grpc,
    memory_service_pb2_grpc,
    retrieval_service_pb2_grpc,
)
from hitherto.v1 import memory_service_pb2 as memory
from hitherto.v1 import retrieval_service_pb2 as retrieval
from tests.faults.processes import CHANNEL_OPTIONS

_PAUSE_SECONDS = 0.2
"""A tenth of the wait that is too long; its own calls cost more than most that it stands beside."""
_KNOWN_OF_ONE = 20
_GIVE_UP_SECONDS = 180.0


def crowded() -> float:
    """How many want each processor, at least one: as many times as long everybody waits for it."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


@dataclass
class Waited:
    """The longest answer so far, in seconds, and which call it was; and how many were answered."""

    seconds: float = 0.0
    call: str = ""
    answers: int = 0

    def note(self, call: str, seconds: float) -> None:
        self.answers += 1
        if seconds > self.seconds:
            self.seconds, self.call = seconds, call


@asynccontextmanager
async def bystander(
    extraction_address: str, retrieval_address: str, metadata: list[tuple[str, str]]
) -> AsyncIterator[Waited]:
    """Calls both services and their health again and again; no call may be refused."""
    waited = Waited()
    async with (
        grpc.aio.insecure_channel(extraction_address, options=CHANNEL_OPTIONS) as writing,
        grpc.aio.insecure_channel(retrieval_address, options=CHANNEL_OPTIONS) as reading,
        asyncio.TaskGroup() as group,
    ):
        watching = [
            group.create_task(_watch(waited, name, channel, metadata))
            for name, channel in (("extraction", writing), ("retrieval", reading))
        ]
        try:
            yield waited
        finally:
            for task in watching:
                task.cancel()
    assert waited.answers


async def _watch(
    waited: Waited, name: str, channel: grpc.aio.Channel, metadata: list[tuple[str, str]]
) -> None:
    health: Any = health_pb2_grpc.HealthStub(channel)
    jobs: Any = extraction_service_pb2_grpc.ExtractionServiceStub(channel)
    memories: Any = memory_service_pb2_grpc.MemoryServiceStub(channel)
    reads: Any = retrieval_service_pb2_grpc.RetrievalServiceStub(channel)
    number = 0
    while True:
        number += 1
        # Somebody else each time that enough is known of one: a context of thousands takes longer.
        user = f"bystander-{number // _KNOWN_OF_ONE}"
        calls: dict[str, Any] = {
            f"{name} health": lambda: health.Check(
                health_pb2.HealthCheckRequest(), timeout=_GIVE_UP_SECONDS
            )
        }
        if name == "extraction":
            calls["ListJobs"] = lambda: jobs.ListJobs(
                extraction.ListJobsRequest(), metadata=metadata, timeout=_GIVE_UP_SECONDS
            )
            statement = memory.SaveMemoryRequest(
                user_id=user, content=f"The tram has number {number}."
            )
            calls["SaveMemory"] = lambda given=statement: memories.SaveMemory(
                given, metadata=metadata, timeout=_GIVE_UP_SECONDS
            )
        else:
            asked = retrieval.GetContextRequest(user_id=user, query="Which tram?")
            calls["GetContext"] = lambda given=asked: reads.GetContext(
                given, metadata=metadata, timeout=_GIVE_UP_SECONDS
            )
        for call, start in calls.items():
            await _timed(waited, call, start())
        await asyncio.sleep(_PAUSE_SECONDS)


async def _timed(waited: Waited, call: str, going: Awaitable[Any]) -> None:
    began = time.monotonic()
    try:
        await going
    except grpc.aio.AioRpcError as error:
        # As long a wait as a service allows itself: too long, unless the whole machine is busy.
        if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
            raise
    finally:
        waited.note(call, time.monotonic() - began)
