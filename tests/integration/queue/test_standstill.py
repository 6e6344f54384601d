"""A job that ends its process, or holds its event loop, counts the attempt (row 69)."""

from __future__ import annotations

import asyncio
import sys
import time

import pytest

from hitherto_extraction.queue.claims import Claim
from hitherto_shared.errors import TooLate
from hitherto_shared.model_api import ModelUnavailable
from tests.integration.queue.dying_worker import FATAL_USER
from tests.integration.queue.stage import BOUND, Stage, transcript
from tests.waiting import eventually

_STANDSTILL = 0.3


async def test_a_job_that_holds_the_loop_ends_dead_and_others_go_on(stage: Stage) -> None:
    """What the database or the model seem to be guilty of afterwards are our own time-outs."""
    await stage.submit(*(transcript(user=user) for user in ("slow", "slower", "ana", "bo")))

    async def run(held: Claim) -> None:
        if held.user_id in ("ana", "bo"):
            await stage.finish(held)
            return
        time.sleep(2 * _STANDSTILL)  # noqa: ASYNC251 - this is what the test is about
        if held.user_id == "slow":
            raise TooLate("the database did not answer in time", reason="DEADLINE_EXCEEDED")
        raise ModelUnavailable("the model server did not answer in time")

    await stage.worker(run, standstill_seconds=_STANDSTILL).start()
    await stage.settled()
    assert sorted(await stage.rows("SELECT user_id, state, attempt, error_reason FROM jobs")) == [
        ("ana", "succeeded", 1, ""),
        ("bo", "succeeded", 1, ""),
        ("slow", "dead", 4, "WORKER_LOST"),
        ("slower", "dead", 4, "WORKER_LOST"),
    ]


async def test_a_stop_gives_no_attempt_back_to_a_job_that_held_the_loop(stage: Stage) -> None:
    await stage.submit(transcript())
    held_up = asyncio.Event()

    async def run(_: Claim) -> None:
        time.sleep(2 * _STANDSTILL)  # noqa: ASYNC251 - this is what the test is about
        held_up.set()
        await asyncio.Event().wait()

    worker = stage.worker(run, standstill_seconds=_STANDSTILL)
    await worker.start()
    await held_up.wait()
    await worker.stop(0.0)
    assert await stage.rows("SELECT state, attempt, error_reason FROM jobs") == [
        ("failed", 1, "WORKER_LOST")
    ]


async def test_a_job_beside_which_nothing_stood_still_waits_as_ever(stage: Stage) -> None:
    await stage.submit(transcript())

    async def run(_: Claim) -> None:
        raise TooLate("the database did not answer in time", reason="DEADLINE_EXCEEDED")

    async def waits() -> bool:
        return (await stage.states())["failed"] == 1

    await stage.worker(run, backoff_seconds=60.0).start()
    await eventually(waits)
    assert await stage.rows("SELECT attempt, error_reason FROM jobs") == [(0, "DEADLINE_EXCEEDED")]


@pytest.mark.faults
async def test_a_job_that_ends_its_process_is_dead_after_four_claims(
    stage: Stage, conninfo: str, superuser_conninfo: str
) -> None:
    await stage.submit(*(transcript(user=user) for user in (FATAL_USER, "ana", "bo")))
    ends = []
    while not await stage.idle():
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.integration.queue.dying_worker"),
            *(conninfo, superuser_conninfo),
        )
        async with asyncio.timeout(2 * BOUND):
            ends.append(await process.wait())
        # As if a lease's time had passed.
        await stage.expire_leases()
        assert len(ends) < 10
    assert ends == [1, 1, 1, 1, 0]
    assert sorted(await stage.rows("SELECT user_id, state, error_reason FROM jobs")) == [
        ("ana", "succeeded", ""),
        ("bo", "succeeded", ""),
        (FATAL_USER, "dead", "WORKER_LOST"),
    ]
