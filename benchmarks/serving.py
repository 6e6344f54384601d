"""Both services in this process, over real ports, and how they are called at a measured pace."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import grpc

from hitherto.v1 import (
    extraction_service_pb2_grpc,
    memory_service_pb2_grpc,
    privacy_service_pb2_grpc,
    retrieval_service_pb2_grpc,
)
from hitherto_extraction.config import ExtractionSettings
from hitherto_extraction.wiring.service import running as extraction_running
from hitherto_retrieval import __main__ as retrieval
from hitherto_retrieval.config import RetrievalSettings
from hitherto_shared.database.embedded import EmbeddedPostgres
from hitherto_shared.database.migrate import migrate
from hitherto_shared.rpc.edge_settings import RATE_SETTINGS

_LOOPBACK = "127.0.0.1:0"

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class BenchmarkDatabase:
    """A migrated database and the data folder beside it."""

    conninfo: str
    data_dir: Path

    def settings(self, **given: Any) -> dict[str, Any]:
        """Settings for either service; what is not given comes from the environment."""
        # Rates are off: a benchmark asks for as much as it can, of few users.
        rates = dict.fromkeys(RATE_SETTINGS, 0)
        return {"data_dir": self.data_dir, "auth": "off", **rates, **given}


@dataclass(frozen=True, slots=True)
class Writing:
    """The extraction service at work."""

    transcripts: extraction_service_pb2_grpc.ExtractionServiceAsyncStub
    memories: memory_service_pb2_grpc.MemoryServiceAsyncStub
    privacy: privacy_service_pb2_grpc.PrivacyServiceAsyncStub


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that is removed in the end."""
    with tempfile.TemporaryDirectory(prefix="hitherto-") as name:
        # Postgres runs as another account when this runs as root, and must be able to enter.
        Path(name).chmod(0o711)
        yield Path(name)


@asynccontextmanager
async def database(folder: Path) -> AsyncIterator[EmbeddedPostgres]:
    """A migrated embedded database whose data folder is `folder`/data; leaving stops it."""
    # A server that dies ends the run instead of being restarted.
    postgres = await asyncio.to_thread(EmbeddedPostgres.acquire, folder / "data", supervise=False)
    try:
        await asyncio.to_thread(migrate, postgres.conninfo())
        yield postgres
    finally:
        await asyncio.to_thread(postgres.release)


@asynccontextmanager
async def temporary_place() -> AsyncIterator[BenchmarkDatabase]:
    """An embedded database in a folder that is removed in the end."""
    with temporary_folder() as folder:
        async with database(folder) as postgres:
            yield BenchmarkDatabase(postgres.conninfo(), folder / "data")


@asynccontextmanager
async def writing(place: BenchmarkDatabase, **given: Any) -> AsyncIterator[Writing]:
    """The extraction service on `place`; leaving drains it."""
    settings = ExtractionSettings(**{"extraction_listen": _LOOPBACK, **place.settings(**given)})
    async with (
        extraction_running(settings, place.conninfo) as server,
        grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        yield Writing(
            extraction_service_pb2_grpc.ExtractionServiceStub(channel),
            memory_service_pb2_grpc.MemoryServiceStub(channel),
            privacy_service_pb2_grpc.PrivacyServiceStub(channel),
        )


@asynccontextmanager
async def reading(
    place: BenchmarkDatabase, **given: Any
) -> AsyncIterator[retrieval_service_pb2_grpc.RetrievalServiceAsyncStub]:
    """The retrieval service on `place`; leaving drains it."""
    settings = RetrievalSettings(
        **{"retrieval_listen": _LOOPBACK, "read_database_url": None, **place.settings(**given)}
    )
    async with (
        retrieval.running(settings, place.conninfo) as server,
        grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        yield retrieval_service_pb2_grpc.RetrievalServiceStub(channel)


async def in_turns(
    items: Iterable[Item], work: Callable[[Item], Awaitable[Result]], *, at_once: int
) -> list[Result]:
    """What came of each item, in their order, with a few under way at a time.

    The first error ends all of it and is raised.
    """
    gate = asyncio.Semaphore(at_once)

    async def one(item: Item) -> Result:
        async with gate:
            return await work(item)

    tasks = [asyncio.create_task(one(item)) for item in items]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
