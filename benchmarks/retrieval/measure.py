"""One run: everything started fresh, loaded, measured and ended."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from benchmarks.profiler import recorded
from benchmarks.results import LOAD_BEFORE
from benchmarks.retrieval import loading
from benchmarks.retrieval.components import components
from benchmarks.retrieval.figures import IsolationCost, LatencyFigures, Recall, RetrievalReport
from benchmarks.retrieval.isolation import TURNS, measure_walls
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
from benchmarks.retrieval.rows import SLICES, Measuring
from benchmarks.retrieval.stage import Stage, database, machine, staged
from benchmarks.retrieval.starting import measure_start
from benchmarks.retrieval.writing import Connection
from hitherto_shared.database.embedded import EmbeddedPostgres

Progress = Callable[[str, int, int], None]
"""Told the phase, how many of it are done, and how many there are."""


async def measure(options: RetrievalOptions, progress: Progress) -> RetrievalReport:
    """Run the whole benchmark in temporary folders.

    Raises:
        ProcessFailed: A process did not come up.
        CallFailed: A call was answered with an error.
    """
    load_before = round(os.getloadavg()[0], 2)
    start = None
    if options.start:
        progress("starting cold and warm", 0, 1)
        start = await measure_start()
    with tempfile.TemporaryDirectory(prefix="hitherto-") as name:
        folder = Path(name)
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
        machine={
            **machine(version),
            LOAD_BEFORE: load_before,
            "load average after": round(os.getloadavg()[0], 2),
        },
        walls=walls,
    )


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
        connection = loading.connect(postgres.superuser_conninfo("hitherto"))
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

        loading.load(self.connection, self.people, loaded)
        loading.settle(self.connection)

    def enlarge(self) -> None:
        """Make the large store of the small one."""
        users = [person.user_id for person in self.people]
        for number in range(1, COPIES):
            self.progress("enlarging the store", number, COPIES - 1)
            loading.clone(self.connection, {user: copy_of(user, number) for user in users})
        self.progress("settling", 0, 1)
        loading.settle(self.connection)

    async def measure(self, stage: Stage) -> tuple[list[LatencyFigures], list[Recall]]:
        """All rows of both stores, and recall in the small one."""
        recall: list[Recall] = []
        if self.options.recall:
            recall = await measure_recall(
                stage,
                self.people,
                repeats=self.options.recall,
                weights=await components(stage, self.people[0].user_id),
                searched=lambda done: self.progress("recall", done, len(self.people)),
            )
        with recorded(stage.service.pid, self.options.profile):
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
            weights=await components(stage, self.people[0].user_id),
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

        weights = await components(stage, self.people[0].user_id)
        measuring = Measuring(stage, limit=self.options.limit, weights=weights, measured=measured)
        rows: list[LatencyFigures] = []
        for group in planned:
            rows += await measuring.rows(
                group.place, group.users, group.subjects, self.options.seconds
            )
        return rows
