"""Dates in the digits of a wording: which ones somebody said or meant, and when a plan ends."""

from __future__ import annotations

import re
from calendar import monthrange
from collections import defaultdict
from collections.abc import Sequence, Set
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta

from hitherto_shared.dates.months import named_months
from hitherto_shared.text.normalise import in_ascii_digits

_DATE = re.compile(r"(?<![\d-])(\d{4})-(\d{2})(?:-(\d{2}))?(?![\d-])")
_DATE_BY_SIGNS = re.compile(
    r"(?<![\d./])(?:(\d{4})[年./](\d{1,2})(?!\d)(?:[月./](\d{1,2})(?!\d))?"
    r"|(?:(\d{1,2})[./])?(\d{1,2})[./](\d{4})(?![\d/]|[.]\d))"
)
"""A day or month as in 2026年3月15日, 15.03.2026, or 3/2026."""
_COMPUTED = timedelta(days=400)
"""How far from its message a day may lie that a message means without naming it."""
_GAP = r"[^\d./!?;。！？\n-]{1,14}"
_DATED = re.compile(
    rf"(?<!\d)(?:(\d{{1,2}})[.-]?{_GAP})?"
    rf"(?:(\d{{1,2}})[.]?(?:{_GAP}|[ -][^\W\d_]{{2,5}}[.-] ?))?"
    r"((?:19|20)\d{2})(?!\d)"
    rf"(?=(?:{_GAP}(\d{{1,2}})(?!\d)(?:{_GAP}(\d{{1,2}})(?!\d))?)?)"
)
"""A year and the numbers before and after it in its sentence, with room for a month's name."""
_OFFSETS = timedelta(minutes=15)
"""What the offset of every time zone is a multiple of."""


class SaidDates:
    """The dates that messages name or mean.

    A message means any day near the one on which it was said. It names one if the day and the year
    stand side by side, with no other number that could be a month: then words name the month, in
    any language ("March 15, 1990"), and nobody checks which. A month without a day is named if a
    language that is known names it with its year ("since March 2019").

    Args:
        days: When the messages were said. Without any, no date is meant or named: two wordings are
            compared as they stand.
    """

    def __init__(self, days: Sequence[date]) -> None:
        self._days = days
        self._texts: list[str] = []
        self._months: Set[tuple[int, int]] | None = None
        """Those that words name with their year; read if a wording has a month."""
        self._beside = defaultdict[str, set[tuple[int, ...]]](set)
        """For each year the numbers before it, and those after it."""
        self._numbered: set[str] = set()
        """Years in what is written as 3/2026, which may be no month: it is taken as it is."""

    def add(self, text: str) -> None:
        """Read a message, or another text that may give a wording its dates."""
        if not self._days:
            return
        self._texts.append(text)
        for year, _, _, first, _, last in _DATE_BY_SIGNS.findall(text):
            if not first:
                self._numbered.add(year or last)
        for first, second, year, *after in _DATED.findall(text):
            for beside in ((first, second), after):
                self._beside[year].add(tuple(int(each) for each in beside if each))

    def cut_from(self, wording: str) -> str:
        """A wording without these dates."""
        for form in (_DATE, _DATE_BY_SIGNS):
            wording = form.sub(lambda found: "" if self._has(found) else found[0], wording)
        return wording

    def _has(self, found: re.Match[str]) -> bool:
        is_month = found.re is _DATE or "年" in found[0]
        for year, month, day in _readings(*found.groups()):
            try:
                meant = date(int(year), int(month), int(day or 1))
            except ValueError:
                continue
            near = any(abs(meant - said) <= _COMPUTED for said in self._days)
            if near and (day or is_month or year not in self._numbered):
                return True
            if day and any(_has_only(int(day), beside) for beside in self._beside.get(year, ())):
                return True
            if not day and (meant.year, meant.month) in self._named_months():
                return True
        return False

    def _named_months(self) -> Set[tuple[int, int]]:
        if self._months is None:
            self._months = frozenset().union(*map(named_months, self._texts))
        return self._months


def _has_only(day: int, beside: Sequence[int]) -> bool:
    """Whether a day stands there, and nothing else that could be a month."""
    if day not in beside:
        return False
    others = list(beside)
    others.remove(day)
    return not any(0 < each <= 12 for each in others)


def _readings(
    year: str, month: str, day: str, first: str = "", second: str = "", last: str = ""
) -> list[tuple[str, str, str]]:
    """The years, months and days that the groups of a date may mean: day and month in any order."""
    if year:
        return [(year, month, day)]
    return [(last, second, first), (last, first, second)] if first else [(last, second, "")]


def put_off(end: datetime, old: str, new: str) -> datetime | None:
    """The end of the last day or month that an old wording names, moved to that of a new wording.

    There is none if the new wording names neither. Any other moment stays as it is: it has nothing
    to do with them. So does one beside a date that is written otherwise than a model should.

    Raises:
        OverflowError: There is no such moment.
    """
    # Each may name a day and a month besides: the one with which it ended is followed, unless the
    # new wording names it as it was, beside a later one of the kind that was missing.
    (old_day, old_month), (new_day, new_month) = _last(old), _last(new)
    for before, after, missing, other in (
        (old_day, new_day, old_month is None, new_month),
        (old_month, new_month, old_day is None, new_day),
    ):
        if before is None or not _is_end(end, before):
            continue
        as_it_was = after == before and missing and other is not None and other > before
        moved = other if after is None or as_it_was else after
        if moved is not None:
            return end + (moved - before)
        return end if _DATE_BY_SIGNS.search(in_ascii_digits(new)) else None
    return end


def _is_end(moment: datetime, day: date) -> bool:
    """Whether a day ends at a moment, in any time zone: the user may have travelled since."""
    late = moment - timedelta(days=1) - datetime.combine(day, time(), UTC)
    return timedelta(hours=-14) <= late <= timedelta(hours=12) and not late % _OFFSETS


def _last(text: str) -> tuple[date | None, date | None]:
    """The last day that a text names, and the last day of the last month named without one."""
    days: list[date] = []
    ends: list[date] = []
    for year, month, day in _DATE.findall(in_ascii_digits(text)):
        with suppress(ValueError):
            last = int(day) if day else monthrange(int(year), int(month))[1]
            (days if day else ends).append(date(int(year), int(month), last))
    return max(days, default=None), max(ends, default=None)
