"""Schedules of upkeep: their slots, and which replica runs a slot.

A slot is a time that the cron line matches, in UTC and by the database's clock. The replica that
inserts the latest one into `schedule_runs` queues the jobs in the same transaction, also after an
outage. Where a line has a day of the month and a day of the week, both must match.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from apscheduler.triggers.cron import CronTrigger

from hitherto_extraction.queue.enqueueing import JobQueue
from hitherto_extraction.queue.jobs import announce
from hitherto_extraction.storage import retention, schedules, users
from hitherto_extraction.storage.retention import RetentionDays
from hitherto_shared.database.pool import Connection, Database

logger = logging.getLogger("hitherto.schedules")

DECAY = "decay"
CONSOLIDATION = "consolidation"
RETENTION = "retention"
IDLE = "idle"
AUDIT = "audit"
NAMES = (DECAY, CONSOLIDATION, RETENTION, AUDIT, IDLE)

OFF = "off"

_SECONDS = 15.0
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DAY = rf"[0-7]|{'|'.join(_DAYS)}"
_DAYS_PART = re.compile(rf"(?:(\*)|({_DAY})(?:-({_DAY}))?)(?:/([1-9]\d?))?")
_MOMENT = timedelta(microseconds=1)
_LONGEST_YEARS = 9
"""The longest gap of any line that ever fires, in years: the 29th of February around 2100."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Upkeep by name, and when it runs; None means never."""

    name: str
    cron: Cron | None

    @property
    def line(self) -> str:
        """The cron line, as configured."""
        return self.cron.line if self.cron is not None else OFF


@dataclass(frozen=True, slots=True)
class ScheduleStatus:
    """A schedule with its last and next run, as reported to one tenant."""

    schedule: Schedule
    last_run_at: datetime | None
    next_run_at: datetime | None
    last_job_id: UUID | None


def read_schedules(lines: dict[str, str]) -> list[Schedule]:
    """Schedules from their cron lines by name; see `read_line`."""
    return [Schedule(name, read_line(line)) for name, line in sorted(lines.items())]


def read_line(line: str) -> Cron | None:
    """Parse a setting; an empty one and `off` mean never.

    Raises:
        ValueError: It is neither of these nor a cron line.
    """
    return None if line.strip().lower() in ("", OFF) else Cron(line)


@dataclass(eq=False)
class Schedules:
    """Takes slots and queues their jobs. The role is hitherto_maintenance.

    `all` includes the schedules that are off. `idle` and `audit` are the work of the two schedules
    that create no job. Without any retention in `keep`, no job of it is queued.
    """

    database: Database
    all: Sequence[Schedule]
    _: KW_ONLY
    idle: Callable[[], Awaitable[None]]
    keep: RetentionDays
    queue: JobQueue
    audit: Callable[[], Awaitable[None]]

    @property
    def _at_once(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        return {IDLE: self.idle, AUDIT: self.audit}

    async def tick(self) -> list[str]:
        """Run every schedule whose latest slot is not taken; returns those that this call ran."""
        ran = []
        for schedule, slot in await self.database.run(self._due, timeout=_SECONDS):
            if not await self._take(schedule, slot):
                continue
            ran.append(schedule.name)
            if schedule.name in self._at_once:
                await self._at_once[schedule.name]()
            else:
                logger.info("upkeep queued", extra={"schedule": schedule.name, "slot": str(slot)})
        return ran

    async def statuses(
        self, connection: Connection, tenant_id: str, *, after: str, limit: int
    ) -> list[ScheduleStatus]:
        """The schedules after one with this name, as reported to a tenant."""
        wanted = [schedule for schedule in self.all if schedule.name > after][:limit]
        at = await users.database_now(connection)
        last = await schedules.last_runs(connection, tenant_id, [each.name for each in wanted])
        return [
            ScheduleStatus(
                schedule,
                last[schedule.name][0],
                schedule.cron.next(at) if schedule.cron is not None else None,
                last[schedule.name][1],
            )
            for schedule in wanted
        ]

    async def _due(self, connection: Connection) -> list[tuple[Schedule, datetime]]:
        """The schedules whose latest slot has not been taken, with that slot."""
        at = await users.database_now(connection)
        taken = await schedules.taken(connection)
        due = []
        for schedule in self.all:
            slot = schedule.cron.latest(at) if schedule.cron is not None else None
            if slot is not None and (schedule.name not in taken or taken[schedule.name] < slot):
                due.append((schedule, slot))
        return due

    async def _take(self, schedule: Schedule, slot: datetime) -> bool:
        async def work(connection: Connection) -> bool:
            if not await schedules.take(connection, schedule.name, slot):
                return False
            if schedule.name not in self._at_once:
                queued = await self.queue.enqueue_for_slot(
                    connection,
                    schedule.name,
                    slot,
                    kind=schedule.name,
                    tenant_ids=await self._concerned(connection, schedule),
                )
                if queued:
                    await announce(connection, "queued")
            return True

        return await self.database.transact(work, timeout=_SECONDS)

    async def _concerned(self, connection: Connection, schedule: Schedule) -> list[str]:
        found = await schedules.tenants(connection)
        if schedule.name != RETENTION:
            return found
        return [
            tenant_id
            for tenant_id in found
            if await retention.anything_kept_for_a_time(connection, tenant_id, self.keep)
        ]


class Cron:
    """A cron line with at least one matching time."""

    def __init__(self, line: str) -> None:
        """Parse `line`; a ValueError says what is wrong with it."""
        fields = line.lower().split()
        if len(fields) != 5:
            raise ValueError(
                f"{line!r} is not a cron expression: it needs five fields (minute, hour, day of "
                f"the month, month, day of the week), such as '0 3 * * *', or {OFF!r}"
            )
        minute, hour, day, month, weekday = fields
        try:
            self.trigger = CronTrigger(
                minute=minute,
                hour=hour,
                day=day,
                month=month,
                day_of_week=_weekdays(weekday),
                timezone=UTC,
            )
        except ValueError as error:
            raise ValueError(f"{line!r} is no cron line: {error}") from None
        self.line = " ".join(line.split())
        if self.trigger.get_next_fire_time(None, datetime(2001, 1, 1, tzinfo=UTC)) is None:
            raise ValueError(f"{line!r} names a moment that never comes")

    def next(self, after: datetime) -> datetime | None:
        """The first matching time later than `after`."""
        found: datetime | None = self.trigger.get_next_fire_time(None, after + _MOMENT)
        return found

    def latest(self, until: datetime) -> datetime | None:
        """The last matching time not later than `until`; None if there was none for years."""
        back = timedelta(minutes=1)
        while back < timedelta(days=366 * _LONGEST_YEARS):
            found = self.next(until - back)
            if found is not None and found <= until:
                while (later := self.next(found)) is not None and later <= until:
                    found = later
                return found
            back *= 2
        return None


def _weekdays(field: str) -> str:
    """The field by names: APScheduler's own numbers begin on Monday."""
    if field == "*":
        return field
    chosen: set[int] = set()
    for part in field.split(","):
        found = _DAYS_PART.fullmatch(part)
        if found is None:
            raise ValueError(f"{part!r} is no day of the week")
        every, first, last, step = found.groups()
        begin = 0 if every else _day(first)
        end = 6 if every or (last is None and step) else _day(last or first)
        if end < begin or (last == "7" and first != "7"):
            end += 7
        chosen.update(day % 7 for day in range(begin, end + 1, int(step or 1)))
    return ",".join(_DAYS[day] for day in sorted(chosen))


def _day(text: str) -> int:
    return _DAYS.index(text) if text in _DAYS else int(text) % 7
