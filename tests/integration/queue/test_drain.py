"""Stopping: running jobs finish or are handed back: requirement I2, faults.md row 9."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from hitherto_extraction.queue.claims import Claim
from hitherto_shared.database.pool import Connection, Database, Result
from hitherto_shared.errors import Unavailable
from tests.integration.queue.chat import HeldChat
from tests.integration.queue.stage import BOUND, Stage, transcript


class SlowToAnswer(Database):
    """Commits at once and tells so only when `go` is set, as a slow network would."""

    def __init__(self, conninfo: str) -> None:
        super().__init__(conninfo, "hitherto_maintenance", application="test")
        self.committed = asyncio.Event()
        self.go = asyncio.Event()

    async def run(
        self,
        work: Callable[[Connection], Awaitable[Result]],
        *,
        timeout: float,
        repeatable: bool = False,
    ) -> Result:
        done = await super().run(work, timeout=timeout, repeatable=repeatable)
        if done:
            self.committed.set()
            await self.go.wait()
        return done


async def test_a_claim_that_is_granted_while_stopping_is_handed_back(stage: Stage) -> None:
    """No job may stay `running` with nobody running it until its lease is over."""
    await stage.submit(transcript())
    database = SlowToAnswer(stage.conninfo)
    await stage.pool(database)
    chat = HeldChat()
    worker = stage.worker(stage.extraction(chat).run, database=database)
    await worker.start()
    await database.committed.wait()
    stopping = asyncio.create_task(worker.stop(0.0))
    await asyncio.sleep(0)
    database.go.set()
    await stopping
    assert await stage.rows("SELECT state, attempt FROM jobs") == [("queued", 0)]


async def test_a_job_that_waits_out_the_databases_trouble_is_handed_back_too(stage: Stage) -> None:
    """The stop finds it between its failure and the record of it."""
    await stage.submit(transcript())
    failed = asyncio.Event()

    async def run(held: Claim) -> None:
        failed.set()
        raise Unavailable("away", reason="DATABASE_UNAVAILABLE")

    worker = stage.worker(run, backoff_seconds=600.0)
    await worker.start()
    await failed.wait()
    await worker.stop(0.0)
    ((state, attempt),) = await stage.rows("SELECT state, attempt FROM jobs")
    assert state in ("queued", "failed")
    assert attempt == 0


async def test_stopping_leaves_no_task_behind(stage: Stage) -> None:
    """A stopped worker is gone, also one that never started."""
    before = asyncio.all_tasks()
    idle = stage.worker(stage.finish)
    await idle.stop(0.0)
    worker = stage.worker(stage.finish)
    await worker.start()
    await stage.submit(transcript())
    await stage.settled()
    await worker.stop(BOUND)
    left = {task.get_name() for task in asyncio.all_tasks() - before}
    assert not {name for name in left if name.startswith(("claim-loop", "renew-loop", "job-"))}
