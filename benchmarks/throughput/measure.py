"""One run: everything started fresh, loaded, measured and ended."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import grpc
import psycopg
from psycopg.conninfo import make_conninfo

from benchmarks import floor
from benchmarks.command import Progress
from benchmarks.processes import BenchmarkProcess, Processes
from benchmarks.report import BenchmarkResult, load_average, machine, timed
from benchmarks.serving import database, temporary_folder
from benchmarks.throughput import report
from benchmarks.throughput.driver import Driver, request
from benchmarks.watching import cpu_seconds, memory_watched
from hitherto_shared.database.embedded import EmbeddedPostgres

# Pauses that fall on every part of a service's own rounds.
_PAUSES = (0.05, 0.13, 0.21, 0.08, 0.17)


@dataclass(frozen=True, slots=True)
class ThroughputOptions:
    """How much is measured.

    Attributes:
        transcripts: Measured under load.
        users: Over how many users; None: a quarter of the transcripts.
        services: Processes of the extraction service.
        in_flight: Transcripts unfinished at a time.
        warm_up: Transcripts before anything is measured.
        idle: Transcripts sent to the idle service.
        floor: Calls of the floor.
    """

    transcripts: int = 2_000
    users: int | None = None
    services: int = 1
    in_flight: int = 32
    warm_up: int = 100
    idle: int = 50
    floor: int = 1_000

    @property
    def user_count(self) -> int:
        """Over how many users transcripts are spread."""
        return self.users or max(1, self.transcripts // 4)


async def measure(options: ThroughputOptions, progress: Progress) -> BenchmarkResult:
    """Run the whole benchmark in a temporary folder.

    Raises:
        BenchmarkFailed: A process did not come up.
        BenchmarkFailed: Jobs did not succeed.
    """
    load_before = load_average()
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(temporary_folder())
        progress("starting", 0, 1)
        postgres = await stack.enter_async_context(database(folder))
        processes = stack.enter_context(Processes(folder))
        model = await processes.start("benchmarks.model_server")
        services = [
            await processes.start_service("extraction", model) for _ in range(options.services)
        ]
        connection = await stack.enter_async_context(
            await psycopg.AsyncConnection.connect(
                make_conninfo(
                    postgres.superuser_conninfo("hitherto"),
                    options="-c search_path=hitherto,public",
                ),
                autocommit=True,
            )
        )
        driver = Driver([service.port for service in services], connection, options.user_count)
        stack.push_async_callback(driver.close)
        progress("starting", 1, 1)

        await driver.run(
            "warm", options.warm_up, options.in_flight, _told(progress, "warm-up", options.warm_up)
        )
        trees = _trees(services, postgres, model)
        figures = await _load(options, driver, trees, model, progress)
        progress("idle", 0, 1)
        await driver.one_by_one("idle", options.idle, _PAUSES)
        progress("idle", 1, 1)
        idle_start, idle_end = await driver.waits("idle")
        _, ends = await driver.waits("load")
        figures |= report.spread(report.START_WHEN_IDLE, idle_start)
        figures |= report.spread(report.END_WHEN_IDLE, idle_end)
        figures |= report.spread(report.END_UNDER_LOAD, ends)
        figures |= await _floor(options, processes, postgres, model, progress)
        figures[report.BY_FLOOR] = figures[report.SERVICE_CPU] / figures[report.FLOOR_CPU]
        title = (
            f"{options.transcripts:,} transcripts, {options.user_count:,} users, "
            f"{options.in_flight} in flight, {options.services} service process(es)"
        )
        part = report.throughput_part(title, figures, options.transcripts)
        version = connection.info.server_version
        return BenchmarkResult("throughput", [timed(part, machine(load_before, version))])


async def _load(
    options: ThroughputOptions,
    driver: Driver,
    trees: Mapping[str, Sequence[int]],
    model: BenchmarkProcess,
    progress: Progress,
) -> dict[str, float]:
    """Send the load; its rate, what each process spent on a transcript, and calls of the model."""
    done = 0
    tell = _told(progress, "load", options.transcripts)

    def finished(count: int) -> None:
        nonlocal done
        done = count
        tell(count)

    calls_before = await _calls(model)
    before = _cpu(trees)
    async with memory_watched(trees["service"], lambda: done) as samples:
        seconds = await driver.run("load", options.transcripts, options.in_flight, finished)
    after, calls = _cpu(trees), await _calls(model)
    return {
        report.RATE: options.transcripts / seconds,
        **{
            report.CPU_OF[name]: 1_000 * (spent - before[name]) / options.transcripts
            for name, spent in after.items()
        },
        **{
            report.CALLS_OF[name]: (count - calls_before[name]) / options.transcripts
            for name, count in calls.items()
        },
        **report.resident_memory(samples, options.transcripts),
    }


async def _floor(
    options: ThroughputOptions,
    processes: Processes,
    postgres: EmbeddedPostgres,
    model: BenchmarkProcess,
    progress: Progress,
) -> dict[str, float]:
    """Send as many bytes to the process that does the least."""
    conninfo = postgres.superuser_conninfo()
    async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as connection:
        await connection.execute(floor.TABLE)
    started = await processes.start(
        "benchmarks.floor",
        ["transcript"],
        **{floor.CONNINFO: conninfo, floor.MODEL_PORT: str(model.port)},
    )
    body = request("floor", 0, 1).SerializeToString()
    room = asyncio.Semaphore(options.in_flight)
    done = 0
    async with grpc.aio.insecure_channel(f"127.0.0.1:{started.port}") as channel:
        call: Any = channel.unary_unary(floor.METHOD)

        async def one() -> None:
            nonlocal done
            async with room:
                await call(body)
            done += 1
            progress("floor", done, options.floor)

        await call(body)
        before, began = cpu_seconds([started.pid]), time.monotonic()
        await asyncio.gather(*(one() for _ in range(options.floor)))
        seconds = time.monotonic() - began
        spent = cpu_seconds([started.pid]) - before
    return {
        # The kernel counts in ticks: a run too short for one has no figure of its own.
        report.FLOOR_CPU: 1_000 * max(spent, 0.01) / options.floor,
        report.FLOOR_RATE: options.floor / seconds,
    }


def _trees(
    services: Sequence[BenchmarkProcess], postgres: EmbeddedPostgres, model: BenchmarkProcess
) -> dict[str, list[int]]:
    assert postgres.pid is not None
    return {
        "service": [service.pid for service in services],
        "postgres": [postgres.pid],
        "model": [model.pid],
    }


def _cpu(trees: Mapping[str, Sequence[int]]) -> dict[str, float]:
    # The processes are children of this one, which is therefore counted alone.
    return {name: cpu_seconds(pids) for name, pids in trees.items()} | {
        "driver": time.process_time()
    }


async def _calls(model: BenchmarkProcess) -> dict[str, int]:
    counts = json.loads(await model.get("/calls"))
    return {name: counts[name] for name in report.CALLS_OF}


def _told(progress: Progress, phase: str, total: int) -> Callable[[int], None]:
    return lambda done: progress(phase, done, total)
