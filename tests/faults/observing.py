"""An ordinary caller beside others who misbehave: how long it waits, and what it is answered."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from hitherto.v1 import (
    memory_service_pb2,
    memory_service_pb2_grpc,
    retrieval_service_pb2,
    retrieval_service_pb2_grpc,
)
from tests.faults.processes import CHANNEL_OPTIONS, Service

_PAUSE_SECONDS = 0.2
_LATE_SECONDS = 1.0
"""Past its deadline; a client notices it late on a busy machine."""


@dataclass
class Observer:
    """Calls without a pause worth mentioning, each call within `patience` seconds.

    Attributes:
        patience: Seconds until a call is given up.
        disturbed: While set, Postgres is frozen, or was a moment ago: reads and writes may fail.
        answers: How often what was answered how.
        complaints: What must not be: late answers, and ones that nobody has to accept.
    """

    patience: float
    disturbed: bool = False
    answers: Counter[str] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)
    longest: dict[str, float] = field(default_factory=dict)

    @asynccontextmanager
    async def beside(self, retrieval: Service, extraction: Service) -> AsyncIterator[None]:
        """Observe until the block ends."""
        async with (
            grpc.aio.insecure_channel(retrieval.address, options=CHANNEL_OPTIONS) as reading,
            grpc.aio.insecure_channel(extraction.address, options=CHANNEL_OPTIONS) as writing,
        ):
            search: Any = retrieval_service_pb2_grpc.RetrievalServiceStub(reading)
            memory: Any = memory_service_pb2_grpc.MemoryServiceStub(writing)
            health: list[Any] = [
                health_pb2_grpc.HealthStub(reading),
                health_pb2_grpc.HealthStub(writing),
            ]
            asked = health_pb2.HealthCheckRequest()
            question = retrieval_service_pb2.SearchMemoriesRequest(
                user_id="observer", query="What does she drink?"
            )
            statement = memory_service_pb2.SaveMemoryRequest(
                user_id="observer", content="Drinks green tea."
            )
            watching = [
                asyncio.create_task(task)
                for task in (
                    self._ask("health of retrieval", lambda t: health[0].Check(asked, timeout=t)),
                    self._ask("health of extraction", lambda t: health[1].Check(asked, timeout=t)),
                    self._ask("search", lambda t: search.SearchMemories(question, timeout=t)),
                    self._ask("save", lambda t: memory.SaveMemory(statement, timeout=t)),
                )
            ]
            try:
                yield
            finally:
                for task in watching:
                    task.cancel()
                await asyncio.gather(*watching, return_exceptions=True)

    async def _ask(self, what: str, call: Callable[[float], Awaitable[Any]]) -> None:
        while True:
            began, disturbed = time.monotonic(), self.disturbed
            try:
                await call(self.patience)
                told = "OK"
            except grpc.aio.AioRpcError as error:
                told = error.code().name
            waited = time.monotonic() - began
            # Beside a freeze a call may be refused; health is about the process.
            disturbed = (disturbed or self.disturbed) and not what.startswith("health")
            self._judge(what, told, waited, disturbed=disturbed)
            await asyncio.sleep(_PAUSE_SECONDS)

    def _judge(self, what: str, told: str, waited: float, *, disturbed: bool) -> None:
        name = f"{what}{' (frozen)' if disturbed else ''}"
        self.answers[f"{name}: {told}"] += 1
        self.longest[name] = max(self.longest.get(name, 0.0), waited)
        if waited > self.patience + _LATE_SECONDS:
            self.complaints.append(f"{name}: {told} after {waited:.1f} s")
        if told in ("INTERNAL", "UNKNOWN") or (told == "DEADLINE_EXCEEDED" and not disturbed):
            self.complaints.append(f"{name}: {told}")
