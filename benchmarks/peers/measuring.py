"""Measures ourselves and the peers on one database server, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg
from psycopg import sql

from benchmarks.command import Progress
from benchmarks.peers.loop import Task
from benchmarks.peers.running import Measured, Peer, PeerUnavailable, bars, install, run_peer
from benchmarks.report import (
    BenchmarkResult,
    FigureTable,
    ResultPart,
    load_average,
    machine,
    timed,
)
from benchmarks.retrieval.figures import SUBJECTS, LatencyFigures
from benchmarks.retrieval.measure import DatabaseRun, staged_run
from benchmarks.retrieval.person import Person
from benchmarks.retrieval.plan import MeasurementGroup, RetrievalOptions, in_small_store, users_of
from benchmarks.retrieval.wording import Questions
from benchmarks.words import DIMENSIONS
from hitherto_shared.config import DEFAULT_EMBEDDING_MODEL as MODEL
from hitherto_shared.database.embedded import EmbeddedPostgres

_QUERIES = 4_000
_OURS = ("search", "search_semantic")


async def measure(
    options: RetrievalOptions, peers: Sequence[Peer], progress: Progress
) -> BenchmarkResult:
    """Measure ourselves, then the peers, on one database server.

    Raises:
        BenchmarkFailed: A process of ours did not come up.
        BenchmarkFailed: Our service answered with an error.
    """
    theirs: list[Measured] = []
    unavailable: list[str] = []
    load_before = load_average()
    async with staged_run(options, progress) as run:
        version = run.connection.info.server_version
        rows = await run.rows(_groups(options))
        for peer in peers:
            try:
                theirs += await _measure_peer(run, peer)
            except PeerUnavailable as reason:
                unavailable.append(f"{peer.name}: {reason}")
    ours = [_measured(row, options.limit) for row in rows]
    part = timed(_part(ours, theirs, unavailable), machine(load_before, version))
    return BenchmarkResult("peers", [part])


async def _measure_peer(run: DatabaseRun, peer: Peer) -> Sequence[Measured]:
    """Install, load and measure one peer.

    Raises:
        PeerUnavailable: It cannot be.
    """
    stage, store = run.stage, run.options.store
    own = stage.folder / peer.name
    own.mkdir()
    run.progress(f"{peer.name}: installing", 0, 1)
    python, named = await install(peer, own)
    task = _task(run, _own_database(stage.postgres, peer))
    return await run_peer(
        peer,
        named,
        python,
        own,
        task,
        loaded=lambda done: run.progress(f"{peer.name}: loading", done, store),
    )


def _part(
    ours: Sequence[Measured], theirs: Sequence[Measured], unavailable: Sequence[str]
) -> ResultPart:
    measured = [*ours, *theirs]
    rows = [
        (
            each.name,
            f"{each.size:,}",
            str(each.callers),
            f"{each.p50:.2f}",
            f"{each.p95:.2f}",
            f"{each.per_second:,.0f}",
            f"{each.results:g}",
        )
        for each in measured
    ]
    columns = ("store", "memories a user", "callers", "p50 ms", "p95", "requests/s", "results")
    figures = {
        f"{each.name}, {each.size:,} memories a user, {each.callers} callers: {of}": value
        for each in measured
        for of, value in (
            ("p50 ms", each.p50),
            ("p95 ms", each.p95),
            ("requests/s", each.per_second),
        )
    }
    title = "the same searches on the same data"
    return ResultPart(
        title, figures, [FigureTable(title, columns, rows)], list(bars(ours, theirs)), unavailable
    )


def _task(run: DatabaseRun, conninfo: str) -> Task:
    options, people = run.options, run.people
    return Task(
        conninfo=conninfo,
        base_url=f"http://127.0.0.1:{run.stage.embedder.port}/v1",
        model=MODEL,
        dimensions=DIMENSIONS,
        memories={person.user_id: [m.content for m in person.learnt] for person in people},
        asked={str(size): _asked(size, people) for size in options.sizes},
        limit=options.limit,
        seconds=options.seconds,
        callers=list(options.callers),
    )


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
