"""Resumes waiting jobs once a model that was unreachable or misconfigured answers again.

While the circuit breaker is open, one waiting job at a time runs as a probe, whenever the breaker
permits one. Jobs that waited when the service stopped continue when it starts: it may have other
settings by now.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from hitherto_extraction.queue import waking
from hitherto_shared import tasks
from hitherto_shared.circuit_breaker import CircuitBreaker
from hitherto_shared.database import faults
from hitherto_shared.database.pool import Connection, Database

logger = logging.getLogger("hitherto.recovery")

LANGUAGE_MODEL = "language-model"
EMBEDDER = "embedder"
"""The health service reports under these names whether each of the two answers."""

NEEDED_BY: Mapping[str, Sequence[str]] = {
    LANGUAGE_MODEL: ("memory-extraction", "consolidation", "reconciliation"),
    # Other jobs run without vectors, which are back-filled.
    EMBEDDER: ("reembedding",),
}
"""The kinds of jobs that wait for a model."""

_SECONDS = 10.0
_LOOK_SECONDS = 1.0
"""Seconds after a probe until its outcome is checked."""

Say = Callable[[str, bool], Awaitable[None]]
"""Sets the health of the named model: whether it answers."""


@dataclass(eq=False)
class Recovery:
    """Watches the breakers of this process, which have the names above.

    The database role is hitherto_maintenance.
    """

    database: Database
    breakers: Mapping[str, CircuitBreaker]
    say: Say

    def __post_init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Resume jobs that waited for other settings, and start watching."""
        await self._wake(
            "jobs that waited for a model or a budget look again",
            lambda connection: waking.wake(connection, reasons=waking.OF_THE_SETTINGS),
        )
        for name, breaker in self.breakers.items():
            await self.say(name, True)
            watch = self._watch(name, breaker)
            self._tasks.append(asyncio.create_task(watch, name=f"recovery-{name}"))

    async def stop(self) -> None:
        """Stop watching."""
        await tasks.cancel(*self._tasks)
        self._tasks = []

    async def _watch(self, name: str, breaker: CircuitBreaker) -> None:
        while True:
            await breaker.changed()
            if not breaker.is_open():
                continue
            await self.say(name, False)
            while breaker.is_open():
                await self._until_probe(breaker)
                if breaker.is_open():
                    await self._wake(
                        "resumed a job to probe the model",
                        lambda connection: waking.wake(
                            connection, reasons=waking.OF_A_MODEL, kinds=NEEDED_BY[name], most=1
                        ),
                    )
                    await self._change(breaker, _LOOK_SECONDS)
            await self.say(name, True)
            await self._wake(
                "the model answers; resumed the waiting jobs",
                lambda connection: waking.wake(
                    connection, reasons=waking.OF_A_MODEL, kinds=NEEDED_BY[name]
                ),
            )

    async def _until_probe(self, breaker: CircuitBreaker) -> None:
        """Seconds until the next probe, or until the breaker closes."""
        while breaker.is_open() and (left := breaker.seconds_left) > 0:
            await self._change(breaker, left)

    async def _change(self, breaker: CircuitBreaker, timeout: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await breaker.changed()

    async def _wake(self, what: str, wake: Callable[[Connection], Awaitable[int]]) -> None:
        # Otherwise they continue by themselves when they are due.
        with faults.Tolerated(logger, "cannot resume waiting jobs"):
            if count := await self.database.run(wake, timeout=_SECONDS):
                logger.info("%s: %d", what, count)
