"""A window of time and the closeness of a moment to it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo

DISTANT_PAST = datetime.min.replace(tzinfo=UTC)
"""The start of a window that is open to the past ("before 2022"): no memory is older."""
DISTANT_FUTURE = datetime.max.replace(tzinfo=UTC)
"""The end of a window whose end exceeds the range of datetime."""

_DAYS_AFTER = 7.0
_DAYS_BEFORE = 3.0
_SECONDS_PER_DAY = 86_400.0


@dataclass(frozen=True)
class Window:
    """The half-open period `start <= t < end`, both timezone-aware in UTC.

    `text` is the part of the question that was read. A window open to the past starts at
    `DISTANT_PAST`; one that extends to the present ends at the `now` with which it was read.
    """

    start: datetime
    end: datetime
    text: str


def closeness(window: Window, moment: datetime) -> float:
    """How close `moment` (timezone-aware) is to the window, between 0 and 1.

    It is 1 inside. After the window it falls by e every 7 days, because people mention things
    later; before the window by e every 3 days, because they rarely mention them much earlier.
    """
    if moment >= window.end:
        return math.exp(-(moment - window.end).total_seconds() / _SECONDS_PER_DAY / _DAYS_AFTER)
    if moment < window.start:
        return math.exp(-(window.start - moment).total_seconds() / _SECONDS_PER_DAY / _DAYS_BEFORE)
    return 1.0


def first_instant(day: date, zone: tzinfo) -> datetime:
    """When `day` begins in `zone`, in UTC; the nearest representable instant at either end."""
    try:
        return datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)
    except (OverflowError, ValueError):
        return DISTANT_PAST if day.year == 1 else DISTANT_FUTURE


def end_instant(day: date, zone: tzinfo) -> datetime:
    """When `day` ends in `zone`, in UTC: the first instant of the next day."""
    if day == date.max:
        return DISTANT_FUTURE
    return first_instant(day + timedelta(days=1), zone)
