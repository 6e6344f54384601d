"""Wakes those who wait for a change in the database, through one LISTEN per process.

A signal is a hint and may be lost (a reconnect, a pooler), so every waiter also looks once a
second. A signal that names a subject wakes those who wait for it, and those who wait for any.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import LiteralString

import psycopg
from psycopg.abc import RV, PQGen
from psycopg.sql import SQL, Identifier

from hitherto_shared import tasks
from hitherto_shared.database.connect import DatabaseUnreachable
from hitherto_shared.database.faults import described

logger = logging.getLogger("hitherto.signals")

LOOK_ANYWAY_SECONDS = 1.0
_ALL = ""


class Watch:
    """A subscription to signals. A signal between two waits is not lost."""

    def __init__(self) -> None:
        self._news = asyncio.Event()

    def wake(self) -> None:
        """End the present wait, or the next one."""
        self._news.set()

    def seen(self) -> bool:
        """Whether a signal has arrived since the last check; does not wait."""
        happened = self._news.is_set()
        self._news.clear()
        return happened

    async def change(self, timeout: float = LOOK_ANYWAY_SECONDS) -> None:
        """Return when a signal has arrived since the last check, or after `timeout` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._news.wait()
        self._news.clear()


class _Listener(psycopg.AsyncConnection):
    """A session that sleeps until something arrives.

    psycopg wakes the event loop ten times a second, for an interrupt that an event loop needs no
    help to notice.
    """

    async def wait(
        self, gen: PQGen[RV], interval: float = LOOK_ANYWAY_SECONDS, timeout: float | None = None
    ) -> RV:
        """As psycopg's, with pauses of another length."""
        return await super().wait(gen, interval, timeout)


class Signals:
    """Listens while it runs.

    Attributes:
        ending: Whether the process is stopping; waiters should reconnect to another one.

    Args:
        channel: The name that signals are sent under.
        conninfo: A session of its own, not of a pooler; None if there is none. Signals then reach
            this process only, and waiters in others find what changed by polling.
        later: What happens later without a session, for the log.
    """

    def __init__(self, channel: LiteralString, conninfo: str | None, *, later: str) -> None:
        self._channel = channel
        self._conninfo = conninfo
        self._later = later
        self._watches: defaultdict[str, set[Watch]] = defaultdict(set)
        self._task: asyncio.Task[None] | None = None
        self._told = ""
        self.ending = False

    async def start(self) -> None:
        """Start listening in the background."""
        if self._conninfo is None:
            logger.warning(
                "HITHERTO_DIRECT_DATABASE_URL is not set, and a pooler passes on no signals: %s up "
                "to %.0f s later",
                self._later,
                LOOK_ANYWAY_SECONDS,
            )
            return
        self._task = asyncio.create_task(
            self._listen(self._conninfo), name=f"signals-{self._channel}"
        )

    async def stop(self) -> None:
        """Stop listening."""
        await tasks.cancel(self._task)

    def end(self) -> None:
        """Tell all waiters that the process is stopping."""
        self.ending = True
        self._wake_everybody()

    @contextmanager
    def watching(self, subject: str | None = None) -> Iterator[Watch]:
        """A watch of one subject, or of all, until the block ends."""
        watch = Watch()
        key = _ALL if subject is None else subject
        self._watches[key].add(watch)
        try:
            yield watch
        finally:
            self._watches[key].discard(watch)
            if not self._watches[key]:
                del self._watches[key]

    def wake(self, subject: str = _ALL) -> None:
        """Signal from inside this process: to the watches of this subject, and to those of all."""
        for key in {subject, _ALL}:
            for watch in self._watches.get(key, ()):
                watch.wake()

    def _wake_everybody(self) -> None:
        for watches in self._watches.values():
            for watch in watches:
                watch.wake()

    async def _listen(self, conninfo: str) -> None:
        while True:
            try:
                connection = await _Listener.connect(conninfo, autocommit=True)
            except psycopg.Error as error:
                self._tell(str(DatabaseUnreachable(error)))
            else:
                async with connection:
                    await self._pass_on(connection)
            await asyncio.sleep(LOOK_ANYWAY_SECONDS)

    async def _pass_on(self, connection: _Listener) -> None:
        """Pass on what arrives until the session ends; why it cannot listen is logged once."""
        try:
            await connection.execute(SQL("LISTEN {}").format(Identifier(self._channel)))
        except psycopg.Error as error:
            self._tell(described(error))
            return
        self._told = ""
        # Earlier signals are lost.
        self._wake_everybody()
        try:
            async for notice in connection.notifies():
                self.wake(notice.payload)
        except psycopg.Error as error:
            logger.info("LISTEN was interrupted: %s", type(error).__name__)

    def _tell(self, why: str) -> None:
        if why != self._told:
            self._told = why
            logger.warning(
                "no signals from the database, and %s up to %.0f s later: %s. Behind a pooler, the "
                "connection string is HITHERTO_DIRECT_DATABASE_URL",
                self._later,
                LOOK_ANYWAY_SECONDS,
                why,
            )
