"""Everything a run needs, started fresh: database, embedder, floors, service, caller."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import grpc

from benchmarks import BenchmarkFailed, floor, model_server
from benchmarks.processes import BenchmarkProcess, Processes
from benchmarks.retrieval.caller import LINE_BYTES, CallerLoad, CallerResult
from benchmarks.retrieval.requests import RequestStream
from benchmarks.retrieval.writing import TENANT
from benchmarks.watching import cpu_seconds
from hitherto.v1 import retrieval_service_pb2, retrieval_service_pb2_grpc
from hitherto_shared.auth.api_keys import create_key
from hitherto_shared.config import DEFAULT_EMBEDDING_MODEL as MODEL
from hitherto_shared.database.connect import with_role
from hitherto_shared.database.embedded import EmbeddedPostgres
from hitherto_shared.database.lean import LeanConnection


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
    _stub: retrieval_service_pb2_grpc.RetrievalServiceAsyncStub
    _caller: BenchmarkProcess
    _reader: asyncio.StreamReader
    _writer: asyncio.StreamWriter

    async def call(
        self, port: int, asking: RequestStream, callers: int, seconds: float, key: str
    ) -> CallerResult:
        """Let the calling process work; the arguments are those of `CallerLoad`.

        Raises:
            BenchmarkFailed: A call was answered with an error.
        """
        load = CallerLoad(port, callers, seconds, asdict(asking), key)
        self._writer.write(json.dumps(asdict(load)).encode() + b"\n")
        await self._writer.drain()
        line = await self._reader.readline()
        if not line:
            raise BenchmarkFailed(f"the calling process ended; its log ends: {self._caller.said}")
        seen = CallerResult(**json.loads(line))
        if seen.error:
            raise BenchmarkFailed(
                f"{asking.kind} was answered with {seen.error}; the log of the service "
                f"ends: {self.service.said}"
            )
        return seen

    async def search(
        self, request: retrieval_service_pb2.SearchMemoriesRequest
    ) -> retrieval_service_pb2.SearchMemoriesResponse:
        """Search once, outside any measurement."""
        metadata = [("authorization", f"Bearer {self.key}")]
        return await self._stub.SearchMemories(request, metadata=metadata, timeout=10.0)

    async def delay(self, milliseconds: int) -> None:
        """Let the embeddings endpoint take so long from now on."""
        await self.embedder.get(f"{model_server.DELAY}{milliseconds}")

    def cpu(self, process: BenchmarkProcess) -> dict[str, float]:
        """CPU seconds up to now of a process, under the name of `service`, and of those behind."""
        assert self.postgres.pid is not None
        pids = {
            "service": process.pid,
            "postgres": self.postgres.pid,
            "embedder": self.embedder.pid,
        }
        return {name: cpu_seconds([pid]) for name, pid in pids.items()}


@asynccontextmanager
async def staged(
    folder: Path,
    postgres: EmbeddedPostgres,
    embedder: BenchmarkProcess,
    settings: Mapping[str, str],
) -> AsyncIterator[Stage]:
    """Start the processes beside a loaded database; leaving ends them.

    Args:
        folder: Whose `data` the database lies in.
        postgres: The database.
        embedder: The embeddings endpoint.
        settings: Environment variables of the service, beside those that it cannot do without.

    Raises:
        BenchmarkFailed: One did not come up.
    """
    async with AsyncExitStack() as stack:
        processes = stack.enter_context(Processes(folder))
        environment = {
            floor.CONNINFO: with_role(postgres.conninfo(), "hitherto_read", application="floor"),
            floor.MODEL: MODEL,
            floor.MODEL_PORT: str(embedder.port),
            floor.TENANT: TENANT,
        }
        floors = {
            kind: await processes.start("benchmarks.floor", [kind], **environment)
            for kind in ("echo", "select", "search")
        }
        service = await processes.start_service(
            "retrieval", embedder, **{"HITHERTO_AUTH": "api-key", **settings}
        )
        caller = await processes.start("benchmarks.retrieval.caller")
        reader, writer = await asyncio.open_connection("127.0.0.1", caller.port, limit=LINE_BYTES)
        stack.callback(writer.close)
        channel = await stack.enter_async_context(
            grpc.aio.insecure_channel(f"127.0.0.1:{service.port}")
        )
        yield Stage(
            folder=folder,
            postgres=postgres,
            embedder=embedder,
            service=service,
            floors=floors,
            key=await _key(postgres),
            _stub=retrieval_service_pb2_grpc.RetrievalServiceStub(channel),
            _caller=caller,
            _reader=reader,
            _writer=writer,
        )


async def _key(postgres: EmbeddedPostgres) -> str:
    async with await LeanConnection.connect(
        with_role(postgres.conninfo(), "hitherto_maintenance", application="benchmark"),
        autocommit=True,
    ) as connection:
        return await create_key(connection, tenant_id=TENANT, name="benchmark", scopes=["read"])
