"""Measures ourselves and the peers on one database server, one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg import sql

from benchmarks.command import Progress
from benchmarks.peers.loop import Task
from benchmarks.peers.running import Measured, Peer, PeerUnavailable, install, run
from benchmarks.processes import BenchmarkProcess
from benchmarks.report import load_average
from benchmarks.retrieval.figures import SUBJECTS, LatencyFigures
from benchmarks.retrieval.measure import DatabaseRun, people_of
from benchmarks.retrieval.person import Person
from benchmarks.retrieval.plan import MeasurementGroup, RetrievalOptions, in_small_store, users_of
from benchmarks.retrieval.stage import staged
from benchmarks.retrieval.wording import Questions
from benchmarks.serving import database, temporary_folder
from benchmarks.words import DIMENSIONS
from hitherto_shared.config import DEFAULT_EMBEDDING_MODEL as MODEL
from hitherto_shared.database.embedded import EmbeddedPostgres

_QUERIES = 4_000
_OURS = ("search", "search_semantic")


@dataclass
class PeerMeasurements:
    """What a run found; `unavailable` by peer, with the reason."""

    ours: list[Measured] = field(default_factory=list)
    peers: list[Measured] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    unavailable: dict[str, str] = field(default_factory=dict)
    load_average: list[float] = field(default_factory=list)


async def measure(
    options: RetrievalOptions, peers: Sequence[Peer], told: Progress
) -> PeerMeasurements:
    """Measure ourselves, then the peers, on one database server.

    Raises:
        BenchmarkFailed: A process of ours did not come up.
        BenchmarkFailed: Our service answered with an error.
    """
    found = PeerMeasurements(load_average=[load_average()])
    with temporary_folder() as folder:
        async with database(folder) as postgres:
            ours = DatabaseRun.on(postgres, options, people_of(options), told)
            try:
                await asyncio.to_thread(ours.load)
                async with staged(folder, postgres, options.settings) as stage:
                    rows = await ours.rows(stage, _groups(options))
                    found.ours = [_measured(row, options.limit) for row in rows]
                    one = _Peers(folder, postgres, stage.embedder, ours, told)
                    for peer in peers:
                        try:
                            await one.measure(peer, found)
                        except PeerUnavailable as reason:
                            found.unavailable[peer.name] = str(reason)
            finally:
                ours.close()
    found.load_average.append(load_average())
    return found


@dataclass(frozen=True, slots=True)
class _Peers:
    """What every peer works with."""

    folder: Path
    postgres: EmbeddedPostgres
    embedder: BenchmarkProcess
    ours: DatabaseRun
    told: Progress

    async def measure(self, peer: Peer, found: PeerMeasurements) -> None:
        """Install, load and measure one peer.

        Raises:
            PeerUnavailable: It cannot be.
        """
        own = self.folder / peer.name
        own.mkdir()
        self.told(f"{peer.name}: installing", 0, 1)
        python, version = await install(peer, own)
        found.peers += await run(peer, python, own, self._task(peer), self._loaded(peer))
        found.versions[peer.name] = version

    def _task(self, peer: Peer) -> Task:
        options, people = self.ours.options, self.ours.people
        return Task(
            conninfo=_own_database(self.postgres, peer),
            base_url=f"http://127.0.0.1:{self.embedder.port}/v1",
            model=MODEL,
            dimensions=DIMENSIONS,
            memories={person.user_id: [m.content for m in person.learnt] for person in people},
            asked={str(size): _asked(size, people) for size in options.sizes},
            limit=options.limit,
            seconds=options.seconds,
            callers=list(options.callers),
        )

    def _loaded(self, peer: Peer) -> Callable[[int], None]:
        return lambda done: self.told(f"{peer.name}: loading", done, self.ours.options.store)


def _own_database(postgres: EmbeddedPostgres, peer: Peer) -> str:
    name = peer.name.replace("-", "_")
    with psycopg.connect(postgres.superuser_conninfo(), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    with psycopg.connect(postgres.superuser_conninfo(name), autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
    return postgres.superuser_conninfo(name)


def _asked(size: int, people: Sequence[Person]) -> list[tuple[str, str]]:
    users = [person.user_id for person in people if person.size == size]
    questions = Questions(f"peers {size}")
    asking = (users[number % len(users)] for number in range(_QUERIES))
    return [(user, questions.ask(user)) for user in asking]


def _groups(options: RetrievalOptions) -> list[MeasurementGroup]:
    return [
        MeasurementGroup(in_small_store(options, size, callers), users_of(size), _OURS)
        for size in options.sizes
        for callers in options.callers
    ]


def _measured(row: LatencyFigures, limit: int) -> Measured:
    return Measured(
        name=SUBJECTS[row.subject],
        size=row.place.size,
        callers=row.place.callers,
        p50=row.p50,
        p95=row.p95,
        per_second=row.per_second,
        results=float(limit) if not row.faults else 0.0,
    )
