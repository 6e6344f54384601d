"""Database work whose caller has left: it ends by itself, or is ended.

Work that holds a connection gets a moment to end by itself, which is cheaper than a new connection.
Then it is cancelled: psycopg asks Postgres to end the statement and keeps the connection. If
Postgres does not do so either, the work is cancelled again, and psycopg closes the connection.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

logger = logging.getLogger("hitherto.database")

MOMENT_SECONDS = 0.1
"""Time for which abandoned work may keep its connection before it is cancelled."""
INSIST_SECONDS = 3.0
"""Time for Postgres to end a cancelled statement before its connection is closed."""
_END_SECONDS = 2.0


class AbandonedWork:
    """The abandoned work of one pool."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def leave(self, task: asyncio.Task[Any], *, after: float = MOMENT_SECONDS) -> None:
        """Let `task` end by itself, or cancel it after `after` seconds."""
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        if after:
            asyncio.get_running_loop().call_later(after, self._cancel, task)
        else:
            self._cancel(task)

    async def end(self) -> None:
        """Cancel everything, which gets a moment to notice."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_END_SECONDS)

    def _cancel(self, task: asyncio.Task[Any]) -> None:
        """Cancel `task`, repeatedly as long as it continues."""
        if not task.done():
            task.cancel()
            asyncio.get_running_loop().call_later(INSIST_SECONDS, self._cancel, task)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.debug("abandoned database work ended: %s", type(error).__name__)
