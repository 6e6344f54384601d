"""Relative dates in English and Vietnamese clauses, resolved against the day they were written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, timedelta

from hitherto_shared.vocabulary import times
from hitherto_shared.vocabulary.spans import unit_of, week_of

_COUNTED = {word: times.NUMBERS[word] for word in ("zero", *times.TO_TWELVE)}
_COUNTED |= {"a": 1, "an": 1, "couple of": 2, "a couple of": 2}
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class RelativeDate:
    """A resolved date: the first day it covers, and its written form."""

    start: date
    text: str


Resolver = Callable[[re.Match[str], date], RelativeDate]


def _moment(today: date, unit: str, shift: int, week: str = "{}") -> RelativeDate:
    """The day, week, month or year at that distance from today's."""
    span = unit_of(unit, today, shift)
    if span is None:
        raise ValueError(f"no such {unit}")
    start = span.first
    written = {"month": f"{start:%Y-%m}", "year": str(start.year), "week": week.format(start)}
    return RelativeDate(start, written.get(unit, start.isoformat()))


def _day(day: date) -> RelativeDate:
    return RelativeDate(day, day.isoformat())


def _weekday(match: re.Match[str], today: date) -> RelativeDate:
    weekday, which = times.WEEKDAYS.index(match["day"].lower()), match["which"].lower()
    if which == "last":
        return _day(today - timedelta(days=(today.weekday() - weekday) % 7 or 7))
    ahead = (weekday - today.weekday()) % 7
    return _day(today + timedelta(days=ahead or (7 if which == "next" else 0)))


def _vietnamese_weekday(match: re.Match[str], today: date) -> RelativeDate:
    weekday = times.VIETNAMESE_WEEKDAYS.index(_plain(match["day"]))
    weeks = times.VIETNAMESE_WHICH[_plain(match["which"])]
    return _day(week_of(today).first + timedelta(weeks=weeks, days=weekday))


def _vietnamese_period(match: re.Match[str], today: date) -> RelativeDate:
    unit = times.VIETNAMESE_UNITS[match["unit"].lower()]
    return _moment(today, unit, times.VIETNAMESE_WHICH[_plain(match["which"])], "tuần từ {}")


def _ago(match: re.Match[str], today: date) -> RelativeDate:
    text, unit = _plain(match["number"]), _plain(match["unit"])
    known = _COUNTED | times.VIETNAMESE_NUMBERS
    # Nobody means a date a thousand units away, and it would exceed the calendar.
    number = min(int(text) if text.isdecimal() else known[text], 999)
    unit = times.VIETNAMESE_UNITS.get(unit, unit)
    return _moment(today, "day", -7 * number) if unit == "week" else _moment(today, unit, -number)


def _plain(words: str) -> str:
    return " ".join(words.lower().split())


def _any(words: Iterable[str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


def _table(rows: list[tuple[str, Resolver]]) -> list[tuple[re.Pattern[str], Resolver]]:
    return [
        (re.compile(rf"(?<!\w){text.replace(' ', chr(92) + 's+')}(?!\w)", re.IGNORECASE), resolver)
        for text, resolver in rows
    ]


_ENGLISH = _table(
    [
        (
            rf"(?:the )?(?P<day>{_any(times.DAYS)})(?: (?:morning|afternoon|evening|night))?",
            lambda m, today: _moment(today, "day", times.DAYS[_plain(m["day"])]),
        ),
        (rf"(?:on )?(?P<which>last|this|next) (?P<day>{_any(times.WEEKDAYS)})", _weekday),
        (
            r"(?P<which>last|past|previous|this|next|coming) (?P<unit>week|month|year)",
            lambda m, today: _moment(
                today, m["unit"].lower(), times.WHICH[m["which"].lower()], "week of {}"
            ),
        ),
        (rf"(?P<number>\d{{1,3}}|{_any(_COUNTED)}) (?P<unit>day|week|month|year)s? ago", _ago),
    ]
)
_NUMBER = rf"(?P<number>\d{{1,3}}|{_any(times.VIETNAMESE_NUMBERS)})"
_WHICH = r"(?P<which>vừa rồi|trước|rồi|qua|này|sau|tới)"
_VIETNAMESE = _table(
    [
        (
            rf"(?P<day>{_any(times.VIETNAMESE_DAYS)})",
            lambda m, today: _moment(today, "day", times.VIETNAMESE_DAYS[_plain(m["day"])]),
        ),
        (rf"(?P<day>{_any(times.VIETNAMESE_WEEKDAYS)}) tuần {_WHICH}", _vietnamese_weekday),
        (rf"cách đây {_NUMBER} (?P<unit>ngày|hôm|tuần|tháng|năm)", _ago),
        (rf"{_NUMBER} (?P<unit>ngày|hôm|tuần|tháng|năm) trước", _ago),
        (rf"(?P<unit>tuần|tháng|năm) {_WHICH}", _vietnamese_period),
        (r"(?P<unit>năm) (?P<which>ngoái|nay)", _vietnamese_period),
    ]
)
_KEPT = {
    "en": re.compile(r"\b(?:by|before|until|till|since|after|from|for|of)\s+$", re.IGNORECASE),
    "vi": re.compile(r"\b(?:trước|từ|đến|tới|sau)\s+$", re.IGNORECASE),
}
_DROPPED = {
    "en": re.compile(r"\b(?:in|on|during|the|early|late|just|later)\s+$", re.IGNORECASE),
    "vi": re.compile(r"(?<!\w)(?:vào|trong|hồi|khoảng|lúc)\s+$", re.IGNORECASE),
}
_SINCE = re.compile(r"(?<!\w)(?:since|từ(?:\s+năm)?)\s+((?:19|20)\d\d)(?!\d)", re.IGNORECASE)


def resolve_dates(clause: str, language: str, today: date) -> tuple[str, list[RelativeDate]]:
    """Remove relative dates from a clause.

    A date after a meaningful preposition ("by tomorrow") is resolved in place instead.

    Returns:
        The clause without them, and the removed dates.
    """
    taken: list[RelativeDate] = []
    for expression, resolver in _VIETNAMESE if language == "vi" else _ENGLISH:
        position = 0
        while match := expression.search(clause, position):
            try:
                moment = resolver(match, today)
            except (OverflowError, ValueError):
                # Before year 1 or after 9999: the words stay unchanged.
                position = match.end()
                continue
            before, after = clause[: match.start()], clause[match.end() :]
            if _KEPT[language].search(before):
                clause = before + moment.text + after
                position = len(before) + len(moment.text)
            else:
                taken.append(moment)
                before = _DROPPED[language].sub("", before)
                clause = f"{before.rstrip()} {after.lstrip()}".strip(" ,")
                position = 0
    return re.sub(r"(?<!\s)\s+,", ",", clause), taken


def since_year(clause: str) -> date | None:
    """The first day of the year in "since 2015" or "từ năm 2015"."""
    match = _SINCE.search(clause)
    return date(int(match.group(1)), 1, 1) if match else None
