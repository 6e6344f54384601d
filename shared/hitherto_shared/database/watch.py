"""Watches whether the database answers and accepts writes, for the health service and the log.

The process serves on: a restart cures no outage of Postgres, and callers learn what is the matter.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

import psycopg
from psycopg_pool import PoolTimeout

from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.errors import TooLate, Unavailable

logger = logging.getLogger("hitherto.database")

DATABASE = "database"
"""The health service reports under this name whether a database answers,"""
WRITES = "writes"
"""and under this one whether it accepts writes."""

_ACCEPTS_WRITES = "SELECT NOT current_setting('transaction_read_only')::bool"

_LOOK_SECONDS = 2.0
_ANSWER_SECONDS = 5.0
_TOLD = {
    (DATABASE, False): "the database does not answer; what needs it is refused or waits",
    (DATABASE, True): "the database answers again",
    (WRITES, False): "the database accepts no writes, as a standby does, or one with "
    "default_transaction_read_only; what writes is refused or waits: promote it, or let "
    "DATABASE_URL name the primary",
    (WRITES, True): "the database accepts writes again",
}


class DatabaseWatch:
    """Reports changes to the health service.

    Args:
        databases: One of them must answer.
        say: Sets the health of the names above.
        writes: Whether the first must accept writes.
    """

    def __init__(
        self,
        databases: Sequence[Database],
        say: Callable[[str, bool], Awaitable[None]],
        *,
        writes: bool,
    ) -> None:
        self._databases = databases
        self._say = say
        self._known = {DATABASE: True, WRITES: True} if writes else {DATABASE: True}
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start watching; until something else is known, all is well."""
        for name, well in self._known.items():
            await self._say(name, well)
        self._task = asyncio.create_task(self._watch(), name="database")

    async def stop(self) -> None:
        """Stop watching."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            found = [await self._ask(database) for database in self._databases]
            await self._learn(DATABASE, found)
            await self._learn(WRITES, found[:1])

    async def _learn(self, name: str, found: Sequence[Mapping[str, bool]]) -> None:
        known = [each[name] for each in found if name in each]
        if name in self._known and known and any(known) != self._known[name]:
            self._known[name] = any(known)
            logger.warning(_TOLD[name, self._known[name]])
            await self._say(name, self._known[name])

    async def _ask(self, database: Database) -> dict[str, bool]:
        """What is known of a database by asking it, by the names above."""
        try:
            writes = await database.run(_accepts_writes, timeout=_ANSWER_SECONDS, repeatable=True)
        except PoolTimeout:
            return {}  # too many calls wait for it to tell
        except (psycopg.Error, Unavailable, TooLate):
            return {DATABASE: False}
        return {DATABASE: True, WRITES: writes}


async def _accepts_writes(connection: Connection) -> bool:
    [(accepts,)] = await connection.fetch_rows(_ACCEPTS_WRITES)
    return bool(accepts)
