"""Wakes workers and watchers when a job was queued or changed, through one LISTEN per process.

A signal is a hint and may be lost (a reconnect, a pooler): whoever waits also looks by itself
every second.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

import psycopg

logger = logging.getLogger("recollect.queue")

CHANNEL = "recollect_jobs"
LOOK_ANYWAY_SECONDS = 1.0


class JobSignals:
    """Listens for as long as it runs; `wait` returns at the next signal or after a second."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to listen in the background."""
        self._task = asyncio.create_task(self._listen(), name="job-signals")

    async def stop(self) -> None:
        """Stop listening."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    def wake(self) -> None:
        """Signal from inside this process."""
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def wait(self, timeout: float = LOOK_ANYWAY_SECONDS) -> None:
        """Return when something happened to some job, or after `timeout` seconds."""
        news = self._news
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await news.wait()

    async def _listen(self) -> None:
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(
                    self._conninfo, autocommit=True
                ) as connection:
                    await connection.execute(f"LISTEN {CHANNEL}")
                    self.wake()
                    async for _ in connection.notifies():
                        self.wake()
            except psycopg.Error as error:
                logger.info("listening was interrupted: %s", type(error).__name__)
            await asyncio.sleep(LOOK_ANYWAY_SECONDS)
