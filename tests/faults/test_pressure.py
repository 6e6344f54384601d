"""Short deadlines, callers who leave, overload, unkind texts, a frozen Postgres (R5, row 68).

No process ends, nobody else waits long, and afterwards everything is as before: answers, sessions
at the database, descriptors.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc
import psutil
import psycopg
import pytest

from tests.faults.bystander import crowded
from tests.faults.observing import Observer
from tests.faults.processes import ROOT, Processes, Service
from tests.waiting import eventually

SHORT_SECONDS = 14.0
LONG_SECONDS = float(os.environ.get("TEST_PRESSURE_SECONDS", "120"))
LONG_PATIENCE_SECONDS = 2.0
SHORT_PATIENCE_SECONDS = 5.0
"""Other tests run beside the short form."""

FREEZES = (0.5, 8.0)
"""Seconds. The longer ones outlast the time a new connection and a cancelled statement have."""
SEED = 108
"""The short form has a freeze of almost seven seconds, soon after its beginning."""
AFTER_THAW_SECONDS = 5.0
"""For connections that are made while Postgres is frozen to be given up and made again."""

MOST_SESSIONS = 19 + 24 + 2
"""The pools of retrieval and of extraction with default settings, and the two that listen."""
MORE_DESCRIPTORS = 60
"""What a service may have open more than at its start: pools that have grown, idle callers."""

_SESSIONS = """
SELECT pid, state_change, state <> 'idle', usename, state, wait_event, left(query, 60)
FROM pg_stat_activity WHERE application_name LIKE 'hitherto-%'
"""
MOVES_ON_SECONDS = 50.0
"""A statement may take 30 s. Postgres ends a session that is idle in a transaction after 60 s."""


@asynccontextmanager
async def pressed(
    retrieval: Service, extraction: Service, seconds: float, **callers: int
) -> AsyncIterator[Counter[str]]:
    """Callers in a process of their own; what they were answered is there after the block."""
    told = [f"--{kind}={number}" for kind, number in callers.items()]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.faults.pressing",
        f"--reading={retrieval.address}",
        f"--writing={extraction.address}",
        f"--seconds={seconds}",
        *told,
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    answers: Counter[str] = Counter()
    try:
        yield answers
        async with asyncio.timeout(seconds + 180):
            output, _ = await process.communicate()
        assert process.returncode == 0
        answers.update(json.loads(output))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def freeze_now_and_then(private: Processes, observer: Observer, seconds: float) -> None:
    """Freeze Postgres again and again for `seconds`; at the end it goes on."""
    chance = random.Random(SEED)
    ends = time.monotonic() + seconds
    while (left := ends - time.monotonic()) > 0:
        await asyncio.sleep(min(chance.uniform(1.0, 2.0 * FREEZES[1]), left))
        private.freeze()
        observer.disturbed = True
        await asyncio.sleep(chance.uniform(*FREEZES))
        private.thaw()
        await asyncio.sleep(AFTER_THAW_SECONDS)
        observer.disturbed = False


async def answers_both(retrieval: Service, extraction: Service) -> bool:
    """Whether an ordinary read and an ordinary write succeed."""
    about: dict[str, Any] = {"user_id": "later", "timeout": 5}
    try:
        await retrieval.ask("RetrievalService/SearchMemories", query="tea", **about)
        await extraction.ask("MemoryService/SaveMemory", content="Likes tea.", **about)
    except grpc.aio.AioRpcError:
        return False
    return True


async def survives(private: Processes, seconds: float, patience: float, **callers: int) -> str:
    """Press on both services for `seconds`; what was seen, for the report."""
    extraction = await private.start("extraction")
    retrieval = await private.start("retrieval")
    administrator = private.administrator()
    services = (extraction, retrieval)
    before = {each.name: psutil.Process(each.process.pid).num_fds() for each in services}
    observer = Observer(patience)
    async with (
        observer.beside(retrieval, extraction),
        pressed(retrieval, extraction, seconds, **callers) as answers,
    ):
        await freeze_now_and_then(private, observer, seconds)
    for each in services:
        assert each.alive, f"{each.name} ended with {each.process.returncode}"
    await eventually(lambda: answers_both(retrieval, extraction), "answers", seconds=180)
    with psycopg.connect(administrator, autocommit=True) as admin:

        def sessions() -> dict[tuple[int, Any], tuple[Any, ...]]:
            """All sessions, each by what it is at: there may be jobs left to do."""
            return {row[:2]: row[2:] for row in admin.execute(_SESSIONS).fetchall()}

        at_the_end = {at for at, (busy, *_) in sessions().items() if busy}

        def kept() -> list[tuple[Any, ...]]:
            """The sessions that are where they were, and all of them if they are too many."""
            found = sessions()
            if len(found) > MOST_SESSIONS:
                return list(found.values())
            return [found[at] for at in at_the_end & found.keys() if found[at][0]]

        with suppress(AssertionError):
            await eventually(
                lambda: not kept(), "sessions to be given back", seconds=MOVES_ON_SECONDS
            )
        assert not kept()
    for each in services:
        process = psutil.Process(each.process.pid)
        most = before[each.name] + MORE_DESCRIPTORS
        await eventually(lambda: process.num_fds() <= most, f"descriptors of {each.name}")  # noqa: B023
        assert "destroyed but it is pending" not in each.said
    assert [await each.end() for each in services] == [0, 0]
    faults = {told: number for told, number in answers.items() if "INTERNAL" in told}
    lines = [line for each in services for line in each.said.splitlines()]
    errors = [line for line in lines if '"ERROR"' in line and '"hitherto.' in line]
    assert not faults, (faults, errors[:5])
    assert not observer.complaints, (observer.complaints[:20], observer.longest)
    # Not a speed: that the callers did press.
    assert sum(answers.values()) > 2 * seconds, answers
    return f"{dict(answers)}; beside them {dict(observer.answers)}, at most {observer.longest}"


async def test_calls_that_outlive_their_deadline_end_no_process(private: Processes) -> None:
    """Also row 15: work that is abandoned is ended, and its connections come back."""
    print(
        await survives(
            private,
            SHORT_SECONDS,
            SHORT_PATIENCE_SECONDS * crowded(),
            hurried=8,
            leaving=8,
            patient=16,
            hostile=1,
        )
    )


@pytest.mark.chaos
@pytest.mark.timeout(900)
async def test_minutes_of_pressure(private: Processes, capsys: pytest.CaptureFixture[str]) -> None:
    """R5; TEST_PRESSURE_SECONDS=600 makes it ten minutes."""
    seen = await survives(
        private, LONG_SECONDS, LONG_PATIENCE_SECONDS, hurried=12, leaving=12, patient=48, hostile=4
    )
    with capsys.disabled():
        print(f"\n{seen}")
