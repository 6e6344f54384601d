"""Common times in languages other than English and Vietnamese: "昨天", "la semana pasada", "3日前".

There are words for near days and periods, for counted units ("3 days ago") and, except in Thai, for
dates; of some languages there are only the months. Words that mean something else at least as often
are left out, such as German "morgen" (tomorrow, morning).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from importlib.resources import files
from typing import NamedTuple

from hitherto_shared.dates.spans import (
    InYear,
    Span,
    Which,
    choose_weekday,
    choose_year,
    day_span,
    days_in_year,
    months_in_year,
    months_span,
    shift_days,
    unit_of,
    year_span,
)

_TABLES: dict[str, str] = tomllib.loads(
    files(__package__).joinpath("world.toml").read_text(encoding="utf-8")
)
_PERIODS = {
    word: (unit, int(shift))
    for unit, shift, *words in map(str.split, _TABLES["periods"].strip().splitlines())
    for word in words
}


def _by_word(table: str) -> dict[str, str]:
    """The first word of each line, by the others."""
    lines = map(str.split, table.strip().splitlines())
    return {word: first for first, *words in lines for word in words}


_UNITS = _by_word(_TABLES["units"])
_NUMBERS_BY_WORD = _by_word(_TABLES["numbers"])
_NUMBERS = {word: int(number) for word, number in _NUMBERS_BY_WORD.items()}
_MONTHS = {word: int(month) for word, month in _by_word(_TABLES["months"]).items()}
_WEEKDAYS = {word: int(day) for word, day in _by_word(_TABLES["weekdays"]).items()}
_ALONE = frozenset("неделю месяц год يوم أسبوع شهر سنة عام".split())
"""Units that mean one of them without a number ("неделю назад")."""
_DUALS = {"يومين": "day", "أسبوعين": "week", "شهرين": "month", "سنتين": "year", "عامين": "year"}
_AGO_BEFORE = frozenset({("hace",), ("há",), ("vor",), ("il", "y", "a"), ("قبل",), ("منذ",)})
_AGO_AFTER = frozenset({("fa",), ("atrás",), ("назад",), ("lalu",), ("yang", "lalu")})
_LAST_BEFORE = frozenset({"letzten", "vergangenen", "прошлый", "прошлую"})
_LAST_AFTER = frozenset({"pasado", "passado", "passada", "dernier", "scorso", "scorsa"})
_IN = frozenset({"en", "em", "im", "в", "seit", "desde", "depuis"})
_OF = frozenset({"de", "del", "er"})
# "Hier" is "here" in German, "Mars" a planet in English: times only beside French words.
_ONLY_FRENCH = frozenset({"hier", "mars"})
_FRENCH = frozenset(
    "j je nous vous ai as avons avez est était ce c que qu quoi le la les mon ma au avec pour dit "
    "fait soir matin en depuis".split()
)
_MAX_WORDS = 5
_PHRASES = {tuple(word.split("_")): period for word, period in _PERIODS.items()}
# In Arabic, "and", "by" and the article are written together with the word after them.
_PHRASES |= {
    (before + words[0], *words[1:]): period
    for words, period in list(_PHRASES.items())
    if "\u0600" <= words[0][0] <= "\u06ff"
    for before in ("و", "ب", "ف", "ل", "بال", "وال")
}
_JOINED = {word.replace("_", ""): period for word, period in _PERIODS.items()}
_STARTS = frozenset(words[0] for words in _PHRASES)
_UNSPACED = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Scripts in which a word may go on without a space: Thai, Japanese, Chinese, Korean."""


def _any(words: Iterable[str]) -> str:
    """A pattern of those words that are in a script without spaces."""
    unspaced = (word for word in words if _UNSPACED.match(word))
    return "|".join(sorted(unspaced, key=len, reverse=True)).replace("_", r"\s?")


# "上周一" is a Monday, "上周一起" is "together last week".
_WEEKDAY = (
    r"(?:(?:的|の)?(?P<weekday>[一二三四五六日天](?![起直些个個次样樣共下家位年月日])|[月火水木金土日]曜"
    r"|\s?[월화수목금토일](?=요일)))?"
)
_FROM_MONDAY = {
    day: number
    for days in ("一二三四五六日", "月火水木金土天", "월화수목금토일")
    for number, day in enumerate(days)
}
_UNSPACED_TIME = re.compile(
    rf"(?<![\d月월一二三四五六七八九十百])(?P<number>\d{{1,3}}|{_any(_NUMBERS)})\s?"
    rf"(?P<unit>{_any(_UNITS)})\s?(?:之前|以前|前|전|ก่อน|ที่แล้ว)"
    r"|(?<!\d)(?P<year>(?:19|20)\d\d)\s?[年년](?:\s?(?P<month>\d{1,2})\s?[月월]"
    r"(?:\s?(?P<day>\d{1,2})\s?[日号號일])?)?"
    r"|(?<!\d)(?P<yearly>\d{1,2})[月월](?:\s?(?P<yearly_day>\d{1,2})\s?[日号號일])?"
    r"|(?<![\uac00-\ud7af])"
    rf"(?P<period>{_any(_PERIODS)})"
    rf"{_WEEKDAY}"
)


class NamedTime(NamedTuple):
    """A time in a text: where it stands, and the days it means.

    `unit` is `day`, `week`, `weekend`, `month` or `year`; `shift` counts these from the present one
    and is None for a date.
    """

    start: int
    end: int
    unit: str
    shift: int | None
    span: Span


def named_times(lower: str, words: Sequence[tuple[int, str]], today: date) -> Iterator[NamedTime]:
    """The times in a text, in no order."""
    for index, (_, word) in enumerate(words):
        if found := _at(words, index, word, today):
            yield found
    if not lower.isascii() and _UNSPACED.search(lower):
        for match in _UNSPACED_TIME.finditer(lower):
            if found := _unspaced(match, today):
                yield found


def _at(words: Sequence[tuple[int, str]], index: int, word: str, today: date) -> NamedTime | None:
    """The time that begins with a word; a date begins with its month."""
    if word in _ONLY_FRENCH and not any(each in _FRENCH for _, each in words):
        return None
    if word in _STARTS:
        ahead = tuple(each for _, each in words[index : index + _MAX_WORDS])
        for length in range(len(ahead), 0, -1):
            period = _PHRASES.get(ahead[:length])
            if period:
                return _shifted(words, index, index + length, *period, today)
    if word in _MONTHS:
        return _date(words, index, today)
    if word in _WEEKDAYS:
        return _last_weekday(words, index, today)
    if word in _UNITS or word in _DUALS:
        return _ago(words, index, today)
    return None


def _shifted(
    words: Sequence[tuple[int, str]], first: int, end: int, unit: str, shift: int, today: date
) -> NamedTime | None:
    span = unit_of(unit, today, shift)
    return span and NamedTime(words[first][0], _end(words, end - 1), unit, shift, span)


def _ago(words: Sequence[tuple[int, str]], index: int, today: date) -> NamedTime | None:
    """A counted unit with what makes it past before or after it; the unit stands at `index`."""
    word = words[index][1]
    first, number = index, 2 if word in _DUALS else 1
    before = words[index - 1][1] if index else ""
    if before in _NUMBERS or (before.isdecimal() and len(before) <= 3):
        first, number = index - 1, _NUMBERS.get(before) or int(before)
    elif word not in _ALONE and word not in _DUALS:
        return None
    unit = _DUALS.get(word) or _UNITS[word]
    for length in (1, 2, 3):
        ahead = tuple(each for _, each in words[first - length : first])
        if first >= length and ahead in _AGO_BEFORE:
            return _shifted(words, first - length, index + 1, unit, -number, today)
        behind = tuple(each for _, each in words[index + 1 : index + 1 + length])
        if behind in _AGO_AFTER:
            return _shifted(words, first, index + 1 + length, unit, -number, today)
    return None


def _last_weekday(words: Sequence[tuple[int, str]], index: int, today: date) -> NamedTime | None:
    first, end = index, index + 1
    if index and words[index - 1][1] in _LAST_BEFORE:
        first -= 1
    elif end < len(words) and words[end][1] in _LAST_AFTER:
        end += 1
    else:
        return None
    span = choose_weekday(_WEEKDAYS[words[index][1]], today, Which.LAST)
    return NamedTime(words[first][0], _end(words, end - 1), "day", None, span)


def _date(words: Sequence[tuple[int, str]], index: int, today: date) -> NamedTime | None:
    """A month with a day before it, a year behind it, or a word such as "in" before it."""
    month = _MONTHS[words[index][1]]
    first, last, day, year = index, index, 0, 0
    at = index - 2 if index > 1 and words[index - 1][1] in _OF else index - 1
    before = words[at][1] if at >= 0 else ""
    if before.isdecimal() and len(before) <= 2:
        first, day = at, int(before)
    at = index + 2 if index + 1 < len(words) and words[index + 1][1] in _OF else index + 1
    after = words[at][1] if at < len(words) else ""
    if after.isdecimal() and len(after) == 4:
        last, year = at, int(after)
    if not day and not year and not (index and words[index - 1][1] in _IN):
        return None
    return _dated(words[first][0], _end(words, last), year, month, day, today)


def _dated(start: int, end: int, year: int, month: int, day: int, today: date) -> NamedTime | None:
    """A date; without a year the latest that has begun, without a month a whole year."""
    span: Span | None
    if not month:
        span = year_span(year)
    elif year:
        span = day_span(year, month, day) if day else months_span(year, month)
    elif month > 12:
        span = None
    else:
        in_year: InYear = days_in_year(month, day) if day else months_in_year(month)
        span = choose_year(in_year, today)
    unit = "day" if day else "month" if month else "year"
    return span and NamedTime(start, end, unit, None, span)


def _unspaced(match: re.Match[str], today: date) -> NamedTime | None:
    parts = match.groupdict(default="")
    start, end = match.span()
    if parts["number"]:
        unit = _UNITS[parts["unit"]]
        shift = -(_NUMBERS.get(parts["number"]) or int(parts["number"]))
        span = unit_of(unit, today, shift)
        return span and NamedTime(start, end, unit, shift, span)
    if not parts["period"]:
        year, month, day = (
            int(parts[name] or 0)
            for name in ("year", *(("month", "day") if parts["year"] else ("yearly", "yearly_day")))
        )
        return _dated(start, end, year, month, day, today)
    unit, shift = _JOINED["".join(parts["period"].split())]
    span = unit_of(unit, today, shift)
    if span and parts["weekday"] and unit == "week":
        only = shift_days(span.first, _FROM_MONDAY[parts["weekday"].strip()[0]])
        return NamedTime(start, end, "day", None, Span(only, only))
    return span and NamedTime(start, end, unit, shift, span)


def _end(words: Sequence[tuple[int, str]], index: int) -> int:
    start, word = words[index]
    return start + len(word)
