"""Calendar arithmetic on whole days that saturates at the years 1 and 9999 instead of raising."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable
from datetime import date, datetime, timedelta
from enum import Enum
from typing import NamedTuple

_LAST_ORDINAL = date.max.toordinal()
_LEAP_YEARS_APART = 8


class Span(NamedTuple):
    """The days from `first` to `last`, both included."""

    first: date
    last: date


InYear = Callable[[int], Span | None]
"""A time of the year ("May", "5 July", "winter") in a given year; None if it does not exist."""


class Which(Enum):
    """Which occurrence of a recurring time is meant."""

    LATEST = "the latest that has begun"
    LAST = "the latest that is over"
    THIS = "the current one, or that of the current year or week"
    NEXT = "the first that has not begun"


def which_of(shift: int) -> Which:
    """The occurrence at that many weeks, months or years from the present one."""
    return Which.LAST if shift < 0 else Which.NEXT if shift > 0 else Which.THIS


def shift_days(day: date, days: int) -> date:
    """`day` moved by a number of days, at most to the first or last day that a date can hold."""
    return date.fromordinal(min(max(day.toordinal() + days, 1), _LAST_ORDINAL))


def shift_months(day: date, months: int) -> date:
    """`day` moved by months; the 31st becomes the last day of a shorter month. Saturates."""
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    if year < 1:
        return date.min
    if year > 9999:
        return date.max
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def shift_hours(moment: datetime, hours: float) -> date:
    """The day of `moment` moved by hours. Saturates."""
    try:
        return (moment + timedelta(hours=hours)).date()
    except OverflowError:
        return date.min if hours < 0 else date.max


def day_span(year: int, month: int, day: int) -> Span | None:
    """One day, or None if the calendar has no such day."""
    try:
        only = date(year, month, day)
    except ValueError:
        return None
    return Span(only, only)


def months_span(year: int, month: int, count: int = 1) -> Span | None:
    """`count` whole months from `month` (1 to 12) on; None outside the years 1 to 9999."""
    if not 1 <= year <= 9999 or not 1 <= month <= 12:
        return None
    first = date(year, month, 1)
    end = shift_months(first, count)
    return Span(first, end if end == date.max else shift_days(end, -1))


def year_span(year: int) -> Span | None:
    """A whole year; None outside the years 1 to 9999."""
    return months_span(year, 1, 12)


def week_of(day: date) -> Span:
    """The week, Monday to Sunday, that `day` is in."""
    monday = shift_days(day, -day.weekday())
    return Span(monday, shift_days(day, 6 - day.weekday()))


def weekend_of(day: date) -> Span:
    """Saturday and Sunday of `day`'s week."""
    return Span(shift_days(day, 5 - day.weekday()), shift_days(day, 6 - day.weekday()))


def unit_of(unit: str, day: date, shift: int) -> Span | None:
    """The whole day, week, weekend, month, quarter or year `shift` units from `day`'s."""
    if unit == "week":
        return week_of(shift_days(day, 7 * shift))
    if unit == "weekend":
        return weekend_of(shift_days(day, 7 * shift))
    if unit == "month":
        moved = shift_months(day, shift)
        return months_span(moved.year, moved.month)
    if unit == "quarter":
        moved = shift_months(day, 3 * shift)
        return months_span(moved.year, moved.month - (moved.month - 1) % 3, 3)
    if unit == "year":
        return year_span(day.year + shift)
    moved = shift_days(day, shift)
    return Span(moved, moved)


def back(unit: str, now: datetime, count: int) -> date:
    """The day `count` units before `now` (local time), to the day rather than the whole unit."""
    if unit == "minute":
        return shift_hours(now, -count / 60)
    if unit == "hour":
        return shift_hours(now, -count)
    if unit in {"week", "weekend"}:
        return shift_days(now.date(), -7 * count)
    months = {"month": 1, "quarter": 3, "year": 12}.get(unit)
    if months:
        return shift_months(now.date(), -months * count)
    return shift_days(now.date(), -count)


def choose_year(in_year: InYear, today: date, which: Which = Which.LATEST) -> Span | None:
    """The occurrence of a yearly time meant on `today`, skipping years without 29 February."""
    if which is Which.NEXT:
        years = range(today.year, min(today.year + _LEAP_YEARS_APART, 9999) + 1)
        spans = (in_year(year) for year in years)
        return next((span for span in spans if span and span.first > today), None)
    years = range(today.year, max(today.year - _LEAP_YEARS_APART - 1, 0), -1)
    begun = [span for span in map(in_year, years) if span and span.first <= today]
    if which is Which.LAST:
        return next((span for span in begun if span.last < today), None)
    if which is Which.THIS and not (begun and begun[0].last >= today):
        return in_year(today.year)
    return begun[0] if begun else None


def choose_weekday(weekday: int, today: date, which: Which = Which.LATEST) -> Span:
    """The Monday (0) to Sunday (6) that is meant on `today`."""
    if which is Which.THIS:
        day = shift_days(today, weekday - today.weekday())
    elif which is Which.NEXT:
        day = shift_days(today, weekday - today.weekday() + 7)
    else:
        past = (today.weekday() - weekday) % 7
        day = shift_days(today, -7 if which is Which.LAST and past == 0 else -past)
    return Span(day, day)


def third(span: Span, number: int) -> Span:
    """The first (0), middle (1) or last (2) third of a span; a few days are not divided."""
    days = (span.last - span.first).days + 1
    if days < 6:
        return span
    return Span(
        shift_days(span.first, days * number // 3),
        shift_days(span.first, days * (number + 1) // 3 - 1),
    )


def nth(span: Span, unit: str, number: int) -> Span:
    """The day, week (7 days from the first) or weekend with this number in a span; -1 is the last.

    A span without one is returned whole.
    """
    length = {"day": 1, "weekend": 2}.get(unit, 7)
    if number < 0:
        until_saturday = (span.last.weekday() - 5) % 7 if unit == "weekend" else length - 1
        first = shift_days(span.last, -until_saturday)
    else:
        offset = (5 - span.first.weekday()) % 7 if unit == "weekend" else 0
        first = shift_days(span.first, offset + 7 * (number - 1) if length > 1 else number - 1)
    if not span.first <= first <= span.last:
        return span
    return Span(first, min(span.last, shift_days(first, length - 1)))


def months_in_year(first: int, count: int = 1) -> InYear:
    """So many months of the year."""
    return lambda year: months_span(year, first, count)


def days_in_year(month: int, first: int, last: int | None = None) -> InYear:
    """A day of the year, or the days from one to another of the same month."""

    def in_year(year: int) -> Span | None:
        begin = day_span(year, month, first)
        end = day_span(year, month, first if last is None else last)
        return Span(begin.first, end.last) if begin and end and begin <= end else None

    return in_year
