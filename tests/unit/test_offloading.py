"""Work in a thread ends when nobody waits for it any more: a process waits for its threads."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from hitherto_extraction.consolidation.groups import plan_groups
from hitherto_extraction.storage.consolidation import Member
from hitherto_shared.offloading import SHORT, GivenUp, end_if_given_up, in_thread_if_long
from tests.unit.consolidation.rows import member
from tests.unit.pipeline.situations import new, planned

BOUND = 120.0


async def _cancelled_during(work: Callable[[], object]) -> BaseException | None:
    """The end of `work`, which is cancelled once it runs."""
    begun, ended = threading.Event(), threading.Event()
    raised: list[BaseException] = []

    def watched() -> None:
        begun.set()
        try:
            work()
        except BaseException as error:
            raised.append(error)
        finally:
            ended.set()

    task = asyncio.create_task(in_thread_if_long(SHORT + 1, watched))
    assert await asyncio.to_thread(begun.wait, BOUND)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(ended.wait, BOUND), "the thread goes on"
    return raised[0] if raised else None


def _wait_until_given_up() -> None:
    """Return once the caller is cancelled, so that work which goes on regardless soon ends."""
    give_up = time.monotonic() + BOUND
    with suppress(GivenUp):
        while time.monotonic() < give_up:
            end_if_given_up()
            time.sleep(0.001)


async def test_a_loop_in_a_thread_ends_once_its_caller_is_cancelled() -> None:
    give_up = time.monotonic() + BOUND

    def work() -> None:
        while time.monotonic() < give_up:
            end_if_given_up()

    assert isinstance(await _cancelled_during(work), GivenUp)


async def test_planning_ends_once_its_caller_is_cancelled() -> None:
    def plan_after_that() -> None:
        _wait_until_given_up()
        planned(new=[new()])

    assert isinstance(await _cancelled_during(plan_after_that), GivenUp)


async def test_grouping_a_crowd_ends_once_its_caller_is_cancelled() -> None:
    """A tag may have thousands of memories, each of which takes a while to read."""
    one = member(1, "The user likes tea")

    class Crowd(tuple[Member, ...]):
        def __iter__(self) -> Iterator[Member]:
            _wait_until_given_up()
            yield one

    raised = await _cancelled_during(lambda: plan_groups(Crowd(), taken=[], nearness=0.7))
    assert isinstance(raised, GivenUp)


async def test_work_that_somebody_waits_for_goes_on() -> None:
    def work() -> str:
        end_if_given_up()
        return "done"

    assert (
        await in_thread_if_long(SHORT + 1, work) == await in_thread_if_long(SHORT, work) == "done"
    )
