"""Decay over many memories: how long it takes, and how long anybody else waits meanwhile.

Memories go straight into the database, then the job of kind `decay` runs as in a worker, beside a
writer who changes memories of one user after another as the service's own writers do: it takes the
user's row, writes, commits. Nothing that decay locks is locked longer than its longest transaction.

Of the memories a third are of little importance, and half of these were not used for 30 days; a
tenth are context, half of that older than 90 days. So about a fifth is archived.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import TypeVar

import psycopg

from benchmarks.command import Benchmark, add_counts, main, progress
from benchmarks.report import BenchmarkResult, FigureTable, ResultPart
from benchmarks.serving import database, temporary_folder
from hitherto_extraction.queue import claims, jobs
from hitherto_extraction.queue.enqueueing import JobQueue
from hitherto_extraction.storage import users
from hitherto_extraction.upkeep.decay import BATCH, Decay
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.models import Scope
from hitherto_shared.startup import configure_vectors

TENANT = "default"
DIMENSIONS = 64
_CHUNK = 100_000
_PAUSE_SECONDS = 0.005
_SEED = 7

_USERS = """
INSERT INTO users (tenant_id, user_id, last_lexical_no)
SELECT %(tenant)s, 'u' || n, 1000000 FROM generate_series(0, %(users)s::int - 1) AS n
"""

# A memory's number decides its kind, so that two runs load the same.
_MEMORIES = """
INSERT INTO memories (tenant_id, user_id, memory_id, type, content, importance, confidence, source,
    origin, tags, valid_from, said_at, created_at, updated_at, lexical_no, lexical_length,
    embedding_state)
SELECT %(tenant)s, 'u' || n %% %(users)s, lpad(to_hex(n), 32, '0')::uuid,
       CASE WHEN n %% 10 = 3 THEN 'context' WHEN n %% 10 = 7 THEN 'decision' ELSE 'fact' END,
       'Something that was said once about matter ' || n || ' and is kept as it was understood.',
       CASE WHEN n %% 3 = 0 THEN 0.2 ELSE 0.6 END, 'high', 'conversation', 'user',
       ARRAY['matter'], made, made, made, made, n / %(users)s + 1, 12, 'stored'
FROM (SELECT n, now() - make_interval(days => (CASE WHEN n %% 20 < 10 THEN 40 ELSE 120 END))
             AS made
      FROM generate_series(%(first)s::int, %(last)s::int) AS n) AS numbered
"""

_VECTORS = """
INSERT INTO memory_embeddings (tenant_id, user_id, memory_id, model, dimensions, status, embedding)
SELECT %(tenant)s, 'u' || n %% %(users)s, lpad(to_hex(n), 32, '0')::uuid, 'bench', %(dimensions)s,
       'active', %(vector)s::halfvec
FROM generate_series(%(first)s::int, %(last)s::int) AS n
"""

_ACCESS = """
INSERT INTO memory_access (tenant_id, user_id, memory_id, access_count, last_accessed_at)
SELECT %(tenant)s, 'u' || n %% %(users)s, lpad(to_hex(n), 32, '0')::uuid, 1,
       now() - make_interval(days => (n %% 2 * 38 + 1)::int)
FROM generate_series(%(first)s::int, %(last)s::int) AS n WHERE n %% 3 <> 1
"""

_TOUCH = """
UPDATE memories SET said_at = said_at + interval '1 second'
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND status = 'active'
  AND lexical_no = %(lexical_no)s
"""

Result = TypeVar("Result")


class TimedDatabase(Database):
    """Notes how long each piece of work held its connection, and so any lock."""

    times: list[float]

    async def run(
        self,
        work: Callable[[Connection], Awaitable[Result]],
        *,
        timeout: float,
        repeatable: bool = False,
    ) -> Result:
        """As the parent; reads are not noted."""
        if repeatable:
            return await super().run(work, timeout=timeout, repeatable=True)
        begun = time.perf_counter()
        found = await super().run(work, timeout=timeout)
        self.times.append(time.perf_counter() - begun)
        return found


def load(conninfo: str, memories: int, user_count: int) -> None:
    """Fill the database of `conninfo`, whose login is the administrator's."""
    vector = "[" + ",".join(["1"] + ["0"] * (DIMENSIONS - 1)) + "]"
    fixed = {"tenant": TENANT, "users": user_count, "dimensions": DIMENSIONS, "vector": vector}
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("SET search_path = hitherto, public")
        # Bulk loading: every row is right by construction.
        connection.execute("SET session_replication_role = replica")
        connection.execute(
            "INSERT INTO embedding_models (model, dimensions) VALUES ('bench', %s)", [DIMENSIONS]
        )
        connection.execute(_USERS, fixed)
        for first in range(0, memories, _CHUNK):
            last = min(first + _CHUNK, memories) - 1
            values = {**fixed, "first": first, "last": last}
            for statement in (_MEMORIES, _VECTORS, _ACCESS):
                connection.execute(statement, values)
            progress("loading", last + 1, memories)
        connection.execute("VACUUM ANALYZE")


async def write_meanwhile(
    database: Database, user_count: int, per_user: int, stop: asyncio.Event
) -> None:
    """Change memories of one user after another."""
    choose = random.Random(_SEED)
    while not stop.is_set():
        user, number = choose.randrange(user_count), choose.randrange(per_user) + 1
        await database.run(partial(_change, Scope(TENANT, f"u{user}"), number), timeout=30.0)
        await asyncio.sleep(_PAUSE_SECONDS)


async def _change(scope: Scope, number: int, connection: Connection) -> None:
    async with connection.transaction():
        user = connection.of(scope)
        await users.lock_user(user)
        await user.execute(_TOUCH, lexical_no=number)


async def measure(conninfo: str, memories: int, user_count: int) -> dict[str, float]:
    """The figures of running decay once with a writer beside it."""
    async with AsyncExitStack() as stack:
        maintenance = TimedDatabase(
            conninfo, "hitherto_maintenance", application="bench", configure=configure_vectors
        )
        write = TimedDatabase(conninfo, "hitherto_write", application="bench")
        for database in (maintenance, write):
            database.times = []
            await database.open()
            stack.push_async_callback(database.close)
        async with maintenance.connection() as connection:
            await JobQueue(1).enqueue(connection, TENANT, "decay")
            (held,) = await claims.claim(connection, worker="bench", limit=1, lease_seconds=3600)
        stop = asyncio.Event()
        writing = write_meanwhile(write, user_count, memories // user_count, stop)
        writer = asyncio.create_task(writing)
        begun = time.perf_counter()
        await Decay(maintenance, max_memories=0).run(held)
        seconds = time.perf_counter() - begun
        stop.set()
        await writer
        async with maintenance.connection() as connection:
            job = await jobs.get_job(connection, TENANT, held.job_id)
    archived = job.result["counts"]["archived"]
    return {
        "memories": memories,
        "users": user_count,
        "memories in a batch": BATCH,
        "time, s": seconds,
        "archived": archived,
        "looked at per second": memories / seconds,
        "archived per second": archived / seconds,
        "transactions": len(maintenance.times),
        "longest transaction, s": max(maintenance.times),
        "writes of the other writer": len(write.times),
        "median wait of the other writer, s": statistics.median(write.times),
        "longest wait of the other writer, s": max(write.times),
    }


async def _measure(given: argparse.Namespace) -> BenchmarkResult:
    if given.users > given.memories:
        raise ValueError("--users must be at most --memories")
    with temporary_folder() as folder:
        async with database(folder) as server:
            conninfo = server.superuser_conninfo("hitherto")
            await asyncio.to_thread(load, conninfo, given.memories, given.users)
            figures = await measure(server.conninfo(), given.memories, given.users)
    rows = [
        (name, f"{value:,.3f}" if isinstance(value, float) else f"{value:,}")
        for name, value in figures.items()
    ]
    table = FigureTable("Decay", ("figure", "measured"), rows)
    return BenchmarkResult("decay", [ResultPart("Decay", figures, [table])])


BENCHMARK = Benchmark(
    name="decay",
    description="Measure decay over many memories, and how long others wait meanwhile.",
    arguments=lambda parser: add_counts(
        parser, memories=(1_000_000, "in all"), users=(2_000, "over whom they are spread")
    ),
    measure=_measure,
)

if __name__ == "__main__":
    main(BENCHMARK)
