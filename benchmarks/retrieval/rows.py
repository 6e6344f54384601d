"""Measures rows of figures, all subjects of a place in turns, and what isolation adds to a search.

The turns are short, so that what else the machine does falls on all of them alike. For isolation
they are with authentication and row-level security and without, each with a service of its own,
started for it: one that had many callers before has more connections, and its answers take longer
for that.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

from psycopg import sql

from benchmarks.processes import BenchmarkProcess, Processes
from benchmarks.report import percentile
from benchmarks.retrieval.caller import CallerLoad, CallerResult
from benchmarks.retrieval.figures import IsolationCost, LatencyFigures, MeasurementConditions
from benchmarks.retrieval.requests import RequestStream
from benchmarks.retrieval.stage import Stage, openai_settings, service_settings
from benchmarks.retrieval.writing import Connection
from benchmarks.watching import resident_bytes

SLICES = 3
_WARM_UP_SECONDS = 0.3
_WALLS_WARM_UP_SECONDS = 0.5
TURNS = 6
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
    embedding_calls: int = 0
    looked_at: int = 0
    faults: Counter[str] = field(default_factory=Counter)

    def add(self, seen: CallerResult, cpu: dict[str, float], embedding_calls: int) -> None:
        self.ms += seen.ms
        self.seconds += seen.seconds
        self.cpu.update({**cpu, "caller": seen.cpu_seconds})
        self.embedding_calls += embedding_calls
        self.looked_at += seen.looked_at
        self.faults.update(seen.faults)


class Measuring:
    """Measures one group of rows after the other.

    Args:
        stage: What runs.
        limit: Results that a search wants.
        weights: Names of the ranking's components.
        measured: Is told after each slice.
    """

    def __init__(
        self, stage: Stage, *, limit: int, weights: Sequence[str], measured: Callable[[], None]
    ) -> None:
        self._stage = stage
        self._limit = limit
        self._weights = weights
        self._measured = measured

    async def rows(
        self,
        place: MeasurementConditions,
        users: Sequence[str],
        subjects: Sequence[str],
        seconds: float,
    ) -> list[LatencyFigures]:
        """The figures of these subjects in one place.

        Args:
            place: Where.
            users: Who asks, in turn.
            subjects: What is asked, of `SUBJECTS`.
            seconds: How long each subject is measured.

        Raises:
            BenchmarkFailed: A call was answered with an error.
        """
        await self._stage.delay(place.delay_ms)
        sums: defaultdict[str, _Sum] = defaultdict(_Sum)
        for turn in range(SLICES + 1):
            for subject in subjects:
                work = self._work(
                    subject,
                    place,
                    users,
                    seconds=seconds / SLICES if turn else _WARM_UP_SECONDS,
                    # Another place or turn asks other questions: none is in a cache yet.
                    seed=f"{place} {turn}",
                )
                calls = await self._stage.embedding_calls()
                before = self._stage.cpu(self._process(subject))
                seen = await self._stage.call(work)
                if not turn:
                    continue
                spent = self._stage.cpu(self._process(subject))
                sums[subject].add(
                    seen,
                    {name: value - before[name] for name, value in spent.items()},
                    await self._stage.embedding_calls() - calls,
                )
                self._measured()
        return [self._row(subject, place, sums[subject]) for subject in subjects]

    def _work(
        self,
        subject: str,
        place: MeasurementConditions,
        users: Sequence[str],
        *,
        seconds: float,
        seed: str,
    ) -> CallerLoad:
        floor = subject.startswith("floor_")
        kind = subject.removeprefix("floor_")
        asking = RequestStream(
            kind="empty" if subject in {"floor_echo", "floor_select"} else kind,
            users=users,
            # Repeated queries are the same in every slice.
            seed=subject if kind == "search_repeated" else f"{subject} {seed}",
            limit=self._limit,
            weights=self._weights,
            floor=floor,
        )
        return CallerLoad(
            port=self._process(subject).port,
            callers=place.callers,
            seconds=seconds,
            asking=asdict(asking),
            key="" if floor else self._stage.key,
        )

    def _process(self, subject: str) -> BenchmarkProcess:
        if subject.startswith("floor_"):
            return self._stage.floors[subject.removeprefix("floor_")]
        return self._stage.service

    def _row(self, subject: str, place: MeasurementConditions, total: _Sum) -> LatencyFigures:
        requests = len(total.ms)
        return LatencyFigures(
            subject=subject,
            place=place,
            requests=requests,
            p50=round(percentile(total.ms, 0.50), 3),
            p95=round(percentile(total.ms, 0.95), 3),
            p99=round(percentile(total.ms, 0.99), 3),
            per_second=round(requests / total.seconds, 1),
            cpu_ms={name: round(1_000 * spent / requests, 3) for name, spent in total.cpu.items()},
            caller_share=round(total.cpu["caller"] / total.seconds, 2),
            embedding_calls=round(total.embedding_calls / requests, 3),
            resident_mib=round(resident_bytes([self._process(subject).pid]) / 2**20, 1),
            looked_at=total.looked_at,
            faults=dict(total.faults),
        )


async def measure_walls(
    stage: Stage,
    connection: Connection,
    users: Sequence[str],
    *,
    size: int,
    seconds: float,
    limit: int,
    weights: Sequence[str],
    measured: Callable[[int], None],
) -> IsolationCost:
    """The median search of one caller with the walls and without.

    Args:
        stage: What runs, with the walls.
        connection: The administrator's: policies are put aside and back in force between turns.
        users: Who asks, in turn.
        size: Memories of each of them.
        seconds: How long each way is measured.
        limit: Results that a search wants.
        weights: Names of the ranking's components.
        measured: Is told how many turns are over.

    Raises:
        BenchmarkFailed: The service without authentication did not come up.
        BenchmarkFailed: A call was answered with an error.
    """
    # Whatever the rows before were measured with.
    await stage.delay(0)
    times: defaultdict[bool, list[float]] = defaultdict(list)
    with Processes(stage.folder) as processes:
        settings = {**service_settings(stage.folder), **openai_settings(stage.embedder)}
        walled = await processes.start("hitherto_retrieval", **settings)
        trusting = await processes.start(
            "hitherto_retrieval", **{**settings, "HITHERTO_AUTH": "off"}
        )
        try:
            for turn in range(TURNS):
                for walls in (True, False):
                    _enforce(connection, walls=walls)
                    for warm in (True, False):
                        asking = RequestStream(
                            kind="search",
                            users=users,
                            seed=f"walls {walls} {turn} {warm}",
                            limit=limit,
                            weights=weights,
                            floor=False,
                        )
                        work = CallerLoad(
                            port=walled.port if walls else trusting.port,
                            callers=1,
                            seconds=_WALLS_WARM_UP_SECONDS if warm else seconds / TURNS,
                            asking=asdict(asking),
                            key=stage.key if walls else "",
                        )
                        seen = await stage.call(work)
                        if not warm:
                            times[walls] += seen.ms
                measured(turn + 1)
        finally:
            _enforce(connection, walls=True)
    return IsolationCost(
        size=size,
        walled=round(percentile(times[True], 0.5), 3),
        open=round(percentile(times[False], 0.5), 3),
    )


def _enforce(connection: Connection, *, walls: bool) -> None:
    """Put the policies of all tables in force or aside."""
    statement = sql.SQL(
        "ALTER TABLE {} ENABLE ROW LEVEL SECURITY"
        if walls
        else "ALTER TABLE {} DISABLE ROW LEVEL SECURITY"
    )
    for (table,) in connection.execute(_WALLED_TABLES).fetchall():
        connection.execute(statement.format(sql.SQL(table)))
