"""Measures rows of figures, all subjects of a place in turns, and what isolation adds to a search.

The turns are short, so that what else the machine does falls on all of them alike. For isolation
they are with authentication and row-level security and without, each with a service of its own,
started for it: one that had many callers before has more connections, and its answers take longer
for that.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from psycopg import sql

from benchmarks.processes import Processes
from benchmarks.report import percentile
from benchmarks.retrieval.caller import CallerResult
from benchmarks.retrieval.figures import IsolationCost, LatencyFigures, MeasurementConditions
from benchmarks.retrieval.plan import MeasurementGroup, RetrievalOptions
from benchmarks.retrieval.requests import RequestStream
from benchmarks.retrieval.stage import Stage
from benchmarks.retrieval.writing import Connection

SLICES = 3
_WARM_UP_SECONDS = 0.3
_WALLS_WARM_UP_SECONDS = 0.5
TURNS = 6
_FLOOR = "floor_"
_WALLED_TABLES = """
SELECT c.oid::regclass::text
FROM pg_class AS c
WHERE EXISTS (SELECT FROM pg_policy AS p WHERE p.polrelid = c.oid)
"""


@dataclass
class _Sum:
    """What the slices of one subject add up to."""

    ms: list[float] = field(default_factory=list)
    seconds: float = 0.0
    cpu: Counter[str] = field(default_factory=Counter)
    looked_at: int = 0
    faults: Counter[str] = field(default_factory=Counter)

    def add(self, seen: CallerResult, cpu: dict[str, float]) -> None:
        self.ms += seen.ms
        self.seconds += seen.seconds
        self.cpu.update({**cpu, "caller": seen.cpu_seconds})
        self.looked_at += seen.looked_at
        self.faults.update(seen.faults)

    def row(self, subject: str, place: MeasurementConditions) -> LatencyFigures:
        requests = len(self.ms)
        return LatencyFigures(
            subject=subject,
            place=place,
            p50=round(percentile(self.ms, 0.50), 3),
            p95=round(percentile(self.ms, 0.95), 3),
            p99=round(percentile(self.ms, 0.99), 3),
            per_second=round(requests / self.seconds, 1),
            cpu_ms={name: round(1_000 * spent / requests, 3) for name, spent in self.cpu.items()},
            caller_share=round(self.cpu["caller"] / self.seconds, 2),
            looked_at=self.looked_at,
            faults=dict(self.faults),
        )


async def measure_group(
    stage: Stage,
    group: MeasurementGroup,
    options: RetrievalOptions,
    sliced: Callable[[], None],
) -> list[LatencyFigures]:
    """The figures of all subjects of a group.

    Args:
        stage: What runs.
        group: Where, who asks, and what.
        options: How long each subject is measured, and how many results a search wants.
        sliced: Called after each slice.

    Raises:
        BenchmarkFailed: A call was answered with an error.
    """
    await stage.delay(group.place.delay_ms)
    sums: defaultdict[str, _Sum] = defaultdict(_Sum)
    # All users ask in turn: in a group of many, nobody asks again until everybody has.
    waiting = deque(group.users)
    for turn in range(SLICES + 1):
        for subject in group.subjects:
            floor = subject.startswith(_FLOOR)
            kind = subject.removeprefix(_FLOOR)
            process = stage.floors[kind] if floor else stage.service
            asking = RequestStream(
                kind="empty" if floor and kind != "search" else kind,
                users=list(waiting),
                # Repeated queries are the same in every slice. For the others, another place or
                # turn asks other questions: none is in a cache yet.
                seed=kind if kind == "search_repeated" else f"{subject} {group.place} {turn}",
                limit=options.limit,
                floor=floor,
            )
            seconds = options.seconds / SLICES if turn else _WARM_UP_SECONDS
            key = "" if floor else stage.key
            before = stage.cpu(process)
            seen = await stage.call(process.port, asking, group.place.callers, seconds, key)
            waiting.rotate(-len(seen.ms))
            if turn:
                spent = stage.cpu(process)
                sums[subject].add(seen, {name: spent[name] - before[name] for name in spent})
                sliced()
    return [sums[subject].row(subject, group.place) for subject in group.subjects]


async def measure_walls(
    stage: Stage,
    connection: Connection,
    users: Sequence[str],
    options: RetrievalOptions,
    measured: Callable[[int], None],
) -> IsolationCost:
    """The median search of one caller with the walls and without.

    Args:
        stage: What runs, with the walls.
        connection: The administrator's: policies are put aside and back in force between turns.
        users: Who asks, in turn.
        options: How long each way is measured, and how many results a search wants.
        measured: Is told how many turns are over.

    Raises:
        BenchmarkFailed: The service without authentication did not come up.
        BenchmarkFailed: A call was answered with an error.
    """
    # Whatever the rows before were measured with.
    await stage.delay(0)
    times: defaultdict[bool, list[float]] = defaultdict(list)
    with Processes(stage.folder) as processes:
        walled, trusting = [
            await processes.start_service("retrieval", stage.embedder, HITHERTO_AUTH=auth)
            for auth in ("api-key", "off")
        ]
        try:
            for turn in range(TURNS):
                for walls, service in ((True, walled), (False, trusting)):
                    _enforce(connection, walls=walls)
                    for warm in (True, False):
                        asking = RequestStream(
                            "search", users, f"walls {walls} {turn} {warm}", options.limit
                        )
                        seconds = _WALLS_WARM_UP_SECONDS if warm else options.seconds / TURNS
                        key = stage.key if walls else ""
                        seen = await stage.call(service.port, asking, 1, seconds, key)
                        if not warm:
                            times[walls] += seen.ms
                measured(turn + 1)
        finally:
            _enforce(connection, walls=True)
    return IsolationCost(*(round(percentile(times[walls], 0.5), 3) for walls in (True, False)))


def _enforce(connection: Connection, *, walls: bool) -> None:
    """Put the policies of all tables in force or aside."""
    statement = sql.SQL(
        "ALTER TABLE {} ENABLE ROW LEVEL SECURITY"
        if walls
        else "ALTER TABLE {} DISABLE ROW LEVEL SECURITY"
    )
    for (table,) in connection.execute(_WALLED_TABLES).fetchall():
        connection.execute(statement.format(sql.SQL(table)))
