"""One run: rows of figures, all subjects of a place in turns; the start, and what isolation costs.

The turns are short, so that what else the machine does falls on all of them alike. For isolation
they are with authentication and row-level security and without, each with a service of its own,
started for it: one that had many callers before has more connections, and its answers take longer
for that.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from psycopg import sql

from benchmarks.command import counting, progress
from benchmarks.processes import Processes
from benchmarks.report import BenchmarkResult, percentile
from benchmarks.retrieval import plan, report
from benchmarks.retrieval.caller import CallerResult, RequestStream
from benchmarks.retrieval.recall import measure_recall
from benchmarks.retrieval.stage import Connection, Stage, clone, settle, staged
from benchmarks.serving import temporary_folder
from hitherto_client import AsyncHitherto

_ANSWER_SECONDS = 60.0
_SLICES = 3
_WARM_UP_SECONDS = 0.3
_WALLS_WARM_UP_SECONDS = 0.5
_TURNS = 6
_WALLED_TABLES = """
SELECT c.oid::regclass::text
FROM pg_class AS c
WHERE EXISTS (SELECT FROM pg_policy AS p WHERE p.polrelid = c.oid)
"""


async def measure(options: plan.RetrievalOptions) -> BenchmarkResult:
    """Run the whole benchmark in temporary folders.

    Raises:
        BenchmarkFailed: A process did not come up.
        BenchmarkFailed: A call was answered with an error.
    """
    alone: dict[str, float] = {}
    if options.start:
        progress("starting cold and warm", 0, 1)
        with temporary_folder() as folder:
            alone = {report.COLD: await _start(folder), report.WARM: await _start(folder)}
    async with staged(options) as stage:
        measured = await measure_stores(stage, alone)
    return BenchmarkResult("retrieval", [report.retrieval_part(measured)])


async def _start(folder: Path) -> float:
    """Seconds from the start of the process to its first answer; the first start is the cold one.

    Authentication is off: before the first start there is no key.
    """
    began = time.perf_counter()
    with Processes(folder) as processes:
        service = await processes.start_service("retrieval", HITHERTO_AUTH="off")
        async with AsyncHitherto(service.address, timeout=_ANSWER_SECONDS) as client:
            await client.search("nobody", "anything")
        return round(time.perf_counter() - began, 2)


async def measure_stores(stage: Stage, alone: Mapping[str, float]) -> report.RetrievalMeasurements:
    """Recall and all rows of the small store, those of the large one, the walls, beside `alone`."""
    options = stage.options
    recall = await measure_recall(stage) if options.recall else []
    rows = await measure_groups(stage, plan.small_store(options))
    if options.full:
        await asyncio.to_thread(_enlarge, stage)
        rows += await measure_groups(stage, plan.large_store(options))
    walls = await measure_walls(stage) if options.walls else {}
    return report.RetrievalMeasurements(rows, recall, {**alone, **walls})


def _enlarge(stage: Stage) -> None:
    """Make the large store of the small one."""
    users = [person.user_id for person in stage.people]
    for number in range(1, plan.COPIES):
        progress("enlarging the store", number, plan.COPIES - 1)
        clone(stage.connection, {user: plan.copy_of(user, number) for user in users})
    progress("settling", 0, 1)
    settle(stage.connection)


async def measure_groups(
    stage: Stage, groups: Iterable[plan.MeasurementGroup]
) -> list[report.LatencyFigures]:
    """The rows of some groups.

    Raises:
        BenchmarkFailed: A call was answered with an error.
    """
    planned = list(groups)
    total = sum(len(group.subjects) for group in planned) * _SLICES
    sliced = counting("measuring", total)
    return [row for group in planned for row in await _group(stage, group, sliced)]


async def _group(
    stage: Stage, group: plan.MeasurementGroup, sliced: Callable[[], None]
) -> list[report.LatencyFigures]:
    options, place = stage.options, group.place
    await stage.delay(place.delay_ms)
    slices: defaultdict[str, list[CallerResult]] = defaultdict(list)
    # All users ask in turn: in a group of many, nobody asks again until everybody has.
    waiting = deque(group.users)
    for turn in range(_SLICES + 1):
        for subject in group.subjects:
            # Another place or turn asks other questions: none is in a cache yet.
            seed = f"{subject} {place} {turn}"
            asking = RequestStream(subject, list(waiting), seed, options.limit)
            process, key = stage.service, stage.key
            if subject in plan.FLOORS:
                process, key = stage.floors[subject], ""
            seconds = options.seconds / _SLICES if turn else _WARM_UP_SECONDS
            before = stage.cpu(process) if turn else {}
            seen = await stage.call(process, asking, place.callers, seconds, key)
            waiting.rotate(-len(seen.ms))
            if turn:
                spent = {name: cpu - before[name] for name, cpu in stage.cpu(process).items()}
                slices[subject].append(replace(seen, cpu={**seen.cpu, **spent}))
                sliced()
    return [_row(subject, place, slices[subject]) for subject in group.subjects]


def _row(
    subject: str, place: plan.MeasurementConditions, slices: Sequence[CallerResult]
) -> report.LatencyFigures:
    """What the slices of one subject add up to."""
    ms = [each for seen in slices for each in seen.ms]
    seconds = sum(seen.seconds for seen in slices)
    cpu: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    for seen in slices:
        cpu.update(seen.cpu)
        faults.update(seen.faults)
    return report.LatencyFigures(
        subject=subject,
        place=place,
        p50=round(percentile(ms, 0.50), 3),
        p95=round(percentile(ms, 0.95), 3),
        p99=round(percentile(ms, 0.99), 3),
        per_second=round(len(ms) / seconds, 1),
        cpu_ms={name: round(1_000 * spent / len(ms), 3) for name, spent in cpu.items()},
        caller_share=round(cpu["caller"] / seconds, 2),
        looked_at=sum(seen.looked_at for seen in slices),
        faults=dict(faults),
    )


async def measure_walls(stage: Stage) -> Mapping[str, float]:
    """The median search of one caller with authentication and row-level security, and without.

    Policies are put aside and back in force between turns.

    Raises:
        BenchmarkFailed: The service without authentication did not come up.
        BenchmarkFailed: A call was answered with an error.
    """
    options = stage.options
    # Those with the fewest memories feel it most.
    users = plan.users_of(min(options.sizes))
    # Whatever the rows before were measured with.
    await stage.delay(0)
    times: defaultdict[bool, list[float]] = defaultdict(list)
    over = counting("walls", _TURNS)
    with Processes(stage.folder) as processes:
        walled, trusting = [
            await processes.start_service("retrieval", stage.embedder, HITHERTO_AUTH=auth)
            for auth in ("api-key", "off")
        ]
        try:
            for turn in range(_TURNS):
                for walls, service, key in ((True, walled, stage.key), (False, trusting, "")):
                    _enforce(stage.connection, walls=walls)
                    for warm in (True, False):
                        seed = f"walls {walls} {turn} {warm}"
                        asking = RequestStream("search", users, seed, options.limit)
                        seconds = _WALLS_WARM_UP_SECONDS if warm else options.seconds / _TURNS
                        seen = await stage.call(service, asking, 1, seconds, key)
                        if not warm:
                            times[walls] += seen.ms
                over()
        finally:
            _enforce(stage.connection, walls=True)
    return {
        name: round(percentile(times[walls], 0.5), 3)
        for name, walls in ((report.WALLED, True), (report.OPEN, False))
    }


def _enforce(connection: Connection, *, walls: bool) -> None:
    """Put the policies of all tables in force or aside."""
    statement = sql.SQL(
        "ALTER TABLE {} ENABLE ROW LEVEL SECURITY"
        if walls
        else "ALTER TABLE {} DISABLE ROW LEVEL SECURITY"
    )
    for (table,) in connection.execute(_WALLED_TABLES).fetchall():
        connection.execute(statement.format(sql.SQL(table)))
