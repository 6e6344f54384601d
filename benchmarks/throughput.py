"""The cost of an extraction: bar P5, measured on the whole service with an instant model.

Transcripts go through `SubmitTranscripts`, a bounded number unfinished at a time, then one at a
time to the idle service. The floor is what a process must spend at least that takes a call over
gRPC, stores it in one INSERT and makes two HTTP calls by hand. benchmarks/README.md has the rest.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from itertools import cycle
from typing import Any, NamedTuple

import grpc
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from benchmarks import BenchmarkFailed, floor
from benchmarks.command import Benchmark, add_counts, main, progress
from benchmarks.processes import BenchmarkProcess, Processes, cpu_seconds, resident_bytes
from benchmarks.report import BenchmarkResult, FigureTable, JudgedBar, ResultPart, percentile
from benchmarks.serving import database, in_turns, temporary_folder
from benchmarks.words import sentence
from hitherto.v1 import extraction_service_pb2, extraction_service_pb2_grpc
from hitherto_client.wire import build
from hitherto_shared.database.embedded import EmbeddedPostgres

COUNTS: Mapping[str, tuple[int | None, str]] = {
    "transcripts": (2_000, "measured under load; 20000 is the long form, for memory"),
    "users": (None, "default: a quarter of the transcripts"),
    "services": (1, "processes of the extraction service"),
    "in_flight": (32, "transcripts unfinished at a time"),
    "warm_up": (100, "transcripts before anything is measured"),
    "idle": (50, "transcripts sent to the idle service"),
    "floor": (1_000, "calls of the floor"),
}
"""The options: defaults and meanings."""
MESSAGES = 20
_WORDS = (10, 40)
_FIRST = datetime(2026, 1, 5, 9, tzinfo=UTC)
_CALL_SECONDS = 30.0
_LOOK_SECONDS = 0.05
_STALLED_SECONDS = 30.0
_SAMPLE_SECONDS = 0.5
# Pauses that fall on every part of a service's own rounds.
_PAUSES = (0.1, 0.18, 0.26, 0.13, 0.22)

_STATES = "SELECT state, count(*) FROM jobs WHERE conversation_id LIKE %s GROUP BY state"
_UNFINISHED = "SELECT count(*) FROM jobs WHERE state IN ('queued', 'failed', 'running')"
_ERRORS = """
SELECT DISTINCT error FROM jobs WHERE conversation_id LIKE %s AND error <> '' LIMIT 3
"""
_WAITS = """
SELECT 1000 * date_part('epoch', started_at - created_at),
       1000 * date_part('epoch', finished_at - created_at)
FROM jobs
WHERE conversation_id LIKE %s AND state = 'succeeded'
"""

LONG_RUN = 20_000
"""Transcripts of the run over which memory is to stay flat."""
_WARM_SHARE = 0.1
_MIB = 2**20


class FigureKind(NamedTuple):
    """How a figure is printed, and between which values it must lie if it has a bar."""

    name: str
    unit: str = ""
    digits: int = 1
    least: float = float("-inf")
    most: float = float("inf")
    bar: str = ""

    def shown(self, value: float) -> str:
        """A value with its unit."""
        return f"{value:,.{self.digits}f} {self.unit}".strip()


KINDS: Mapping[str, FigureKind] = {
    "service_cpu": FigureKind(
        "CPU of the service per transcript", "ms", most=12.0, bar="≤ 12 ms, aim 6"
    ),
    "postgres_cpu": FigureKind("CPU of Postgres per transcript", "ms", most=7.0, bar="≤ 7 ms"),
    "rate": FigureKind("transcripts per second", least=70.0, bar="≥ 70"),
    "chat_calls": FigureKind(
        "calls of the language model per transcript", digits=3, least=1.0, most=1.0, bar="1"
    ),
    "embeddings_calls": FigureKind(
        "embedding calls per transcript", digits=3, least=1.0, most=1.0, bar="1"
    ),
    "idle_start_p50": FigureKind(
        "acceptance to start of the job when idle, p50", "ms", most=50.0, bar="≤ 50 ms"
    ),
    "memory_growth": FigureKind(
        "growth of resident memory once warm", "%", most=10.0, bar=f"≤ 10 % over {LONG_RUN:,}"
    ),
    "floor_cpu": FigureKind("floor: CPU per call", "ms", digits=2),
    "by_floor": FigureKind("CPU of the service by that of the floor"),
    "idle_start_p95": FigureKind("acceptance to start of the job when idle, p95", "ms"),
    "idle_end_p50": FigureKind("acceptance to end of the job when idle, p50", "ms"),
    "idle_end_p95": FigureKind("acceptance to end of the job when idle, p95", "ms"),
    "memory_before": FigureKind("resident memory before", "MiB", digits=0),
    "memory_warm": FigureKind("resident memory after a tenth of the load", "MiB", digits=0),
    "memory_end": FigureKind("resident memory at its end", "MiB", digits=0),
}
"""Every figure of a run, those with a bar first."""


def spread(name: str, times: Sequence[float]) -> dict[str, float]:
    """The middle of some times, and what 95 of 100 stay below."""
    return {f"{name}_p50": statistics.median(times), f"{name}_p95": percentile(times, 0.95)}


def resident_memory(samples: Sequence[tuple[int, int]], transcripts: int) -> dict[str, float]:
    """Resident memory of the services, from samples in order: transcripts done, and bytes."""
    warm = next(used for done, used in samples if done >= _WARM_SHARE * transcripts)
    last = samples[-1][1]
    return {
        "memory_before": samples[0][1] / _MIB,
        "memory_warm": warm / _MIB,
        "memory_end": last / _MIB,
        "memory_growth": 100 * (last - warm) / warm,
    }


def throughput_part(title: str, measured: Mapping[str, float], transcripts: int) -> ResultPart:
    """The figures of a run with their bars; a short run is not judged by its memory."""
    bars, rows = [], []
    for key, kind in KINDS.items():
        value = measured[key]
        if kind.bar:
            judged = key != "memory_growth" or transcripts >= LONG_RUN
            met = kind.least <= value <= kind.most if judged else None
            bars.append(JudgedBar("P5", kind.name, kind.shown(value), kind.bar, met))
        else:
            rows.append((kind.name, kind.shown(value)))
    table = FigureTable(f"What it consists of: {title}", ("figure", "measured"), rows)
    figures = {kind.name: measured[key] for key, kind in KINDS.items()}
    return ResultPart(title, figures, [table], bars)


def request(phase: str, number: int, users: int) -> extraction_service_pb2.SubmitTranscriptsRequest:
    """Transcript `number` of a phase: a new conversation of one of `users` users.

    It is the same in every run. The phase begins the conversation's id, so that jobs can be told
    apart by phase. Neighbouring numbers belong to different users.
    """
    rng = random.Random(f"{phase} {number}")
    began = _FIRST + timedelta(hours=number)
    messages = [
        {
            "id": f"m{i}",
            "role": "assistant" if i % 2 else "user",
            "content": sentence(rng, rng.randint(*_WORDS)),
            "created_at": began + timedelta(minutes=i),
        }
        for i in range(MESSAGES)
    ]
    transcript = {
        "user_id": f"user-{number % users}",
        "conversation_id": f"{phase}-{number}",
        "messages": messages,
    }
    return build(extraction_service_pb2.SubmitTranscriptsRequest, transcripts=[transcript])


class Driver:
    """Sends phases of transcripts to services that share a database, and asks it how far they are.

    The services are asked nothing: their CPU is that of taking transcripts and working on them.

    Args:
        channels: To the services; calls take turns.
        connection: An administrator's connection, in autocommit.
        users: Over how many users transcripts are spread.
    """

    def __init__(
        self, channels: Sequence[grpc.aio.Channel], connection: AsyncConnection, users: int
    ) -> None:
        self._stubs: list[Any] = [
            extraction_service_pb2_grpc.ExtractionServiceStub(channel) for channel in channels
        ]
        self._connection = connection
        self._users = users

    async def run(
        self,
        phase: str,
        transcripts: int,
        in_flight: int,
        finished: Callable[[int], None] = lambda done: None,
        pauses: Sequence[float] = (_LOOK_SECONDS,),
    ) -> float:
        """Send a phase; seconds from the first call to the end of the last job.

        Args:
            phase: Its name, new in this run.
            transcripts: How many.
            in_flight: How many may be unfinished at a time.
            finished: Is told every now and then how many are done.
            pauses: Seconds between two looks at how many are done, in turn.

        Raises:
            BenchmarkFailed: Some jobs did not succeed.
        """
        began = moved = time.monotonic()
        done = sent = 0
        pause = cycle(pauses)
        while done < transcripts and time.monotonic() - moved <= _STALLED_SECONDS:
            following = range(sent, min(done + in_flight, transcripts))
            await asyncio.gather(*(self._submit(phase, number) for number in following))
            sent += len(following)
            await asyncio.sleep(next(pause))
            ((unfinished,),) = await self._rows(_UNFINISHED)
            if sent - unfinished > done:
                done, moved = sent - unfinished, time.monotonic()
                progress(phase, done, transcripts)
                finished(done)
        seconds = time.monotonic() - began
        states = dict(await self._rows(_STATES, f"{phase}-%"))
        if states != {"succeeded": transcripts}:
            errors = await self._rows(_ERRORS, f"{phase}-%")
            told = "; ".join(error for (error,) in errors) or "no error is noted"
            raise BenchmarkFailed(
                f"{transcripts} transcripts were to succeed; their jobs stand at {states}: {told}"
            )
        return seconds

    async def waits(self, phase: str) -> tuple[list[float], list[float]]:
        """Milliseconds from acceptance to the start of each job of a phase, and to its end."""
        rows = await self._rows(_WAITS, f"{phase}-%")
        return [float(row[0]) for row in rows], [float(row[1]) for row in rows]

    async def _submit(self, phase: str, number: int) -> None:
        stub = self._stubs[number % len(self._stubs)]
        await stub.SubmitTranscripts(request(phase, number, self._users), timeout=_CALL_SECONDS)

    async def _rows(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        return await (await self._connection.execute(query.encode(), values or None)).fetchall()


async def measure(given: argparse.Namespace) -> BenchmarkResult:
    """Run the whole benchmark in a temporary folder.

    Raises:
        BenchmarkFailed: A process did not come up.
        BenchmarkFailed: Jobs did not succeed.
    """
    users = given.users or max(1, given.transcripts // 4)
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(temporary_folder())
        progress("starting", 0, 1)
        postgres = await stack.enter_async_context(database(folder))
        processes = stack.enter_context(Processes(folder))
        model = await processes.start("benchmarks.model_server")
        services = [
            await processes.start_service("extraction", model) for _ in range(given.services)
        ]
        login = make_conninfo(
            postgres.superuser_conninfo("hitherto"), options="-c search_path=hitherto,public"
        )
        connection = await stack.enter_async_context(
            await AsyncConnection.connect(login, autocommit=True)
        )
        channels = [grpc.aio.insecure_channel(service.address) for service in services]
        for channel in channels:
            await stack.enter_async_context(channel)
        driver = Driver(channels, connection, users)
        progress("starting", 1, 1)
        await driver.run("warm-up", given.warm_up, given.in_flight)
        assert postgres.pid is not None
        trees = {"service": [service.pid for service in services], "postgres": [postgres.pid]}
        figures = await _load(given, driver, trees, model)
        await driver.run("idle", given.idle, 1, pauses=_PAUSES)
        idle_start, idle_end = await driver.waits("idle")
        figures |= spread("idle_start", idle_start)
        figures |= spread("idle_end", idle_end)
        figures["floor_cpu"] = await _floor(given, processes, postgres, model)
        figures["by_floor"] = figures["service_cpu"] / figures["floor_cpu"]
        title = (
            f"{given.transcripts:,} transcripts, {users:,} users, "
            f"{given.in_flight} in flight, {given.services} service process(es)"
        )
        return BenchmarkResult("throughput", [throughput_part(title, figures, given.transcripts)])


async def _load(
    given: argparse.Namespace,
    driver: Driver,
    trees: Mapping[str, Sequence[int]],
    model: BenchmarkProcess,
) -> dict[str, float]:
    """Send the load; its rate, what each process spent on a transcript, and calls of the model."""
    samples = [(0, resident_bytes(trees["service"]))]
    sampled = time.monotonic()

    def finished(done: int) -> None:
        nonlocal sampled
        if done == given.transcripts or time.monotonic() - sampled >= _SAMPLE_SECONDS:
            samples.append((done, resident_bytes(trees["service"])))
            sampled = time.monotonic()

    async def spent() -> dict[str, float]:
        calls = json.loads(await model.get("/calls"))
        return {
            **{f"{name}_cpu": 1_000 * cpu_seconds(pids) for name, pids in trees.items()},
            **{f"{kind}_calls": calls[kind] for kind in ("chat", "embeddings")},
        }

    before = await spent()
    seconds = await driver.run("load", given.transcripts, given.in_flight, finished)
    after = await spent()
    return {
        "rate": given.transcripts / seconds,
        **{name: (after[name] - before[name]) / given.transcripts for name in after},
        **resident_memory(samples, given.transcripts),
    }


async def _floor(
    given: argparse.Namespace,
    processes: Processes,
    postgres: EmbeddedPostgres,
    model: BenchmarkProcess,
) -> float:
    """Milliseconds of CPU per call of the process that does the least, for as many bytes."""
    conninfo = postgres.superuser_conninfo()
    async with await AsyncConnection.connect(conninfo, autocommit=True) as connection:
        await connection.execute(floor.TABLE)
    started = await processes.start(
        "benchmarks.floor",
        ["transcript"],
        **{floor.CONNINFO: conninfo, floor.MODEL_PORT: str(model.port)},
    )
    body = request("floor", 0, 1).SerializeToString()
    async with grpc.aio.insecure_channel(started.address) as channel:
        call: Any = channel.unary_unary(floor.METHOD)

        await call(body)
        before = cpu_seconds([started.pid])
        requests = [body] * given.floor
        await in_turns(requests, call, at_once=given.in_flight, phase="floor")
        spent = cpu_seconds([started.pid]) - before
    # The kernel counts in ticks: a run too short for one has no figure of its own.
    return float(1_000 * max(spent, 0.01) / given.floor)


BENCHMARK = Benchmark(
    name="throughput",
    description="Measure what an extraction costs (bar P5).",
    arguments=lambda parser: add_counts(parser, **COUNTS),
    measure=measure,
    timed=True,
)

if __name__ == "__main__":
    main(BENCHMARK)
