"""Both services in this process, over real ports, and the calls that several benchmarks make."""

from __future__ import annotations

import asyncio
import io
import json
import tempfile
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, LiteralString, TypeVar, get_args

import psycopg

from benchmarks import BenchmarkFailed
from benchmarks.command import counting
from hitherto_client import AsyncHitherto
from hitherto_client.inputs import TranscriptInput
from hitherto_client.results import Job
from hitherto_client.words import MemoryStatus
from hitherto_extraction.config import ExtractionSettings
from hitherto_extraction.wiring.service import running as extraction_running
from hitherto_retrieval.__main__ import running as retrieval_running
from hitherto_retrieval.config import RetrievalSettings
from hitherto_shared.auth.principal import DEFAULT_TENANT
from hitherto_shared.database.connect import with_role
from hitherto_shared.database.embedded import EmbeddedPostgres
from hitherto_shared.database.migrate import migrate
from hitherto_shared.embeddings.protocol import Embedder, Vector
from hitherto_shared.rpc.edge_settings import RATE_SETTINGS

_LOOPBACK = "127.0.0.1:0"
_CALL_SECONDS = 60.0
_EMBEDDED_AT_ONCE = 64
_POLL_SECONDS = 0.25
_PATIENCE_SECONDS = 600.0
_WITHOUT_VECTOR = """
SELECT (SELECT count(*) FROM memories WHERE embedding_state = 'pending')
     + (SELECT count(*) FROM messages WHERE embedding_state = 'pending')
     + (SELECT count(*) FROM conversation_summaries WHERE embedding_state = 'pending')
"""
EVERY_STATUS: Sequence[MemoryStatus] = get_args(MemoryStatus)

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class BenchmarkDatabase:
    """A migrated database and the data folder beside it."""

    conninfo: str
    data_dir: Path


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
async def serving(
    place: BenchmarkDatabase, *, reads: Mapping[str, Any] | None = None, **given: Any
) -> AsyncIterator[AsyncHitherto]:
    """Both services on `place`, and a client of them; leaving drains them.

    `reads` are settings of the retrieval service alone, `given` those of both; what is not given
    comes from the environment.
    """
    # Rates are off: a benchmark asks for as much as it can, of few users.
    rates = dict.fromkeys(RATE_SETTINGS, 0)
    settings = {"data_dir": place.data_dir, "auth": "off", **rates, **given}
    extraction = ExtractionSettings(**{"extraction_listen": _LOOPBACK, **settings})
    retrieval = RetrievalSettings(
        **{"retrieval_listen": _LOOPBACK, "read_database_url": None, **settings, **(reads or {})}
    )
    async with (
        extraction_running(extraction, place.conninfo) as writer,
        retrieval_running(retrieval, place.conninfo) as reader,
        AsyncHitherto(
            f"127.0.0.1:{reader.port}", f"127.0.0.1:{writer.port}", timeout=_CALL_SECONDS
        ) as client,
    ):
        yield client


async def in_turns(
    items: Iterable[Item], work: Callable[[Item], Awaitable[Result]], *, at_once: int, phase: str
) -> list[Result]:
    """What came of each item, in their order, with a few under way at a time.

    The first error ends all of it and is raised. `phase` is what progress calls it.
    """
    gate, given = asyncio.Semaphore(at_once), list(items)
    advance = counting(phase, len(given))

    async def one(item: Item) -> Result:
        async with gate:
            found = await work(item)
        advance()
        return found

    tasks = [asyncio.create_task(one(item)) for item in given]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def memory_row(at: datetime, **columns: Any) -> Mapping[str, Any]:
    """A row of an export: an active memory that was said and learnt `at` this time."""
    return {
        "version": 1,
        "source": "conversation",
        "origin": "user",
        "status": "active",
        **dict.fromkeys(("valid_from", "said_at", "created_at", "updated_at"), at),
        **columns,
    }


async def import_user(
    client: AsyncHitherto, user: str, tables: Mapping[str, Iterable[Mapping[str, Any]]]
) -> None:
    """Store a user as an export has one: rows by table, without tenant and user."""
    owner = {"tenant_id": DEFAULT_TENANT, "user_id": user}
    lines = [
        json.dumps({"table": table, "row": {**owner, **row}}, default=str) + "\n"
        for table, rows in tables.items()
        for row in rows
    ]
    await client.import_user(user, io.BytesIO("".join(lines).encode()))


async def submit(client: AsyncHitherto, transcripts: Iterable[TranscriptInput]) -> Sequence[str]:
    """Hand conversations over; the ids of their jobs, in their order.

    Raises:
        BenchmarkFailed: One was refused.
    """
    made = await client.import_transcripts(transcripts)
    if made.errors:
        raise BenchmarkFailed(f"a conversation was refused: {made.errors[0]}")
    return made.job_ids


async def ended(client: AsyncHitherto, job_id: str) -> Job:
    """A job once it is final, or waits for somebody to correct the settings of the model."""
    async for job in client.watch_job(job_id):
        if job.final or job.error.startswith("MODEL_MISCONFIGURED"):
            return job
    raise AssertionError("watching ends with a final state or an error")


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


async def in_time(work: Awaitable[Result], otherwise: str) -> Result:
    """What comes of some work within ten minutes.

    Raises:
        BenchmarkFailed: It took longer; `otherwise` says what was not done.
    """
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            return await work
    except TimeoutError:
        raise BenchmarkFailed(
            f"{otherwise} after {_PATIENCE_SECONDS:.0f} s: run it again on a machine with less to "
            "do, or look at what the service logs"
        ) from None


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
