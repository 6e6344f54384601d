"""What is counted in the background is written before the service ends (D11, H6)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast
from uuid import UUID

import pytest

from hitherto_retrieval.usage_counts import AccessCounter
from hitherto_shared.database import counts
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.models import Scope


class Slow:
    """A database whose writes take as long as they are let.

    Attributes:
        begun: Set once a write is under way.
        let: Set to let it end.
        written: How many writes have ended.
    """

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.let = asyncio.Event()
        self.written = 0

    async def run(self, work: Callable[[Connection], Awaitable[Any]], *, timeout: float) -> None:
        self.begun.set()
        await self.let.wait()
        self.written += 1


async def test_a_batch_that_is_being_written_is_not_lost_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(counts, "FLUSH_SECONDS", 0.0)
    database = Slow()
    counter = AccessCounter(cast(Database, database))
    counter.returned(Scope("t", "ana"), [UUID(int=1)])
    await counter.start()
    await database.begun.wait()
    # One more comes in while the first is under way and the service is about to end.
    counter.returned(Scope("t", "ana"), [UUID(int=2)])
    ending = asyncio.create_task(counter.stop())
    await asyncio.sleep(0)
    assert not ending.done()
    database.let.set()
    async with asyncio.timeout(30):
        await ending
    assert database.written == 2
