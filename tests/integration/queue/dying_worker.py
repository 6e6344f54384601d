"""A worker as a process of its own, which the jobs of one user end at once."""

from __future__ import annotations

import asyncio
import os
import sys

from hitherto_extraction.queue.claims import Claim
from tests.integration.queue.stage import BOUND, Stage, staged

FATAL_USER = "fatal"


async def _work(stage: Stage) -> None:
    async def run(held: Claim) -> None:
        if held.user_id == FATAL_USER:
            os._exit(1)
        await stage.finish(held)

    await stage.worker(run).start()
    async with asyncio.timeout(BOUND):
        await stage.settled()


async def _main(conninfo: str, superuser_conninfo: str) -> None:
    async with staged(conninfo, superuser_conninfo) as stage:
        await _work(stage)


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
