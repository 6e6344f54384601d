"""Background duties of the service, each safe with many replicas, and what starts them.

APScheduler wakes all replicas at the times of each cron line, and decides nothing else; so does a
short interval, because the times are those of the database's clock and this machine's may be wrong,
and because a slot may have been missed. `upkeep.schedules` decides which replica runs a slot.
Intervals are measured by the monotonic clock: with APScheduler, a machine's clock that is set back
by an hour would keep everything waiting for an hour.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from datetime import UTC

from apscheduler.schedulers.asyncio import AsyncIOScheduler

from hitherto_extraction.documents.ingest import delete_expired
from hitherto_extraction.intake import Intake
from hitherto_extraction.storage import (
    conversations,
    documents,
    idempotency,
    reindexing,
    sessions,
    unusable_replies,
    users,
)
from hitherto_extraction.upkeep.schedules import Schedules
from hitherto_shared.database import faults
from hitherto_shared.database.pool import Database
from hitherto_shared.database.tenancy import acting_for
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.models import Scope

logger = logging.getLogger("hitherto.sweeps")

SOON_SECONDS = 10.0
"""The interval of duties that somebody waits for: late vectors, sealing."""
_FIRST_SECONDS = 60.0
"""A duty begins at the latest this long after the start: a process may live for minutes only."""
_BATCH = 200
_SWEEP_SECONDS = 10.0
_USER_SECONDS = 30.0
"""For one transaction that deletes of a user."""
_SLOT_SECONDS = 60.0
"""The default interval of the schedule `idle`."""
_LOOK_SECONDS = 20

Work = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Duty:
    """Work that is repeated: its name in the log, and its interval in seconds.

    With `until_done`, it is a step that returns how much it did, and is repeated at once until it
    does nothing.
    """

    what: str
    seconds: float
    work: Callable[[], Awaitable[object]]
    until_done: bool = False


def _tolerant(duty: Duty) -> Work:
    async def run() -> None:
        with faults.Tolerated(logger, f"{duty.what} skipped"):
            while await duty.work() and duty.until_done:
                pass

    return run


@dataclass(eq=False)
class Sweeps:
    """The duties of this process: its own, and `others`.

    The database role is hitherto_maintenance, and hitherto_removal for what is deleted of users.
    """

    database: Database
    intake: Intake
    removal: Database
    others: Sequence[Duty] = ()
    _: KW_ONLY
    idle_minutes: float

    def at_intervals(self, *, idle: bool) -> list[tuple[float, Work]]:
        """The duties of every replica, with their intervals in seconds.

        With `idle`, a silence shorter than the interval of the schedule of that name is also
        noticed in time.
        """
        duties = [
            Duty("deletion of expired keys", 3_600.0, self.drop_keys, until_done=True),
            Duty("deletion of expired replies", 3_600.0, self.drop_replies, until_done=True),
            Duty("sweep of working memory", 600.0, self.drop_sessions, until_done=True),
            Duty("sweep of documents", 60.0, self.drop_documents, until_done=True),
            Duty("sweep of words", 60.0, self.drop_words, until_done=True),
            *self.others,
        ]
        every = max(1.0, self.idle_minutes * 60 / 4)
        if idle and every < _SLOT_SECONDS:
            duties.append(Duty("idle sweep", every, self.queue_idle))
        return [(duty.seconds, _tolerant(duty)) for duty in duties]

    async def queue_idle(self) -> None:
        """Queue the unextracted rest of silent conversations."""
        failed: set[tuple[Scope, str]] = set()
        with faults.Tolerated(logger, "idle sweep skipped"):
            while await self._queue_some_idle(failed):
                pass

    async def _queue_some_idle(self, failed: set[tuple[Scope, str]]) -> int:
        """Queue some that have not `failed` yet; returns how many were found."""
        found = await self.database.run(
            lambda connection: conversations.find_idle(
                connection, idle_seconds=self.idle_minutes * 60, limit=_BATCH, without=failed
            ),
            timeout=_SWEEP_SECONDS,
        )
        for scope, conversation_id in found:
            failed.add((scope, conversation_id))
            with (
                faults.Tolerated(logger, "an idle conversation is queued later"),
                acting_for(scope.tenant_id),
            ):
                await self.intake.queue_idle(scope, conversation_id)
                failed.remove((scope, conversation_id))
        return len(found)

    async def drop_keys(self) -> int:
        """Delete a batch of expired idempotency keys; returns how many."""
        return await self.database.run(
            lambda connection: idempotency.expire(connection, limit=_BATCH), timeout=_SWEEP_SECONDS
        )

    async def drop_replies(self) -> int:
        """Delete a batch of expired unusable replies; returns how many."""
        return await self.database.run(
            lambda connection: unusable_replies.expire(connection, limit=_BATCH),
            timeout=_SWEEP_SECONDS,
        )

    async def drop_sessions(self) -> int:
        """Delete a batch of expired working memory; returns how much."""
        return await self.database.run(sessions.drop_expired, timeout=_SWEEP_SECONDS)

    async def drop_documents(self) -> int:
        """Delete some expired documents, each in a transaction of its own; returns how many."""
        dropped = 0
        for scope, document_id in await self.database.run(
            lambda connection: documents.find_expired(connection, limit=_BATCH),
            timeout=_SWEEP_SECONDS,
        ):
            with (
                faults.Tolerated(logger, "deletion of a document skipped"),
                acting_for(scope.tenant_id),
            ):
                dropped += await self.removal.transact(
                    lambda connection: delete_expired(connection.of(scope), document_id),  # noqa: B023
                    timeout=_USER_SECONDS,
                )
        return dropped

    async def drop_words(self) -> int:
        """Delete words of nothing from keyword indexes of memories; returns of how many users."""
        dropped = 0
        for scope in await self.database.run(
            lambda connection: reindexing.find_to_sweep(connection, limit=_BATCH),
            timeout=_SWEEP_SECONDS,
        ):
            with faults.Tolerated(logger, "sweep of words skipped"), acting_for(scope.tenant_id):
                dropped += await self.removal.transact(
                    lambda connection: _drop_words(connection.of(scope)),  # noqa: B023
                    timeout=_USER_SECONDS,
                )
        return dropped


async def _drop_words(user: UserRows) -> int:
    await users.enter_alone(user)
    return await reindexing.sweep_if_left(user)


class Scheduler:
    """Wakes schedules and duties while the service runs."""

    def __init__(self, schedules: Schedules, at_intervals: Sequence[tuple[float, Work]]) -> None:
        """Wake `schedules` at their slots, and each duty at its interval in seconds."""
        self._schedules = schedules
        self._at_intervals = at_intervals
        self._slot_begins = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        # A tick that comes late still counts; several missed ones count once.
        self._ticks = AsyncIOScheduler(
            timezone=UTC, job_defaults={"misfire_grace_time": None, "coalesce": True}
        )

    def start(self) -> None:
        """Start; a missed slot runs at once."""
        for schedule in self._schedules.all:
            if schedule.cron is not None:
                self._ticks.add_job(self._wake, schedule.cron.trigger)
        self._ticks.start()
        works = [self._look(), *(_repeat(seconds, duty) for seconds, duty in self._at_intervals)]
        self._tasks = [asyncio.create_task(work, name="duty") for work in works]

    def stop(self) -> None:
        """Start nothing more, and give up what runs; what is left is done at its next time."""
        self._ticks.shutdown(wait=False)
        for task in self._tasks:
            task.cancel()

    async def tick(self) -> None:
        """Let the schedules check their slots."""
        with faults.Tolerated(logger, "schedules are checked again later"):
            await self._schedules.tick()

    async def _wake(self) -> None:
        self._slot_begins.set()

    async def _look(self) -> None:
        """Check the slots now, whenever one begins by this machine's clock, and in between."""
        while True:
            self._slot_begins.clear()
            await _attempt(self.tick)
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._slot_begins.wait()


async def _repeat(seconds: float, duty: Work) -> None:
    """Run a duty at its interval, which a change of the machine's clock makes no longer.

    Processes that were started together do not begin a long interval together.
    """
    wait = min(seconds, _FIRST_SECONDS * random.uniform(0.5, 1.0))
    while True:
        await asyncio.sleep(wait)
        await _attempt(duty)
        wait = seconds


async def _attempt(duty: Work) -> None:
    """Run a duty; a defect of it ends neither its repetition nor another duty."""
    try:
        await duty()
    except Exception:
        logger.exception("a duty failed, and is repeated later")
