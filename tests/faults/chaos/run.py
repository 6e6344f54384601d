"""A run: faults in an order that a seed decides, under load, and then the account of every promise.

`FAULTS_MINUTES` says for how long, and `FAULTS_SEED` repeats the order of an earlier run.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import psycopg

from hitherto.v1 import extraction_service_pb2, extraction_service_pb2_grpc
from tests.e2e.canaries import dump
from tests.faults.chaos.catalogue import TROUBLES, Trouble, planned
from tests.faults.chaos.load import Load
from tests.faults.chaos.promises import Promises
from tests.faults.chaos.stage import NAMES, Stage, opened

MINUTES = float(os.environ.get("FAULTS_MINUTES") or 2)
SETTLED_WITHIN_SECONDS = 300.0
_CANARY = re.compile(r"canary:\w+")

_OUT_OF_ORDER = """
SELECT count(*), count(*) FILTER (WHERE finished_at < before), min(user_id)
FROM (SELECT user_id, finished_at, lag(finished_at) OVER (PARTITION BY user_id ORDER BY sequence_no)
        AS before
      FROM jobs WHERE kind = 'memory-extraction' AND state = 'succeeded') AS ended
"""
_GAPS = """
SELECT p.user_id, p.version, count(v.version), max(v.version)
FROM profiles AS p LEFT JOIN profile_versions AS v USING (tenant_id, user_id)
GROUP BY p.tenant_id, p.user_id, p.version
"""
_HISTORIES = """
SELECT m.memory_id::text, m.version, count(h.version), max(h.version)
FROM memories AS m LEFT JOIN history AS h USING (tenant_id, user_id, memory_id)
GROUP BY m.tenant_id, m.user_id, m.memory_id, m.version
"""


def seed_of_this_run() -> int:
    """The given seed, or a new one."""
    given = os.environ.get("FAULTS_SEED")
    return int(given) if given else secrets.randbelow(10**6)


async def endure(
    stage: Stage,
    load: Load,
    *,
    seed: int,
    seconds: float,
    troubles: Sequence[Trouble] = TROUBLES,
    most: int | None = None,
    say: Callable[[str], None] = print,
) -> Counter[str]:
    """Run faults under load; how often each came.

    Args:
        stage: What they act upon.
        load: Who is meant not to lose anything.
        seed: Decides what happens.
        seconds: For how long.
        troubles: The faults to draw from.
        most: How many, of which two may come at a time.
        say: Told what happens.
    """
    say(f"FAULTS_SEED={seed}")
    came: Counter[str] = Counter()
    began = time.monotonic()
    await load.start()
    await load.goes_on()
    lacking = {trouble.name: what for trouble in troubles if (what := trouble.lacks(stage))}
    for name, what in lacking.items():
        say(f"left out: {name}, which needs {what}")
    for drawn in islice(planned(seed, troubles), most):
        now = time.monotonic() - began
        if now > seconds:
            break
        together = [each for each in drawn if each[0].name not in lacking]
        names = [trouble.name for trouble, _ in together]
        if not names:
            continue
        stage.promises.during = f"{' and '.join(names)} at {now:.1f} s"
        say(f"{now:7.1f} s  {' and '.join(names)}")
        came.update(names)
        stage.calm += 1
        stage.spares_reads = False
        for trouble, _ in together:
            if trouble.prepare is not None:
                await trouble.prepare(stage)
        stage.calm += 1
        stage.spares_reads = all(trouble.spares_reads for trouble, _ in together)
        await asyncio.gather(*[trouble.strike(stage, chance) for trouble, chance in together])
        await stage.recovered(names)
        await load.goes_on()
        stage.look()
        stage.calm += 1
        stage.spares_reads = True
    stage.promises.during = "the end"
    await load.stop()
    return came


async def settle(stage: Stage, load: Load) -> None:
    """Wait for all jobs, hold everything against the database, and end both services."""
    conninfo, promises = stage.administrator, stage.promises
    await load.ledger.settled(conninfo, seconds=SETTLED_WITHIN_SECONDS)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        _examine(connection, promises)
        dead = connection.execute(
            "SELECT job_id::text, error_reason FROM jobs WHERE state = 'dead'"
        ).fetchall()
    await _run_again(stage, dead)
    await load.ledger.settled(conninfo, seconds=SETTLED_WITHIN_SECONDS)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        for job_id, reason in dead:
            state = "SELECT state FROM jobs WHERE job_id = %s"
            row = connection.execute(state, [job_id]).fetchone()
            again = row == ("succeeded",)
            promises.note("dead", bool(reason) and again, f"{job_id}: {reason!r}, then {row}")
    found = load.ledger.examine(conninfo, chat_calls=stage.model.calls["chat"])
    promises.add(found.tried, found.broken)
    _look_for_the_erased(conninfo, load, promises)
    for name in NAMES:
        await stage.end(name)
    try:
        stage.processes.check_logs()
        promises.note("quiet", True, "")
    except AssertionError as error:
        promises.note("quiet", False, str(error))


def _examine(connection: psycopg.Connection[Any], promises: Promises) -> None:
    row = connection.execute(_OUT_OF_ORDER.encode()).fetchone()
    assert row is not None
    ended, wrong, user = row
    promises.tried["order"] += ended
    if wrong:
        promises.lost["order"].append(f"{wrong} jobs, of {user} and others")
    for user, version, count, last in connection.execute(_GAPS.encode()):
        kept = version == count == last
        promises.note("L4", kept, f"{user}: version {version} of {count}, the last is {last}")
    for memory, version, count, last in connection.execute(_HISTORIES.encode()):
        kept = count > 0 and version == last
        promises.note("L6", kept, f"{memory}: version {version}, its history ends with {last}")


async def _run_again(stage: Stage, dead: Sequence[tuple[str, str]]) -> None:
    async with opened(stage.address("extraction")) as channel:
        stub = extraction_service_pb2_grpc.ExtractionServiceStub(channel)
        for job_id, _ in dead:
            request = extraction_service_pb2.RetryJobRequest(job_id=job_id)
            await stub.RetryJob(request, timeout=60)


def _look_for_the_erased(conninfo: str, load: Load, promises: Promises) -> None:
    of_erased = {canary: user for user in load.erased for canary in load.sent[user]}
    left = Counter[str]()
    for table, text in dump(conninfo):
        for canary in _CANARY.findall(text):
            if canary in of_erased:
                left[f"words of {of_erased[canary]} in {table}"] += 1
        for user in re.findall(r"leaver-[\d-]+", text):
            left[f"{user} in {table}"] += 1
    promises.tried["erased"] += len(load.erased)
    promises.lost["erased"] += list(left)
