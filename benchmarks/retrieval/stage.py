"""Everything a run needs, started fresh: database, embedder, floors, service, caller."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import urllib.request
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import psycopg

from benchmarks.embeddings_reply import DIMENSIONS
from benchmarks.processes import BenchmarkProcess, Processes
from benchmarks.retrieval import embedder as embedder_process
from benchmarks.retrieval import floor as floor_process
from benchmarks.retrieval.caller import LINE_BYTES, CallerLoad, CallerResult
from benchmarks.retrieval.writing import TENANT
from benchmarks.watching import cpu_seconds
from hitherto_shared.auth.api_keys import create_key
from hitherto_shared.config import DEFAULT_EMBEDDING_MODEL as MODEL
from hitherto_shared.database.connect import with_role
from hitherto_shared.database.embedded import EmbeddedPostgres
from hitherto_shared.database.migrate import migrate


class CallFailed(RuntimeError):
    """A measured call failed, so that there are no figures; the message says how."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What runs.

    Attributes:
        folder: For files of this run; removed in the end.
        postgres: The database.
        embedder: The embeddings endpoint.
        service: The retrieval service.
        floors: By kind.
        key: An API key that may read.
    """

    folder: Path
    postgres: EmbeddedPostgres
    embedder: BenchmarkProcess
    service: BenchmarkProcess
    floors: Mapping[str, BenchmarkProcess]
    key: str
    _caller: BenchmarkProcess
    _reader: asyncio.StreamReader
    _writer: asyncio.StreamWriter

    async def call(self, work: CallerLoad) -> CallerResult:
        """Let the calling process work.

        Raises:
            CallFailed: A call was answered with an error.
        """
        self._writer.write(json.dumps(asdict(work)).encode() + b"\n")
        await self._writer.drain()
        line = await self._reader.readline()
        if not line:
            raise CallFailed(f"the calling process ended; its log ends: {self._caller.said}")
        seen = CallerResult(**json.loads(line))
        if seen.error:
            raise CallFailed(
                f"{work.asking['kind']} was answered with {seen.error}; the log of the service "
                f"ends: {self.service.said}"
            )
        return seen

    async def delay(self, milliseconds: int) -> None:
        """Let the embeddings endpoint take so long from now on."""
        await asyncio.to_thread(_get, self.embedder, f"{embedder_process.DELAY}{milliseconds}")

    async def embedding_calls(self) -> int:
        """How often the embeddings endpoint was called up to now."""
        counts = await asyncio.to_thread(_get, self.embedder, embedder_process.CALLS)
        return counts["calls"]

    def cpu(self, process: BenchmarkProcess) -> dict[str, float]:
        """CPU seconds up to now of a process, under the name of `service`, and of those behind."""
        return {name: cpu_seconds(pids) for name, pids in self._pids(process).items()}

    def _pids(self, process: BenchmarkProcess) -> dict[str, Sequence[int]]:
        assert self.postgres.pid is not None
        return {
            "service": [process.pid],
            "postgres": [self.postgres.pid],
            "embedder": [self.embedder.pid],
        }


@asynccontextmanager
async def database(folder: Path) -> AsyncIterator[EmbeddedPostgres]:
    """A migrated embedded database in `folder`; leaving stops it."""
    # Postgres runs as another account where this one is root's.
    folder.chmod(0o711)
    postgres = await asyncio.to_thread(
        EmbeddedPostgres.acquire, data_dir_in(folder), supervise=False
    )
    with postgres:
        await asyncio.to_thread(migrate, postgres.conninfo())
        yield postgres


@asynccontextmanager
async def staged(
    folder: Path, postgres: EmbeddedPostgres, settings: Mapping[str, str]
) -> AsyncIterator[Stage]:
    """Start the processes beside a loaded database; leaving ends them.

    Args:
        folder: As for `database`.
        postgres: From `database`.
        settings: Environment variables of the service, beside those that it cannot do without.

    Raises:
        ProcessFailed: One did not come up.
    """
    async with AsyncExitStack() as stack:
        processes = stack.enter_context(Processes(folder))
        embedder = await processes.start("benchmarks.retrieval.embedder")
        environment = {
            floor_process.CONNINFO: with_role(
                postgres.conninfo(), "hitherto_read", application="floor"
            ),
            floor_process.MODEL: MODEL,
            floor_process.TENANT: TENANT,
        }
        floors = {
            kind: await processes.start(
                "benchmarks.retrieval.floor",
                ["--kind", kind, "--embedder-port", str(embedder.port)],
                **environment,
            )
            for kind in floor_process.KINDS
        }
        service = await processes.start(
            "hitherto_retrieval",
            **{**service_settings(folder), **openai_settings(embedder), **settings},
        )
        caller = await processes.start("benchmarks.retrieval.caller")
        reader, writer = await asyncio.open_connection("127.0.0.1", caller.port, limit=LINE_BYTES)
        stack.callback(writer.close)
        yield Stage(
            folder=folder,
            postgres=postgres,
            embedder=embedder,
            service=service,
            floors=floors,
            key=await _key(postgres),
            _caller=caller,
            _reader=reader,
            _writer=writer,
        )


def data_dir_in(folder: Path) -> Path:
    """Where the data of a run's service lie."""
    return folder / "data"


def service_settings(folder: Path) -> dict[str, str]:
    """Environment of a service on the database in `folder`."""
    return {
        "HITHERTO_DATA_DIR": str(data_dir_in(folder)),
        "HITHERTO_RETRIEVAL_LISTEN": "127.0.0.1:0",
        "HITHERTO_AUTH": "api-key",
    }


def openai_settings(embedder: BenchmarkProcess) -> dict[str, str]:
    """Environment of a service that embeds by calling `embedder`."""
    return {
        "OPENAI_BASE_URL": f"http://127.0.0.1:{embedder.port}/v1",
        "EMBEDDING_MODEL": MODEL,
        "EMBEDDING_DIMENSIONS": str(DIMENSIONS),
    }


def machine(postgres_version: int) -> dict[str, str | int | float]:
    """What the figures depend on."""
    return {
        "processor": f"{platform.machine()}, {os.cpu_count()} cores",
        "cores": os.cpu_count() or 1,
        "python": platform.python_version(),
        "postgres": str(postgres_version // 10_000),
    }


async def _key(postgres: EmbeddedPostgres) -> str:
    async with await psycopg.AsyncConnection.connect(
        with_role(postgres.conninfo(), "hitherto_maintenance", application="benchmark"),
        autocommit=True,
    ) as connection:
        return await create_key(connection, tenant_id=TENANT, name="benchmark", scopes=["read"])


def _get(process: BenchmarkProcess, path: str) -> dict[str, int]:
    with urllib.request.urlopen(f"http://127.0.0.1:{process.port}{path}", timeout=10) as reply:
        counts: dict[str, int] = json.loads(reply.read())
        return counts
