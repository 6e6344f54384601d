"""One run: everything started fresh, loaded, measured and ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import grpc

from benchmarks.command import Progress, counting
from benchmarks.processes import Processes
from benchmarks.report import BenchmarkResult, load_average, machine, timed
from benchmarks.retrieval import writing
from benchmarks.retrieval.figures import LatencyFigures, Recall, RetrievalMeasurements, Start
from benchmarks.retrieval.person import Person
from benchmarks.retrieval.plan import (
    COPIES,
    MeasurementGroup,
    RetrievalOptions,
    copy_of,
    large_store,
    small_store,
    users_of,
)
from benchmarks.retrieval.recall import measure_recall
from benchmarks.retrieval.report import retrieval_part
from benchmarks.retrieval.rows import SLICES, TURNS, measure_group, measure_walls
from benchmarks.retrieval.stage import Stage, staged
from benchmarks.retrieval.writing import Connection
from benchmarks.serving import database, temporary_folder
from hitherto.v1 import retrieval_service_pb2, retrieval_service_pb2_grpc

_ANSWER_SECONDS = 60.0


async def measure(options: RetrievalOptions, progress: Progress) -> BenchmarkResult:
    """Run the whole benchmark in temporary folders.

    Raises:
        BenchmarkFailed: A process did not come up.
        BenchmarkFailed: A call was answered with an error.
    """
    load_before = load_average()
    start = None
    if options.start:
        progress("starting cold and warm", 0, 1)
        start = await measure_start()
    async with staged_run(options, progress) as run:
        version = run.connection.info.server_version
        measured = await run.measure(start)
    part = timed(retrieval_part(measured), machine(load_before, version))
    return BenchmarkResult("retrieval", [part])


async def measure_start() -> Start:
    """Start twice in a new folder: the first time there is no database yet.

    Authentication is off: before the first start there is no key.

    Raises:
        BenchmarkFailed: The service did not come up.
    """
    with temporary_folder() as folder:
        return Start(cold=await _seconds(folder), warm=await _seconds(folder))


async def _seconds(folder: Path) -> float:
    began = time.perf_counter()
    with Processes(folder) as processes:
        service = await processes.start_service("retrieval", HITHERTO_AUTH="off")
        async with grpc.aio.insecure_channel(f"127.0.0.1:{service.port}") as channel:
            await retrieval_service_pb2_grpc.RetrievalServiceStub(channel).SearchMemories(
                retrieval_service_pb2.SearchMemoriesRequest(user_id="nobody", query="anything"),
                timeout=_ANSWER_SECONDS,
                wait_for_ready=True,
            )
        return round(time.perf_counter() - began, 2)


def people_of(options: RetrievalOptions) -> list[Person]:
    """Those whose memories make up the small store."""
    now = datetime.now(UTC)
    return [Person(user, size, now) for size in options.sizes for user in users_of(size)]


@asynccontextmanager
async def staged_run(options: RetrievalOptions, progress: Progress) -> AsyncIterator[DatabaseRun]:
    """Everything started fresh in a temporary folder, with the small store loaded.

    Raises:
        BenchmarkFailed: A process did not come up.
    """
    people = people_of(options)
    done = 0

    def loaded(person: Person) -> None:
        nonlocal done
        done += person.size
        progress("loading", done, options.store)

    async with AsyncExitStack() as stack:
        folder = stack.enter_context(temporary_folder())
        progress("starting the database", 0, 1)
        postgres = await stack.enter_async_context(database(folder))
        processes = stack.enter_context(Processes(folder))
        embedder = await processes.start("benchmarks.model_server", ["--topics"])
        await writing.load(folder, postgres, embedder, people, loaded)
        connection = stack.enter_context(writing.connect(postgres.superuser_conninfo("hitherto")))
        await asyncio.to_thread(writing.settle, connection)
        progress("starting the service", 0, 1)
        stage = await stack.enter_async_context(
            staged(folder, postgres, embedder, options.settings)
        )
        yield DatabaseRun(options, connection, people, progress, stage)


@dataclass(frozen=True, slots=True)
class DatabaseRun:
    """The parts of a run on one database."""

    options: RetrievalOptions
    connection: Connection
    people: Sequence[Person]
    progress: Progress
    stage: Stage

    def enlarge(self) -> None:
        """Make the large store of the small one."""
        users = [person.user_id for person in self.people]
        for number in range(1, COPIES):
            self.progress("enlarging the store", number, COPIES - 1)
            writing.clone(self.connection, {user: copy_of(user, number) for user in users})
        self.progress("settling", 0, 1)
        writing.settle(self.connection)

    async def measure(self, start: Start | None) -> RetrievalMeasurements:
        """Recall and all rows of the small store, those of the large one, and the walls."""
        options, people, progress = self.options, self.people, self.progress
        recall: Sequence[Recall] = ()
        if options.recall:
            recall = await measure_recall(
                self.stage,
                people,
                repeats=options.recall,
                searched=lambda done: progress("recall", done, len(people)),
            )
        rows = await self.rows(small_store(options))
        if options.full:
            await asyncio.to_thread(self.enlarge)
            rows += await self.rows(large_store(options))
        walls = None
        if options.walls:
            # Those with the fewest memories feel it most.
            users = users_of(min(options.sizes))
            walls = await measure_walls(
                self.stage,
                self.connection,
                users,
                options,
                measured=lambda done: progress("walls", done, TURNS),
            )
        return RetrievalMeasurements(rows, start, recall, walls)

    async def rows(self, groups: Iterable[MeasurementGroup]) -> list[LatencyFigures]:
        """The rows of some groups."""
        planned = list(groups)
        total = sum(len(group.subjects) for group in planned) * SLICES
        sliced = counting(self.progress, "measuring", total)
        return [
            row
            for group in planned
            for row in await measure_group(self.stage, group, self.options, sliced)
        ]
