"""Everything a run needs, started fresh: a database filled with people, and processes beside it.

The extraction service imports each person from an export. It writes all rows that reading looks at,
and computes the vectors and indexes, as for any user. History, usage and jobs stay empty.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import psycopg

from benchmarks import BenchmarkFailed, floor
from benchmarks.command import progress
from benchmarks.processes import BenchmarkProcess, Processes, cpu_seconds
from benchmarks.retrieval.caller import CallerResult, RequestStream, work
from benchmarks.retrieval.person import Person, export_of
from benchmarks.retrieval.plan import FLOORS, RetrievalOptions, users_of
from benchmarks.serving import all_vectors, database, import_user, temporary_folder
from hitherto_client import AsyncHitherto
from hitherto_shared.auth.api_keys import create_key
from hitherto_shared.auth.principal import DEFAULT_TENANT as TENANT
from hitherto_shared.database.connect import with_role
from hitherto_shared.database.embedded import EmbeddedPostgres
from hitherto_shared.database.pipeline_connection import PipelineConnection
from hitherto_shared.model_settings import DEFAULT_EMBEDDING_MODEL as MODEL

Connection = psycopg.Connection[tuple[Any, ...]]

# Every table with rows of an imported user. The last part of an id, which is random, is made anew
# for each copy: ids still sort by time.
_TABLES = (
    "users profiles profile_versions preferences entities conversations messages "
    "conversation_summaries memories memory_embeddings memory_source_embeddings memory_sources "
    "memory_access postings entity_mentions message_embeddings summary_embeddings "
    "passage_postings passage_statistics"
).split()
_WRITTEN_COLUMNS = """
SELECT column_name
FROM information_schema.columns
WHERE table_schema = 'hitherto' AND table_name = %s
  AND is_generated = 'NEVER' AND is_identity = 'NO'
ORDER BY ordinal_position
"""
_NEW = {
    "user_id": "%(user_id)s",
    "memory_id": "overlay({}::text PLACING substr(md5(%(user_id)s || {}), 1, 12) FROM 25)::uuid",
    "entity_id": "md5(%(user_id)s || {})::uuid",
}


@dataclass(frozen=True, slots=True)
class Stage:
    """What runs, over a loaded store."""

    options: RetrievalOptions  # how much is measured
    people: Sequence[Person]  # those whose memories the small store holds
    folder: Path  # for files of this run; removed in the end
    postgres: EmbeddedPostgres  # the database
    connection: Connection  # an administrator's, from `connect`
    embedder: BenchmarkProcess  # the embeddings endpoint
    service: BenchmarkProcess  # the retrieval service
    floors: Mapping[str, BenchmarkProcess]  # by subject
    key: str  # an API key that may read
    _caller: ProcessPoolExecutor

    async def call(
        self,
        process: BenchmarkProcess,
        asking: RequestStream,
        callers: int,
        seconds: float,
        key: str,
    ) -> CallerResult:
        """Let the calling process send requests to a process.

        Raises:
            BenchmarkFailed: A call was answered with an error.
        """
        try:
            seen = await asyncio.get_running_loop().run_in_executor(
                self._caller, work, process.port, asking, callers, seconds, key
            )
        except BrokenProcessPool:
            raise BenchmarkFailed("the calling process ended") from None
        if seen.error:
            raise BenchmarkFailed(
                f"{asking.subject} was answered with {seen.error}; the log of the service "
                f"ends: {self.service.said}"
            )
        return seen

    def cpu(self, process: BenchmarkProcess) -> dict[str, float]:
        """CPU seconds up to now of a process, called `service`, and of those behind it."""
        assert self.postgres.pid is not None
        pids = {
            "service": process.pid,
            "postgres": self.postgres.pid,
            "embedder": self.embedder.pid,
        }
        return {name: cpu_seconds([pid]) for name, pid in pids.items()}

    async def delay(self, milliseconds: int) -> None:
        """Let the embeddings endpoint take so long from now on."""
        await self.embedder.get(f"/delay/{milliseconds}")


@asynccontextmanager
async def staged(options: RetrievalOptions) -> AsyncIterator[Stage]:
    """Everything started fresh in a temporary folder, with the small store loaded.

    Raises:
        BenchmarkFailed: A process did not come up.
    """
    now = datetime.now(UTC)
    people = [Person(user, size, now) for size in options.sizes for user in users_of(size)]
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(temporary_folder())
        progress("starting the database", 0, 1)
        postgres = await stack.enter_async_context(database(folder))
        processes = stack.enter_context(Processes(folder))
        embedder = await processes.start("benchmarks.model_server", ["--topics"])
        with Processes(folder) as loading:
            writer = await loading.start_service("extraction", embedder)
            await _import(writer, people)
            await all_vectors(postgres.conninfo())
        connection = stack.enter_context(connect(postgres.superuser_conninfo("hitherto")))
        await asyncio.to_thread(settle, connection)
        progress("starting the service", 0, 1)
        environment = {
            floor.CONNINFO: with_role(postgres.conninfo(), "hitherto_read", application="floor"),
            floor.MODEL: MODEL,
            floor.MODEL_PORT: str(embedder.port),
            floor.TENANT: TENANT,
        }
        floors = {
            subject: await processes.start(
                "benchmarks.floor", [subject.removeprefix("floor_")], **environment
            )
            for subject in FLOORS
        }
        settings = {"HITHERTO_AUTH": "api-key", **options.settings}
        service = await processes.start_service("retrieval", embedder, **settings)
        caller = stack.enter_context(ProcessPoolExecutor(1, mp_context=get_context("spawn")))
        yield Stage(
            options=options,
            people=people,
            folder=folder,
            postgres=postgres,
            connection=connection,
            embedder=embedder,
            service=service,
            floors=floors,
            key=await _key(postgres),
            _caller=caller,
        )


async def _import(writer: BenchmarkProcess, people: Sequence[Person]) -> None:
    done, total = 0, sum(person.size for person in people)
    async with AsyncHitherto(extraction=writer.address) as client:
        for person in people:
            await import_user(client, person.user_id, export_of(person))
            done += person.size
            progress("loading", done, total)


async def _key(postgres: EmbeddedPostgres) -> str:
    async with await PipelineConnection.connect(
        with_role(postgres.conninfo(), "hitherto_maintenance", application="benchmark"),
        autocommit=True,
    ) as connection:
        return await create_key(connection, tenant_id=TENANT, name="benchmark", scopes=["read"])


def connect(superuser_conninfo: str) -> Connection:
    """An administrator's connection that writes as the owner, without looking up references."""
    connection = psycopg.connect(superuser_conninfo, autocommit=True)
    connection.execute("SET search_path = hitherto, public")
    # Every copied row is right by construction; the owner alone could not say so.
    connection.execute("SET session_replication_role = replica")
    connection.execute("SET ROLE hitherto_owner")
    return connection


def clone(connection: Connection, copies: Mapping[str, str]) -> None:
    """Copy users with all that is theirs, inside the database; `copies` has new ids by old ones."""
    columns = {
        table: [row[0] for row in connection.execute(_WRITTEN_COLUMNS, [table])]
        for table in _TABLES
    }
    for user_id, copy in copies.items():
        with connection.transaction():
            for table, names in columns.items():
                values = ", ".join(_NEW.get(name, name).format(name, name) for name in names)
                statement = (
                    f"INSERT INTO {table} ({', '.join(names)}) SELECT {values} "
                    f"FROM {table} WHERE tenant_id = %(tenant_id)s AND user_id = %(original)s"
                )
                connection.execute(
                    statement.encode(),
                    {"tenant_id": TENANT, "original": user_id, "user_id": copy},
                )


def settle(connection: Connection) -> None:
    """Leave the database as it is some time after a load: with statistics, and written out."""
    connection.execute("RESET ROLE")
    connection.execute("VACUUM (ANALYZE)")
    connection.execute("CHECKPOINT")
    connection.execute("SET ROLE hitherto_owner")
