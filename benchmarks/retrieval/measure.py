"""One run: everything started fresh, loaded, measured and ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import grpc

from benchmarks.command import Progress
from benchmarks.processes import Processes
from benchmarks.report import load_average, machine
from benchmarks.retrieval import writing
from benchmarks.retrieval.figures import (
    IsolationCost,
    LatencyFigures,
    Recall,
    RetrievalReport,
    Start,
)
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
from benchmarks.retrieval.rows import SLICES, TURNS, Measuring, measure_walls
from benchmarks.retrieval.stage import Stage, service_settings, staged
from benchmarks.retrieval.writing import Connection
from benchmarks.serving import database, temporary_folder
from hitherto.v1 import retrieval_service_pb2, retrieval_service_pb2_grpc
from hitherto_shared.database.embedded import EmbeddedPostgres

_ANSWER_SECONDS = 60.0


async def measure(options: RetrievalOptions, progress: Progress) -> RetrievalReport:
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
    with temporary_folder() as folder:
        progress("starting the database", 0, 1)
        async with database(folder) as postgres:
            run = DatabaseRun.on(postgres, options, people_of(options), progress)
            version = run.connection.info.server_version
            try:
                await asyncio.to_thread(run.load)
                progress("starting the service", 0, 1)
                async with staged(folder, postgres, options.settings) as stage:
                    rows, recall = await run.measure(stage)
                    walls = await run.walls(stage) if options.walls else None
            finally:
                run.close()
    return RetrievalReport(
        rows=rows,
        limit=options.limit,
        start=start,
        recall=recall,
        machine=machine(load_before, version),
        walls=walls,
    )


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
        service = await processes.start(
            "hitherto_retrieval", **{**service_settings(folder), "HITHERTO_AUTH": "off"}
        )
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


@dataclass(frozen=True, slots=True)
class DatabaseRun:
    """The parts of a run on one database."""

    options: RetrievalOptions
    connection: Connection
    people: Sequence[Person]
    progress: Progress

    @classmethod
    def on(
        cls,
        postgres: EmbeddedPostgres,
        options: RetrievalOptions,
        people: Sequence[Person],
        progress: Progress,
    ) -> Self:
        """A run on a database from `database`, for people from `people_of`; to be closed."""
        connection = writing.connect(postgres.superuser_conninfo("hitherto"))
        return cls(options, connection, people, progress)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def load(self) -> None:
        """Make the small store."""
        done = 0

        def loaded(person: Person) -> None:
            nonlocal done
            done += person.size
            self.progress("loading", done, self.options.store)

        writing.load(self.connection, self.people, loaded)
        writing.settle(self.connection)

    def enlarge(self) -> None:
        """Make the large store of the small one."""
        users = [person.user_id for person in self.people]
        for number in range(1, COPIES):
            self.progress("enlarging the store", number, COPIES - 1)
            writing.clone(self.connection, {user: copy_of(user, number) for user in users})
        self.progress("settling", 0, 1)
        writing.settle(self.connection)

    async def measure(self, stage: Stage) -> tuple[list[LatencyFigures], list[Recall]]:
        """All rows of both stores, and recall in the small one."""
        recall: list[Recall] = []
        if self.options.recall:
            recall = await measure_recall(
                stage,
                self.people,
                repeats=self.options.recall,
                weights=await stage.components(self.people[0].user_id),
                searched=lambda done: self.progress("recall", done, len(self.people)),
            )
        rows = await self.rows(stage, small_store(self.options))
        if self.options.full:
            await asyncio.to_thread(self.enlarge)
            rows += await self.rows(stage, large_store(self.options))
        return rows, recall

    async def walls(self, stage: Stage) -> IsolationCost:
        """What the walls cost those with the fewest memories, who feel it most."""
        size = min(self.options.sizes)
        return await measure_walls(
            stage,
            self.connection,
            users_of(size),
            size=size,
            seconds=self.options.seconds,
            limit=self.options.limit,
            weights=await stage.components(self.people[0].user_id),
            measured=lambda done: self.progress("walls", done, TURNS),
        )

    async def rows(self, stage: Stage, groups: Iterable[MeasurementGroup]) -> list[LatencyFigures]:
        """The rows of some groups."""
        planned = list(groups)
        total = sum(len(group.subjects) for group in planned) * SLICES
        done = 0

        def measured() -> None:
            nonlocal done
            done += 1
            self.progress("measuring", done, total)

        weights = await stage.components(self.people[0].user_id)
        measuring = Measuring(stage, limit=self.options.limit, weights=weights, measured=measured)
        rows: list[LatencyFigures] = []
        for group in planned:
            rows += await measuring.rows(
                group.place, group.users, group.subjects, self.options.seconds
            )
        return rows
