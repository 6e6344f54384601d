"""What the groups of a match mean: a reader for each `reads` of a table."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hitherto_shared.dates.phrases import Kind, Phrase, PhraseContext
from hitherto_shared.dates.spans import (
    InYear,
    Span,
    Which,
    back,
    choose_weekday,
    choose_year,
    day_span,
    days_in_year,
    months_in_year,
    months_span,
    shift_months,
    unit_of,
    which_of,
    year_span,
)
from hitherto_shared.dates.words import LanguageWords


@dataclass(frozen=True, slots=True)
class Found:
    """A match of a rule, and its groups in the form in which the tables hold their words."""

    match: re.Match[str]
    parts: Mapping[str, str]
    words: LanguageWords
    reading: PhraseContext

    def number(self, name: str) -> int:
        """A group as a number, in digits or as a word of its table; 0 if it matched nothing."""
        word = self.parts.get(name, "0")
        table = {"month": "months", "season": "seasons", "quarter": "ordinals"}.get(name, "")
        return int(word) if word.isdigit() else self.words.values[table][word]

    @property
    def shift(self) -> int | None:
        """How many units from the present one, if it says so."""
        which = self.parts.get("which")
        return None if which is None else self.words.values["shifts"][which]

    @property
    def continues(self) -> bool:
        """Whether a year belongs to the phrase before it, whose year is open."""
        previous = self.reading.phrases[-1] if self.reading.phrases else None
        gap, start = self.words.near["year_gap"], self.match.start()
        return bool(
            previous
            and previous.in_year is not None
            and gap.fullmatch(self.reading.lower, previous.end, start)
        )

    def phrase(self, kind: Kind, span: Span | None, *, relative: bool = False) -> Phrase | None:
        """The phrase of the match, or None if the calendar has no such date."""
        start, end = self.match.span()
        return span and Phrase(start, end, kind, span, relative=relative)

    def yearly(self, kind: Kind, in_year: InYear) -> Phrase | None:
        """A phrase that recurs each year; its year stays open unless `which` determines it."""
        which = None if self.shift is None else which_of(self.shift)
        span = choose_year(in_year, self.reading.today, which or Which.LATEST)
        start, end = self.match.span()
        return span and Phrase(start, end, kind, span, None if which else in_year)


def kind_of(unit: str) -> Kind:
    """The kind that a whole unit has for merging."""
    kinds = {"day": Kind.DAY, "week": Kind.WEEK, "month": Kind.MONTH, "year": Kind.YEAR}
    return kinds.get(unit, Kind.OTHER)


def _numeric(it: Found) -> Phrase | None:
    """07/05/2023, 7.5.2023, 7-5-2023 and 07/05/23: day first unless that is impossible."""
    short, year = len(it.parts["year"]) == 2, it.number("year")
    if it.parts["by"] != it.parts["again"] or (short and it.parts["by"] != "/"):
        return None
    whole = year + (1900 if year >= 70 else 2000) if short else year
    day, month = it.number("day"), it.number("month")
    return it.phrase(Kind.DAY, day_span(whole, month, day) or day_span(whole, day, month))


def _short(it: Found) -> Phrase | None:
    """5/7 after a word that makes it a date rather than a fraction."""
    day, month = it.number("day"), it.number("month")
    in_year = days_in_year(month, day)
    return it.yearly(Kind.DAY, in_year if in_year(2000) else days_in_year(day, month))


def _days(it: Found) -> Phrase | None:
    first, last = it.number("day"), it.number("last")
    return it.yearly(Kind.DAY, days_in_year(it.number("month"), first, last or first))


def _weekday(it: Found) -> Phrase | None:
    weekday = it.words.values["weekdays"][it.parts["weekday"]]
    which = Which.LATEST if it.shift is None else which_of(it.shift)
    span = choose_weekday(weekday, it.reading.today, which)
    kind = Kind.WEEKDAY if it.shift is None else Kind.DAY
    return it.phrase(kind, span, relative=it.shift is not None)


def _day_number(it: Found) -> Phrase | None:
    """The latest day with this day-of-month number that has begun."""
    for months in range(12):
        month = shift_months(it.reading.today.replace(day=1), -months)
        span = day_span(month.year, month.month, it.number("day"))
        if span and span.first <= it.reading.today:
            return it.phrase(Kind.DAY_NUMBER, span)
    return None


def _named(it: Found) -> Phrase | None:
    shift = it.words.values["days"][it.parts["named"]]
    return it.phrase(Kind.DAY, unit_of("day", it.reading.today, shift), relative=True)


def _unit(it: Found) -> Phrase | None:
    unit = it.words.unit(it.parts["unit"])
    if it.parts.get("which") == "past" and unit != "weekend":
        return _since(it, unit, 1)
    span = unit_of(unit, it.reading.today, it.shift or 0)
    return it.phrase(kind_of(unit), span, relative=it.shift is not None)


def _rolling(it: Found) -> Phrase | None:
    return _since(it, it.words.unit(it.parts["unit"]), it.words.amount(it.parts["number"])[1])


def _since(it: Found, unit: str, count: int) -> Phrase:
    """The last `count` units until now, from the start of the first day."""
    span = Span(back(unit, it.reading.now, count), it.reading.today)
    return Phrase(*it.match.span(), Kind.OTHER, span, to_now=True)


def _ago(it: Found) -> Phrase | None:
    """The whole unit that many units back, or for "a few" all of those units."""
    unit, (low, high) = it.words.unit(it.parts["unit"]), it.words.amount(it.parts["number"])
    now = it.reading.now
    if unit in {"minute", "hour", "day"}:
        return it.phrase(Kind.DAY, Span(back(unit, now, high), back(unit, now, low)), relative=True)
    first, last = (unit_of(unit, it.reading.today, -count) for count in (high, low))
    span = first and last and Span(first.first, last.last)
    return it.phrase(kind_of(unit), span, relative=True)


READERS: Mapping[str, Callable[[Found], Phrase | None]] = {
    # 2023-05-07 and 2023/5/7.
    "iso": lambda it: it.phrase(
        Kind.DAY, day_span(it.number("year"), it.number("month"), it.number("day"))
    ),
    "numeric": _numeric,
    "short": _short,
    "days": _days,
    "month": lambda it: it.yearly(Kind.MONTH, months_in_year(it.number("month"))),
    "year_month": lambda it: it.phrase(
        Kind.MONTH, months_span(it.number("year"), it.number("month"))
    ),
    "year": lambda it: it.phrase(Kind.YEAR, year_span(it.number("year"))),
    # Winter belongs to the year of its December.
    "season": lambda it: it.yearly(Kind.OTHER, months_in_year(it.number("season"), 3)),
    "quarter": lambda it: it.yearly(Kind.OTHER, months_in_year(3 * it.number("quarter") - 2, 3)),
    "weekday": _weekday,
    "day_number": _day_number,
    "named": _named,
    "unit": _unit,
    "rolling": _rolling,
    "ago": _ago,
}
