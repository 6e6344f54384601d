"""Relative dates in English and Vietnamese, resolved against the time a message was written."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta

_EN_NUMBERS = {
    word: number
    for number, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve".split()
    )
} | {"a": 1, "an": 1, "couple of": 2, "a couple of": 2}
_VI_NUMBERS = {
    "một": 1,
    "hai": 2,
    "ba": 3,
    "bốn": 4,
    "năm": 5,
    "sáu": 6,
    "bảy": 7,
    "tám": 8,
    "chín": 9,
    "mười": 10,
}
_MEANT_IN = 20_000
"""Characters of a text in which `meant_dates` looks."""
_EN_DAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_VI_DAYS = ["thứ hai", "thứ ba", "thứ tư", "thứ năm", "thứ sáu", "thứ bảy", "chủ nhật"]


@dataclass(frozen=True, slots=True)
class RelativeDate:
    """A resolved date: the first day it covers, and how it is written."""

    start: date
    text: str


def _day(start: date) -> RelativeDate:
    return RelativeDate(start, start.isoformat())


def _month(today: date, offset: int) -> RelativeDate:
    index = today.year * 12 + today.month - 1 + offset
    start = date(index // 12, index % 12 + 1, 1)
    return RelativeDate(start, f"{start:%Y-%m}")


def _year(today: date, offset: int) -> RelativeDate:
    start = date(today.year + offset, 1, 1)
    return RelativeDate(start, str(start.year))


def _week(today: date, offset: int, form: str) -> RelativeDate:
    start = today - timedelta(days=today.weekday()) + timedelta(weeks=offset)
    return RelativeDate(start, form.format(start.isoformat()))


def _span(today: date, unit: str, offset: int) -> RelativeDate:
    if unit == "day":
        return _day(today + timedelta(days=offset))
    if unit == "week":
        return _day(today + timedelta(weeks=offset))
    return _month(today, offset) if unit == "month" else _year(today, offset)


def _weekday(today: date, weekday: int, which: str) -> RelativeDate:
    ahead = (weekday - today.weekday()) % 7
    if which == "last":
        return _day(today - timedelta(days=(today.weekday() - weekday) % 7 or 7))
    return _day(today + timedelta(days=ahead or (7 if which == "next" else 0)))


Resolver = Callable[[re.Match[str], date], RelativeDate]
_EN_WEEK = "week of {}"
_VI_WEEK = "tuần từ {}"
_EN_WHICH = {"last": -1, "past": -1, "previous": -1, "this": 0, "next": 1, "coming": 1}
_VI_WHICH = {"trước": -1, "rồi": -1, "qua": -1, "vừa rồi": -1, "này": 0, "sau": 1, "tới": 1}
_VI_UNITS = {"ngày": "day", "hôm": "day", "tuần": "week", "tháng": "month", "năm": "year"}


def _en_period(match: re.Match[str], today: date) -> RelativeDate:
    offset, unit = _EN_WHICH[match["which"].lower()], match["unit"].lower()
    return _week(today, offset, _EN_WEEK) if unit == "week" else _span(today, unit, offset)


def _vi_period(match: re.Match[str], today: date) -> RelativeDate:
    offset, unit = _VI_WHICH[match["which"].lower()], _VI_UNITS[match["unit"].lower()]
    return _week(today, offset, _VI_WEEK) if unit == "week" else _span(today, unit, offset)


def _ago(match: re.Match[str], today: date, numbers: dict[str, int], unit: str) -> RelativeDate:
    text = match["number"].lower()
    # A thousand of anything is no date a person means, and would leave the calendar.
    number = min(int(text) if text.isdecimal() else numbers[text], 999)
    return _span(today, unit, -number)


def _vi_weekday(match: re.Match[str], today: date) -> RelativeDate:
    week = today - timedelta(days=today.weekday())
    offset = _VI_WHICH[match["which"].lower()]
    day = _VI_DAYS.index(" ".join(match["day"].lower().split()))
    return _day(week + timedelta(weeks=offset, days=day))


def _fixed(days: int) -> Resolver:
    return lambda _, today: _day(today + timedelta(days=days))


def _table(rows: list[tuple[str, Resolver]]) -> list[tuple[re.Pattern[str], Resolver]]:
    return [
        (re.compile(rf"(?<!\w){text.replace(' ', chr(92) + 's+')}(?!\w)", re.IGNORECASE), resolver)
        for text, resolver in rows
    ]


_EN = _table(
    [
        (r"(?:the )?day before yesterday", _fixed(-2)),
        (r"(?:the )?day after tomorrow", _fixed(2)),
        (r"yesterday(?: (?:morning|afternoon|evening|night))?|last night", _fixed(-1)),
        (r"tomorrow(?: (?:morning|afternoon|evening|night))?", _fixed(1)),
        (r"today|tonight|this (?:morning|afternoon|evening)", _fixed(0)),
        (
            rf"(?:on )?(?P<which>last|this|next) (?P<day>{'|'.join(_EN_DAYS)})",
            lambda m, today: _weekday(today, _EN_DAYS.index(m["day"].lower()), m["which"].lower()),
        ),
        (
            r"(?P<which>last|past|previous|this|next|coming) (?P<unit>week|month|year)",
            _en_period,
        ),
        (
            rf"(?P<number>\d{{1,3}}|{'|'.join(sorted(_EN_NUMBERS, key=len, reverse=True))})"
            r" (?P<unit>day|week|month|year)s? ago",
            lambda m, today: _ago(m, today, _EN_NUMBERS, m["unit"].lower()),
        ),
    ]
)
_VI = _table(
    [
        (r"hôm kia", _fixed(-2)),
        (r"(?:ngày kia|ngày mốt)", _fixed(2)),
        (r"(?:hôm|tối|đêm|chiều|sáng) qua", _fixed(-1)),
        (r"(?:ngày|sáng|trưa|chiều|tối) mai", _fixed(1)),
        (r"(?:hôm|sáng|trưa|chiều|tối) nay", _fixed(0)),
        (
            rf"(?P<day>{'|'.join(_VI_DAYS)}) tuần (?P<which>vừa rồi|trước|này|sau|tới)",
            _vi_weekday,
        ),
        (
            r"(?:cách đây )(?P<number>\d{1,3}|" + "|".join(_VI_NUMBERS) + r")"
            r" (?P<unit>ngày|hôm|tuần|tháng|năm)",
            lambda m, today: _ago(m, today, _VI_NUMBERS, _VI_UNITS[m["unit"].lower()]),
        ),
        (
            r"(?P<number>\d{1,3}|" + "|".join(_VI_NUMBERS) + r")"
            r" (?P<unit>ngày|hôm|tuần|tháng|năm) trước",
            lambda m, today: _ago(m, today, _VI_NUMBERS, _VI_UNITS[m["unit"].lower()]),
        ),
        (r"(?P<unit>tuần|tháng|năm) (?P<which>vừa rồi|trước|rồi|qua|này|sau|tới)", _vi_period),
        (r"năm ngoái", lambda _, today: _year(today, -1)),
        (r"năm nay", lambda _, today: _year(today, 0)),
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
    """Take relative dates off a clause.

    A date after a preposition that carries meaning ("by tomorrow") is resolved in place instead.

    Returns:
        The clause without them, and the dates that were taken off.
    """
    taken: list[RelativeDate] = []
    for expression, resolver in _VI if language == "vi" else _EN:
        position = 0
        while match := expression.search(clause, position):
            try:
                moment = resolver(match, today)
            except (OverflowError, ValueError):
                # Before year 1 or after 9999: the words stay as they are.
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


def meant_dates(text: str, today: date) -> list[str]:
    """The dates that the relative ones of a text mean, as `resolve_dates` writes them.

    In either language, and of the beginning of a long text only.
    """
    found: dict[str, None] = {}
    for expression, resolver in (*_EN, *_VI):
        for match in expression.finditer(text[:_MEANT_IN]):
            with suppress(OverflowError, ValueError):
                found.setdefault(resolver(match, today).text)
    return list(found)


def since_year(clause: str) -> date | None:
    """The first day of the year in "since 2015" or "từ năm 2015"."""
    match = _SINCE.search(clause)
    return date(int(match.group(1)), 1, 1) if match else None
