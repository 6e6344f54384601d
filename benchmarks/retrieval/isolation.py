"""What authentication and row-level security add to a search: with both and without, in turns.

Each way has a service of its own, started for it: one that had many callers before has more
connections, and its answers take longer for that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict

from psycopg import sql

from benchmarks.processes import Processes
from benchmarks.report import percentile
from benchmarks.retrieval.caller import CallerLoad
from benchmarks.retrieval.figures import IsolationCost
from benchmarks.retrieval.requests import RequestStream
from benchmarks.retrieval.stage import Stage, openai_settings, service_settings
from benchmarks.retrieval.writing import Connection

TURNS = 6
_WARM_UP_SECONDS = 0.5
_WALLED_TABLES = """
SELECT c.oid::regclass::text
FROM pg_class AS c
WHERE EXISTS (SELECT FROM pg_policy AS p WHERE p.polrelid = c.oid)
"""


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
                            seconds=_WARM_UP_SECONDS if warm else seconds / TURNS,
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
