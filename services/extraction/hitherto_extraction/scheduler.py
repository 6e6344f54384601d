"""The scheduler: APScheduler starts background duties at their time; it decides nothing else.

Each cron line wakes all replicas at its times; so does a short interval, because the times are
those of the database's clock and this machine's may be wrong, and because a slot may have been
missed. `upkeep.schedules` decides which replica runs a slot.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.interval import IntervalTrigger

from hitherto_extraction.upkeep.schedules import Schedules
from hitherto_shared.database import faults

logger = logging.getLogger("hitherto.scheduler")

_LOOK_SECONDS = 20

Duty = Callable[[], Awaitable[None]]


class Scheduler:
    """Wakes schedules and duties while the service runs."""

    def __init__(self, schedules: Schedules, at_intervals: Sequence[tuple[float, Duty]]) -> None:
        """Wake `schedules` at their slots, and each duty at its interval in seconds."""
        self._schedules = schedules
        self._at_intervals = at_intervals
        self._scheduler = AsyncIOScheduler(
            timezone=UTC,
            # A tick that comes late still counts; several missed ones count once.
            job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1},
        )

    def start(self) -> None:
        """Start; a missed slot runs at once."""
        tick = _cut_off_quietly(self.tick)
        self._scheduler.add_job(
            tick, IntervalTrigger(seconds=_LOOK_SECONDS), next_run_time=datetime.now(UTC)
        )
        for schedule in self._schedules.all:
            if schedule.cron is not None:
                self._scheduler.add_job(tick, schedule.cron.trigger)
        for seconds, duty in self._at_intervals:
            self._scheduler.add_job(_cut_off_quietly(duty), IntervalTrigger(seconds=seconds))
        self._scheduler.start()

    def stop(self) -> None:
        """Start nothing more."""
        self._scheduler.shutdown(wait=False)

    async def tick(self) -> None:
        """Let the schedules check their slots."""
        with faults.Tolerated(logger, "schedules are checked again later"):
            await self._schedules.tick()


def _cut_off_quietly(duty: Duty) -> Callable[[], Coroutine[None, None, None]]:
    """Run `duty`; its cancellation at shutdown is no failure, as which APScheduler would log it."""

    async def run() -> None:
        with suppress(asyncio.CancelledError):
            await duty()

    return run
