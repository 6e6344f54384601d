"""Both services behind relays, their Postgres and their model: what faults act upon."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import grpc
import psycopg

from hitherto.v1 import (
    extraction_service_pb2_grpc,
    memory_service_pb2,
    memory_service_pb2_grpc,
    retrieval_service_pb2,
    retrieval_service_pb2_grpc,
)
from tests.faults.chaos.promises import Promises
from tests.faults.processes import API_KEY, CHANNEL_OPTIONS, Name, Processes, Service
from tests.faults.relay import Relay
from tests.faults.small_disk import SmallDisk
from tests.faults.submitting import Batch
from tests.integration.replica.servers import Servers
from tests.scripted_model import ChatAnswer, ChatRequest, ScriptedModel, canary_script
from tests.waiting import eventually

NAMES: tuple[Name, Name] = ("extraction", "retrieval")
BACK_WITHIN_SECONDS = 90.0
"""Generous: it keeps a broken run from hanging, on a machine with much else to do."""
QUEUE_LIMIT = 60


def learnt(request: ChatRequest) -> ChatAnswer:
    """A memory for each canary, and a project for the profile."""
    answer = canary_script(request)
    found = json.loads(answer.content or "{}")
    if memories := found.get("new_memories"):
        found["profile"] = {
            "current_projects": [memories[0]["content"].split()[-1].rstrip(".")],
            "source_message_ids": memories[0]["source_message_ids"],
        }
    return ChatAnswer.of(**found)


def opened(address: str) -> grpc.aio.Channel:
    """A connection that comes back at once when a service does."""
    return grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS)


@dataclass
class Stage:
    """What a run acts upon.

    Attributes:
        administrator: How an administrator logs in to the database.
        calm: Grows when faults begin and end; reads compare it.
        spares_reads: Whether reads have to answer with the faults that there are now.
        servers: The private server and a standby; None if there is no standby.
        disk: What holds the data folder; None if it cannot be filled up.
        earlier: The PYTHONPATH of the version before; empty if it is not to be had.
    """

    processes: Processes
    model: ScriptedModel
    relays: dict[Name, Relay]
    model_relay: Relay
    promises: Promises
    services: dict[Name, Service] = field(default_factory=dict)
    calm: int = 0
    spares_reads: bool = True
    administrator: str = ""
    servers: Servers | None = None
    disk: SmallDisk | None = None
    earlier: str = ""
    _mortal: set[int] = field(default_factory=set)

    def address(self, name: Name) -> str:
        """Where callers connect, whichever process answers."""
        return self.relays[name].address

    async def start(self) -> None:
        for name in NAMES:
            self._launch(name)
        for name in NAMES:
            await self._serving(name)
        # Before there are calls: it may fork, which gRPC does not like.
        self.administrator = self.administrator or self.processes.administrator()

    def _launch(self, name: Name, **settings: str) -> None:
        self.services[name] = self.processes.launch(name, port=0, **settings)

    async def _serving(self, name: Name) -> None:
        service = self.services[name]
        await service.ready()
        self.relays[name].target = service.port

    async def revive(self) -> None:
        """Start again what has ended, as a process manager does, until both serve."""
        async with asyncio.timeout(BACK_WITHIN_SECONDS):
            for name in NAMES:
                while True:
                    self._died_of_itself(self.services[name])
                    if not self.services[name].alive:
                        self._launch(name)
                    try:
                        await self._serving(name)
                        break
                    except AssertionError:
                        # One that loses Postgres while it starts says so and ends with 1.
                        if self.services[name].alive:
                            raise

    def kill(self, name: Name) -> None:
        """Kill -9; `revive` starts another."""
        self._mortal.add(self.services[name].process.pid)
        self.services[name].kill()

    async def end(self, name: Name) -> None:
        """SIGTERM, and what is promised of it."""
        await self._drain(self.services[name])

    async def roll(self, name: Name, **settings: str) -> None:
        """Replace the process by another one, with these settings, that serves before it ends."""
        old = self.services[name]
        self._launch(name, **settings)
        try:
            await self._serving(name)
        except AssertionError:
            # One that has no database when it starts ends with 1; `revive` starts another.
            if self.services[name].alive:
                raise
        finally:
            await self._drain(old)

    async def beside(self, name: Name, seconds: float, **settings: str) -> None:
        """Run a second process with these settings, and have it take the calls for a while."""
        present = self.services[name]
        self._launch(name, **settings)
        second, self.services[name] = self.services[name], present
        relay = self.relays[name]
        try:
            await second.ready()
            relay.target = second.port
            relay.cut()
            await asyncio.sleep(seconds)
            self.promises.note("lives", second.alive, f"{second.log.name}: {second.said[-300:]}")
        finally:
            relay.target = present.port
            await self._drain(second)
            relay.cut()

    async def _drain(self, service: Service) -> None:
        self._mortal.add(service.process.pid)
        if not service.alive:
            return
        code = await service.end()
        self.promises.note("drains", code == 0, f"{service.log.name} ended with {code}")

    def _died_of_itself(self, service: Service) -> None:
        code, pid = service.process.poll(), service.process.pid
        if code is None or pid in self._mortal:
            return
        self._mortal.add(pid)
        gave_up = code == 1 and "serving on port" not in service.said
        what = f"{service.log.name} ended with {code}: {service.said[-300:]}"
        self.promises.note("lives", gave_up, what)

    def look(self) -> None:
        """See that both processes are there, but for what was done to them."""
        for service in self.services.values():
            if service.alive:
                self.promises.note("lives", True, "")
            else:
                self._died_of_itself(service)

    def kill_postgres(self, number: signal.Signals) -> None:
        """End the private server's postmaster."""
        if (postmaster := self.processes.postmaster()) is not None:
            with suppress(ProcessLookupError):
                os.kill(postmaster, number)

    async def sql(self, statement: str) -> None:
        """One statement of the administrator; it may find no server."""
        with suppress(psycopg.OperationalError, TimeoutError):
            async with asyncio.timeout(10):
                async with await psycopg.AsyncConnection.connect(
                    self.administrator, autocommit=True, connect_timeout=5
                ) as connection:
                    await connection.execute(statement.encode())

    async def answers(self) -> bool:
        """Whether an ordinary read and an ordinary write succeed."""
        async with (
            opened(self.address("retrieval")) as reading,
            opened(self.address("extraction")) as writing,
        ):
            reads = retrieval_service_pb2_grpc.RetrievalServiceStub(reading)
            writes = memory_service_pb2_grpc.MemoryServiceStub(writing)
            asked = retrieval_service_pb2.SearchMemoriesRequest(user_id="later", query="tea")
            given = memory_service_pb2.SaveMemoryRequest(user_id="later", content="Likes tea.")
            try:
                await reads.SearchMemories(asked, timeout=10)
                await writes.SaveMemory(given, timeout=10)
            except grpc.aio.AioRpcError:
                return False
        return True

    async def crowd(self, batches: int) -> None:
        """Submit so many batches of users whom nobody else asks for, or until one is refused."""
        async with opened(self.address("extraction")) as channel:
            stub = extraction_service_pb2_grpc.ExtractionServiceStub(channel)
            for number in range(batches):
                try:
                    batch = Batch.new(f"crowd-{number}")
                    await stub.SubmitTranscripts(batch.request(), timeout=5)
                except grpc.aio.AioRpcError:
                    break

    async def recovered(self, after: Iterable[str]) -> None:
        """Start what has ended and wait until calls succeed."""
        names = " and ".join(after)
        try:
            await self.revive()
            await eventually(self.answers, "answers", seconds=BACK_WITHIN_SECONDS)
        except (AssertionError, TimeoutError) as error:
            self.promises.note("returns", False, f"{names}: {error}")
            raise AssertionError(f"no answers after {names}: {error}") from None
        self.promises.note("returns", True, "")


@asynccontextmanager
async def staged(
    model: ScriptedModel, make: Callable[[dict[str, str]], Processes], administrator: str = ""
) -> AsyncIterator[Stage]:
    """Both services, started.

    Args:
        model: What they ask.
        make: Their processes, with these settings.
        administrator: How to log in to their database; empty for the private server.
    """
    async with Relay(model.port) as to_model, Relay(0) as to_extraction, Relay(0) as to_retrieval:
        settings: dict[str, Any] = {
            "OPENAI_BASE_URL": f"http://{to_model.address}/v1",
            "OPENAI_API_KEY": API_KEY,
            "HITHERTO_MODEL_TIMEOUT_SECONDS": "3",
            "HITHERTO_QUEUE_LIMIT": str(QUEUE_LIMIT),
            "HITHERTO_SNAPSHOT_MEMORY_MB": "32",
        }
        model.script = learnt
        relays: dict[Name, Relay] = {"extraction": to_extraction, "retrieval": to_retrieval}
        stage = Stage(
            make(settings), model, relays, to_model, Promises(), administrator=administrator
        )
        await stage.start()
        yield stage
