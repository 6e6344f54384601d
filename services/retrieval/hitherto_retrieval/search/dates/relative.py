"""Relative times, the same in every language: "two weeks ago", "the last 3 days"."""

from __future__ import annotations

import re

from hitherto_retrieval.search.dates.phrases import Kind, Phrase, PhraseContext, phrase_of
from hitherto_shared.vocabulary.spans import Span, back, day_span, shift_months, unit_of


def kind_of(unit: str) -> Kind:
    """The kind that a whole unit has for merging."""
    return {"week": Kind.WEEK, "month": Kind.MONTH, "year": Kind.YEAR}.get(unit, Kind.OTHER)


def rolling(match: re.Match[str], unit: str, count: int, reading: PhraseContext) -> Phrase | None:
    """The last `count` units until now, from the start of the first day."""
    span = Span(back(unit, reading.now, count), reading.today)
    return Phrase(match.start(), match.end(), Kind.OTHER, span, to_now=True)


def ago(
    match: re.Match[str], unit: str, low: int, high: int, reading: PhraseContext
) -> Phrase | None:
    """The whole unit that many units back, or for "a few" all of those units."""
    if unit in {"minute", "hour", "day"}:
        return phrase_of(
            match,
            Kind.DAY,
            Span(back(unit, reading.now, high), back(unit, reading.now, low)),
        )
    first = unit_of(unit, reading.today, -high)
    last = unit_of(unit, reading.today, -low)
    return first and last and phrase_of(match, kind_of(unit), Span(first.first, last.last))


def latest_day(match: re.Match[str], day: int, reading: PhraseContext) -> Phrase | None:
    """The latest day with this day-of-month number that has begun."""
    for months in range(12):
        month = shift_months(reading.today.replace(day=1), -months)
        span = day_span(month.year, month.month, day)
        if span and span.first <= reading.today:
            return Phrase(match.start(), match.end(), Kind.DAY_NUMBER, span)
    return None
