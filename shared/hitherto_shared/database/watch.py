"""Watches whether the database answers and accepts writes, for the health service and the log.

The process serves on: a restart cures no outage of Postgres, and callers learn what is the matter.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence

import psycopg
from psycopg_pool import PoolTimeout

from hitherto_shared import tasks
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


Say = Callable[[str, bool], Awaitable[None]]
"""Sets the health of a name."""


class HealthWatch(ABC):
    """Reports to the health service (`say`), in the background, what changes of some names."""

    def __init__(self, names: Sequence[str], say: Say) -> None:
        self._known = dict.fromkeys(names, True)
        self._say = say
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start watching; until something else is known, all is well."""
        for name in self._known:
            await self._say(name, True)
        self._task = asyncio.create_task(self._watch(), name=type(self).__name__)

    async def stop(self) -> None:
        """Stop watching."""
        await tasks.cancel(self._task)

    async def _tell(self, name: str, well: bool, told: str) -> None:
        """Report what has changed, and log it as `told`."""
        self._known[name] = well
        logger.warning(told)
        await self._say(name, well)

    @abstractmethod
    async def _watch(self) -> None: ...


class DatabaseWatch(HealthWatch):
    """Whether one of the databases answers, and with `writes`, whether the first accepts writes."""

    def __init__(self, databases: Sequence[Database], say: Say, *, writes: bool) -> None:
        super().__init__([DATABASE, WRITES] if writes else [DATABASE], say)
        self._databases = databases

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            found = [await self._ask(database) for database in self._databases]
            await self._learn(DATABASE, found)
            await self._learn(WRITES, found[:1])

    async def _learn(self, name: str, found: Sequence[Mapping[str, bool]]) -> None:
        known = [each[name] for each in found if name in each]
        if name in self._known and known and any(known) != self._known[name]:
            await self._tell(name, any(known), _TOLD[name, any(known)])

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
