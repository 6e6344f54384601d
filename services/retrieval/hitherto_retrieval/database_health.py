"""Tracks whether the replica and the primary are reachable.

A call that finds a database unreachable records it here and uses the other one. From then on calls
bypass it, and a background task probes it until it answers: no caller waits to find that out. A
replica that no longer follows the primary is bypassed in the same way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from hitherto_shared import metrics, tasks
from hitherto_shared.database.pool import Database

logger = logging.getLogger("hitherto.readers")

_ANSWER_SECONDS = 0.5
"""A database that does not answer within this time counts as down or frozen."""
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 2.0


class DatabaseHealth:
    """A database and whether it is reachable as far as known.

    Args:
        database: The database.
        what: Its name in logs, such as `the replica`.
        strayed: Whether it answers, but not with the primary's data; unset: it never does that.
    """

    def __init__(
        self,
        database: Database,
        what: str,
        strayed: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        self.database = database
        self._strayed = strayed
        self.in_reach = True
        self._what = what
        self._shown = metrics.DATABASE_REACHABLE.labels(what.removeprefix("the "))
        self._shown.set(1)
        self._asking: asyncio.Task[None] | None = None

    def doubt(self, *, lost: bool, why: str = "is unreachable") -> None:
        """Record that a call got no answer, or would get a wrong one.

        Args:
            lost: Whether it is certainly unreachable. Otherwise it was slow or busy, and a probe
                decides before calls bypass it.
            why: For the log, if it is lost.
        """
        if lost:
            self._lose(why)
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask(), name=f"asking {self._what}")

    async def close(self) -> None:
        """Stop probing."""
        await tasks.cancel(self._asking)

    async def _ask(self) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while not await self._usable():
            self._lose("is unreachable")
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        if not self.in_reach:
            self.in_reach = True
            self._shown.set(1)
            logger.info("%s is reachable again", self._what)

    async def _usable(self) -> bool:
        if not await self.database.answers(timeout=_ANSWER_SECONDS):
            return False
        return self._strayed is None or not await self._strayed()

    def _lose(self, why: str) -> None:
        if self.in_reach:
            self.in_reach = False
            self._shown.set(0)
            logger.warning("%s %s; calls bypass it until it answers", self._what, why)
