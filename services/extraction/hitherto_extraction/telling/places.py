"""Gives changes their places in the stream as soon as they are committed, with their deliveries."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from hitherto_extraction.storage import changes, deliveries, webhooks
from hitherto_extraction.storage.deliveries import NewDelivery
from hitherto_shared import tasks
from hitherto_shared.database import faults
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.database.signals import Signals
from hitherto_shared.identifiers import uuid7

logger = logging.getLogger("hitherto.changes")

_AT_ONCE = 1_000
_LOOK_SECONDS = 0.5
"""Changes by hand give no signal: they are told after half of this time, on average."""
_PAUSE_SECONDS = 0.1
"""Between two rounds, so that changes that follow one another are placed together."""
_SECONDS = 10.0
_KEPT_AT_ONCE = 1_000


@dataclass(eq=False)
class PlacingLoop:
    """Runs in every process; one at a time gives places. The role is hitherto_maintenance.

    `signals` are those of jobs, whose end often is a change. `due` is called when there are new
    deliveries.
    """

    database: Database
    signals: Signals
    due: Callable[[], None]
    _task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start in the background."""
        self._task = asyncio.create_task(self._run(), name="placing-loop")

    async def stop(self) -> None:
        """Stop; what is in progress is rolled back, and repeated by another process."""
        await tasks.cancel(self._task)

    async def _run(self) -> None:
        with self.signals.watching() as news:
            while True:
                with faults.Tolerated(logger, "changes are told later"):
                    while await self._round():
                        pass
                await asyncio.sleep(_PAUSE_SECONDS)
                await news.change(_LOOK_SECONDS)

    async def _round(self) -> bool:
        """Place what has been committed; whether there may be more."""
        if not await self.database.run(changes.any_waiting, timeout=_SECONDS, repeatable=True):
            return False
        placed, delivered = await self.database.transact(_place, timeout=_SECONDS)
        if delivered:
            self.due()
        return placed == _AT_ONCE


async def _place(connection: Connection) -> tuple[int, int]:
    """Give changes their places; how many, and how many deliveries they make."""
    placed = await changes.give_positions(connection, limit=_AT_ONCE)
    if not placed:
        return 0, 0
    wanting = await webhooks.wanted(connection, {each.tenant_id for each in placed})
    new = [
        NewDelivery(each.tenant_id, each.user_id, uuid7(), wanted.webhook_id, each.change_no)
        for each in placed
        for wanted in wanting
        if wanted.wants(each.tenant_id, each.user_id, each.action)
    ]
    await deliveries.insert(connection, new)
    return len(placed), len(new)


async def delete_old_changes(database: Database, days: int) -> int:
    """Delete changes older than `days`, with their deliveries; returns how many, a batch at most.

    A step of a duty.
    """
    return await database.transact(
        lambda connection: changes.delete_old(connection, days=days, limit=_KEPT_AT_ONCE),
        timeout=_SECONDS,
    )
