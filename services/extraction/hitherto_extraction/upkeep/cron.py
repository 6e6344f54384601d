"""Parses cron lines and computes their times, in UTC.

There are five fields as usual: minute, hour, day of the month, month, day of the week (0 and 7 are
Sunday), with lists, ranges, steps and names. If both a day of the month and a day of the week are
given, both must match.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from apscheduler.triggers.cron import CronTrigger

OFF = "off"

_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DAY = rf"[0-7]|{'|'.join(_DAYS)}"
_DAYS_PART = re.compile(rf"(?:(\*)|({_DAY})(?:-({_DAY}))?)(?:/([1-9]\d?))?")
_MOMENT = timedelta(microseconds=1)
_LONGEST_YEARS = 9
"""The longest gap of any line that ever fires, in years: the 29th of February around 2100."""


class Cron:
    """A cron line with at least one matching time."""

    def __init__(self, line: str) -> None:
        """Parse `line`.

        Raises:
            ValueError: It is no cron line, or has no matching time.
        """
        fields = line.lower().split()
        if len(fields) != 5:
            raise ValueError(
                f"{line!r} is not a cron expression: it needs five fields (minute, hour, day of "
                f"the month, month, day of the week), such as '0 3 * * *', or {OFF!r}"
            )
        minute, hour, day, month, weekday = fields
        try:
            self._trigger = CronTrigger(
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
        if self._trigger.get_next_fire_time(None, datetime(2001, 1, 1, tzinfo=UTC)) is None:
            raise ValueError(f"{line!r} names a moment that never comes")

    @property
    def trigger(self) -> CronTrigger:
        """The same for APScheduler."""
        return self._trigger

    def next(self, after: datetime) -> datetime | None:
        """The first matching time later than `after`."""
        found: datetime | None = self._trigger.get_next_fire_time(None, after + _MOMENT)
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
        if last == "7" or (end < begin):
            end += 7
        chosen.update(day % 7 for day in range(begin, end + 1, int(step or 1)))
    return ",".join(_DAYS[day] for day in sorted(chosen))


def _day(text: str) -> int:
    return _DAYS.index(text) if text in _DAYS else int(text) % 7
