"""Health of the replica and the primary: whether a database is worth asking.

A call that meets a database out of reach tells it here and goes to the other one. From then on
calls go around it at once, and a task of this process's own asks it again and again until it
answers: no caller waits to find that out.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from hitherto_shared.database.pool import Database

logger = logging.getLogger("hitherto.readers")

_ANSWER_SECONDS = 0.5
"""Postgres answers that it lives within this time, or it is taken for dead or frozen."""
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 2.0


class DatabaseHealth:
    """A database, and whether it was in reach when last heard of.

    Args:
        database: The database.
        what: How it is called in logs, such as `the replica`.
    """

    def __init__(self, database: Database, what: str) -> None:
        self.database = database
        self.in_reach = True
        self._what = what
        self._asking: asyncio.Task[None] | None = None

    def doubt(self, *, lost: bool) -> None:
        """Note that a call got no answer.

        Args:
            lost: It is out of reach for certain. Else it was slow or busy, and whether it is still
                there is found out before calls go around it.
        """
        if lost:
            self._lose()
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask(), name=f"asking {self._what}")

    async def close(self) -> None:
        """Ask no more."""
        if self._asking is not None:
            self._asking.cancel()
            with suppress(asyncio.CancelledError):
                await self._asking

    async def _ask(self) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while not await self.database.answers(timeout=_ANSWER_SECONDS):
            self._lose()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        if not self.in_reach:
            self.in_reach = True
            logger.info("%s is back", self._what)

    def _lose(self) -> None:
        if self.in_reach:
            self.in_reach = False
            logger.warning("%s is out of reach; calls go around it until it is back", self._what)
