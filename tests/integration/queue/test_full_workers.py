"""Workers without a free slot: they leave the queue alone, but for jobs of whole tenants."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from hitherto_extraction.queue.claims import Claim
from hitherto_shared.database.pool import Database
from tests.integration.queue.stage import BOUND, Stage, transcript
from tests.integration.queue.test_order import queued
from tests.waiting import eventually

_LOOKS_PER_SECOND = 4


class CountingDatabase(Database):
    """A pool that counts the pieces of work run on it."""

    runs = 0

    async def run(self, *given: Any, **named: Any) -> Any:
        self.runs += 1
        return await super().run(*given, **named)


async def test_a_full_worker_does_not_claim_at_every_signal(stage: Stage) -> None:
    """Every job raises signals; while other jobs fill the slots, none of them can start one."""
    database = await stage.pool(
        CountingDatabase(stage.conninfo, "hitherto_maintenance", application="test")
    )
    full, go = asyncio.Event(), asyncio.Event()

    async def hold(held: Claim) -> None:
        full.set()
        await go.wait()
        await stage.finish(held)

    await stage.submit(transcript(), transcript(user="bo"))
    worker = stage.worker(hold, database=database, concurrency=1, reembedding=stage.finish)
    began = time.monotonic()
    await worker.start()
    async with asyncio.timeout(BOUND):
        await full.wait()
    for _ in range(50):
        stage.signals.wake()
        await asyncio.sleep(0.02)
    assert database.runs <= 2 + _LOOKS_PER_SECOND * (time.monotonic() - began)
    assert await stage.states() == {"running": 1, "queued": 1}

    wide = await queued(stage, "reembedding", user=None)
    await eventually(lambda: ended(stage, wide))
    assert await stage.states() == {"running": 1, "queued": 1, "succeeded": 1}

    go.set()
    await stage.settled()
    assert await stage.states() == {"succeeded": 3}


async def ended(stage: Stage, job_id: Any) -> bool:
    return bool((await stage.job(job_id))["state"] == "succeeded")
