"""Measures ourselves and the peers on one database server; see the package for how."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from benchmarks.command import Benchmark, main, progress
from benchmarks.peers.stores import FOUND, LOADED, Task
from benchmarks.processes import ROOT
from benchmarks.report import BenchmarkResult, FigureTable, JudgedBar, ResultPart, percentile
from benchmarks.retrieval.__main__ import sizes
from benchmarks.retrieval.measure import measure_groups
from benchmarks.retrieval.person import Person
from benchmarks.retrieval.plan import SUBJECTS, RetrievalOptions, group_of, users_of
from benchmarks.retrieval.stage import Stage, staged
from benchmarks.retrieval.wording import Questions
from benchmarks.words import DIMENSIONS
from hitherto_shared.database.embedded import EmbeddedPostgres
from hitherto_shared.model_settings import DEFAULT_EMBEDDING_MODEL as MODEL

RUN_SECONDS = 1_200.0
"""For installing, loading and searching."""
_LINE_BYTES = 1 << 26
_TOLD = 400
_QUERIES = 4_000
_OURS = ("search", "search_semantic")
SEARCH, SEMANTIC = (SUBJECTS[subject] for subject in _OURS)
ONE, MANY = 1, 32
# By what is asked and how many memories a user has: times the speed of one call, and times the
# requests a second of many callers.
_BARS: Mapping[tuple[str, int], tuple[float, float]] = {
    (SEARCH, 200): (4.0, 6.0),
    (SEARCH, 2_000): (4.0, 8.0),
}
PEERS: Mapping[str, Sequence[str]] = {
    "mem0ai": ("mem0ai>=2.2,<2.3", "psycopg[binary,pool]>=3.2,<4"),
    "langgraph-checkpoint-postgres": (
        "langgraph-checkpoint-postgres>=3.2,<3.3",
        "langgraph",
        "psycopg[binary,pool]>=3.2,<4",
    ),
}
"""What is installed of each peer, by its package."""


class PeerUnavailable(RuntimeError):
    """A peer cannot be compared with; the message says why."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One measurement: by whom, of users with so many memories, with so many callers.

    `results` is how many a search had on average.
    """

    name: str
    size: int
    callers: int
    p50: float
    p95: float
    per_second: float
    results: float


_COMPARED: Sequence[tuple[str, int, Callable[[Measured], float]]] = (
    ("p50", ONE, lambda each: 1 / each.p50),
    ("requests/s", MANY, lambda each: each.per_second),
)
"""The figures that bars compare: with how many callers, and how fast a measurement is by it."""


async def measure(options: RetrievalOptions, peers: Sequence[str]) -> BenchmarkResult:
    """Measure ourselves, then the peers, on one database server.

    Raises:
        BenchmarkFailed: A process of ours did not come up.
        BenchmarkFailed: Our service answered with an error.
    """
    theirs: list[Measured] = []
    unavailable: list[str] = []
    async with staged(options) as stage:
        groups = [
            group_of(options.store, size, callers, _OURS, users_of(size))
            for size in options.sizes
            for callers in options.callers
        ]
        ours = [
            Measured(
                name=SUBJECTS[row.subject],
                size=row.place.size,
                callers=row.place.callers,
                p50=row.p50,
                p95=row.p95,
                per_second=row.per_second,
                results=float(options.limit) if not row.faults else 0.0,
            )
            for row in await measure_groups(stage, groups)
        ]
        for peer in peers:
            try:
                theirs += await _measure_peer(stage, peer)
            except PeerUnavailable as reason:
                unavailable.append(f"{peer}: {reason}")
    return BenchmarkResult("peers", [_part(ours, theirs, unavailable)])


def _part(
    ours: Sequence[Measured], theirs: Sequence[Measured], unavailable: Sequence[str]
) -> ResultPart:
    rows = []
    figures: dict[str, float] = {}
    for each in (*ours, *theirs):
        times = (f"{each.p50:.2f}", f"{each.p95:.2f}", f"{each.per_second:,.0f}")
        rows.append((each.name, f"{each.size:,}", str(each.callers), *times, f"{each.results:g}"))
        name = f"{each.name}, {each.size:,} memories a user, {each.callers} callers"
        figures[f"{name}: p50 ms"] = each.p50
        figures[f"{name}: p95 ms"] = each.p95
        figures[f"{name}: requests/s"] = each.per_second
    title = "the same searches on the same data"
    columns = ("store", "memories a user", "callers", "p50 ms", "p95", "requests/s", "results")
    table = FigureTable(title, columns, rows)
    return ResultPart(title, figures, [table], list(bars(ours, theirs)), unavailable)


def bars(ours: Sequence[Measured], peers: Sequence[Measured]) -> Iterator[JudgedBar]:
    """Every bar for which both sides were measured; the peer is the fastest one at that figure."""
    for (name, size), of_figures in _BARS.items():
        for (figure, callers, speed), least in zip(_COMPARED, of_figures, strict=True):
            place = (size, callers)
            mine = [each for each in ours if (each.size, each.callers) == place]
            mine = [each for each in mine if each.name == name]
            others = [each for each in peers if (each.size, each.callers) == place]
            if mine and others:
                fastest = max(others, key=speed)
                times = speed(mine[0]) / speed(fastest)
                yield JudgedBar(
                    name,
                    f"{figure}, {size:,} memories a user, by {fastest.name}",
                    f"{times:.1f} times as fast",
                    f"≥ {least:g}",
                    round(times, 2) >= least,
                )


async def _measure_peer(stage: Stage, peer: str) -> Sequence[Measured]:
    """Install, load and measure one peer, in an environment that is gone afterwards.

    Raises:
        PeerUnavailable: It cannot be.
    """
    options, people = stage.options, stage.people
    own = stage.folder / peer
    own.mkdir()
    task = Task(
        conninfo=_own_database(stage.postgres, peer.replace("-", "_")),
        base_url=f"http://{stage.embedder.address}/v1",
        model=MODEL,
        dimensions=DIMENSIONS,
        memories={person.user_id: [m.row["content"] for m in person.learnt] for person in people},
        asked={str(size): _asked(size, people) for size in options.sizes},
        limit=options.limit,
        seconds=options.seconds,
        callers=list(options.callers),
    )
    progress(f"{peer}: installing", 0, 1)
    wanted = [f"--with={package}" for package in PEERS[peer]]
    isolated = ("run", "--quiet", "--isolated", "--no-project", "--python", sys.executable)
    return await run_peer(
        peer, (sys.executable, "-m", "uv", *isolated, *wanted, "--", "python"), own, task
    )


async def run_peer(
    peer: str, python: Sequence[str], folder: Path, task: Task
) -> Sequence[Measured]:
    """Let a peer load and search.

    Args:
        peer: Its package.
        python: The command that starts Python in the environment of the peer.
        folder: For its files.
        task: What it is to do.

    Raises:
        PeerUnavailable: It failed, ended without figures, or took too long.
    """
    file = folder / "task.json"
    file.write_text(json.dumps(asdict(task)), "utf-8")
    passed_on = {
        name: value
        for name, value in os.environ.items()
        if name == "PATH" or name.startswith(("UV_", "SSL_")) or name.lower().endswith("_proxy")
    }
    environment = passed_on | {
        "HOME": str(folder),
        "NO_PROXY": f"127.0.0.1,{os.environ.get('NO_PROXY', '')}",
        "MEM0_TELEMETRY": "False",
        "OPENAI_API_KEY": "none",
    }
    memories = sum(map(len, task.memories.values()))
    found: list[Any] = []
    process = await asyncio.create_subprocess_exec(
        *(*python, "-m", "benchmarks.peers.stores", peer, str(file)),
        cwd=ROOT,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        limit=_LINE_BYTES,
    )
    assert process.stdout is not None
    said = ""
    try:
        async with asyncio.timeout(RUN_SECONDS):
            async for data in process.stdout:
                line = data.decode("utf-8", "replace").rstrip("\n")
                if line.startswith(LOADED):
                    progress(f"{peer}: loading", int(line.removeprefix(LOADED)), memories)
                elif line.startswith(FOUND):
                    found = json.loads(line.removeprefix(FOUND))
                said = f"{said} {line}"[-_TOLD:]
            await process.wait()
    except TimeoutError:
        raise PeerUnavailable(f"it was not done within {RUN_SECONDS:.0f} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise PeerUnavailable(f"it failed: {' '.join(said.split())}")
    if not found:
        raise PeerUnavailable("it ended without figures")
    return [
        Measured(
            name=each["name"],
            size=each["size"],
            callers=each["callers"],
            p50=round(percentile(each["ms"], 0.50), 3),
            p95=round(percentile(each["ms"], 0.95), 3),
            per_second=round(len(each["ms"]) / each["seconds"], 1),
            results=round(each["results"], 1),
        )
        for each in found
    ]


def _own_database(postgres: EmbeddedPostgres, name: str) -> str:
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


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sizes", type=sizes, default=(200, 2_000), help="default: 200,2000")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--only", action="append", choices=list(PEERS))


async def _measure(given: argparse.Namespace) -> BenchmarkResult:
    options = RetrievalOptions(
        sizes=given.sizes, callers=(ONE, MANY), seconds=given.seconds, extras=False
    )
    return await measure(options, given.only or list(PEERS))


BENCHMARK = Benchmark(
    name="peers",
    description="Measure the same searches in other memory stores.",
    arguments=_arguments,
    measure=_measure,
    timed=True,
)

if __name__ == "__main__":
    main(BENCHMARK)
