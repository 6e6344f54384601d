"""Both services in this process, over real ports, and the calls that several benchmarks make."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString, TypeAlias, TypeVar

import grpc
import psycopg

from hitherto.v1 import (
    conversation_pb2,
    extraction_service_pb2,
    extraction_service_pb2_grpc,
    job_pb2,
    memory_pb2,
    memory_service_pb2_grpc,
    privacy_service_pb2_grpc,
    retrieval_service_pb2,
    retrieval_service_pb2_grpc,
)
from hitherto_extraction.config import ExtractionSettings
from hitherto_extraction.wiring.service import running as extraction_running
from hitherto_retrieval import __main__ as retrieval
from hitherto_retrieval.config import RetrievalSettings
from hitherto_shared.database.connect import with_role
from hitherto_shared.database.embedded import EmbeddedPostgres
from hitherto_shared.database.migrate import migrate
from hitherto_shared.embeddings.protocol import Embedder, Vector
from hitherto_shared.rpc.edge_settings import RATE_SETTINGS

_LOOPBACK = "127.0.0.1:0"
_SUBMITTED_AT_ONCE = 20
_EMBEDDED_AT_ONCE = 64
_POLL_SECONDS = 0.25
_WITHOUT_VECTOR = """
SELECT (SELECT count(*) FROM memories WHERE embedding_state = 'pending')
     + (SELECT count(*) FROM messages WHERE embedding_state = 'pending')
     + (SELECT count(*) FROM conversation_summaries WHERE embedding_state = 'pending')
"""
_EVERY_STATUS = [number for number in memory_pb2.MemoryStatus.values() if number]

# The names of the asynchronous stubs exist for type checkers only.
Writer: TypeAlias = "extraction_service_pb2_grpc.ExtractionServiceAsyncStub"
Reader: TypeAlias = "retrieval_service_pb2_grpc.RetrievalServiceAsyncStub"

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


async def submit(writer: Writer, transcripts: Sequence[conversation_pb2.Transcript]) -> list[str]:
    """Hand conversations over, some in a call; the ids of their jobs, in their order."""
    jobs: list[str] = []
    for start in range(0, len(transcripts), _SUBMITTED_AT_ONCE):
        part = transcripts[start : start + _SUBMITTED_AT_ONCE]
        accepted = await writer.SubmitTranscripts(
            extraction_service_pb2.SubmitTranscriptsRequest(transcripts=part)
        )
        jobs += [job.id for job in accepted.jobs]
    return jobs


async def ended(writer: Writer, job_id: str) -> job_pb2.Job:
    """A job once it is final, or waits for somebody to correct the settings of the model."""
    job = job_pb2.Job()
    async for response in writer.WatchJob(extraction_service_pb2.WatchJobRequest(job_id=job_id)):
        job = response.job
        if job.state == job_pb2.JOB_STATE_FAILED and job.error.startswith("MODEL_MISCONFIGURED"):
            break
    return job


async def memories(reader: Reader, user: str, token: str = "") -> list[memory_pb2.Memory]:
    """Every memory of a user, whatever its status, the newest first."""
    found: list[memory_pb2.Memory] = []
    request = retrieval_service_pb2.ListMemoriesRequest(
        user_id=user, page_size=1_000, statuses=_EVERY_STATUS, consistency_token=token
    )
    while True:
        page = await reader.ListMemories(request)
        found += page.memories
        request.page_token = page.next_page_token
        if not page.next_page_token:
            return found


async def nothing_left(conninfo: str, query: LiteralString) -> None:
    """Wait until a query that counts what is left, as the maintenance role, finds 0."""
    login = with_role(conninfo, "hitherto_maintenance", application="bench")
    async with await psycopg.AsyncConnection.connect(login, autocommit=True) as connection:
        while True:
            row = await (await connection.execute(query)).fetchone()
            if row == (0,):
                return
            await asyncio.sleep(_POLL_SECONDS)


async def all_vectors(conninfo: str) -> None:
    """Wait until every text has its vector."""
    await nothing_left(conninfo, _WITHOUT_VECTOR)


async def vectors_of(embedder: Embedder, texts: Sequence[str]) -> list[Vector]:
    """The vector of each text, some in a call.

    Raises:
        ModelError: The embedder is out of reach.
    """
    return [
        vector
        for start in range(0, len(texts), _EMBEDDED_AT_ONCE)
        for vector in (await embedder.embed(texts[start : start + _EMBEDDED_AT_ONCE])).vectors
    ]
