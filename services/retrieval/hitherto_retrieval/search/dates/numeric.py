"""Dates in digits, the same in every language: 2023-05-07, 07/05/2023, 5/7."""

from __future__ import annotations

import re

from hitherto_retrieval.search.dates.phrases import (
    Kind,
    Parts,
    Phrase,
    PhraseContext,
    PhraseRule,
    Reader,
    joined,
    phrase_of,
    preceded,
    yearly,
)
from hitherto_shared.vocabulary.spans import day_span, days_in_year

# A digit that begins a date, and not the end of a version, a path, a price or a longer number.
NUMBER_START = r"(?<![\w./:$€£#@+\-])"


def read_iso(match: re.Match[str], parts: Parts, _reading: PhraseContext) -> Phrase | None:
    """2023-05-07 and 2023/5/7."""
    year, month, day = (int(part or 0) for part in parts)
    return phrase_of(match, Kind.DAY, day_span(year, month, day))


def read_numeric(match: re.Match[str], parts: Parts, _reading: PhraseContext) -> Phrase | None:
    """07/05/2023, 7.5.2023, 7-5-2023 and 07/05/23: day first unless that is impossible."""
    first, separator, second, same, year = (part or "" for part in parts)
    if separator != same or (len(year) == 2 and separator != "/"):
        return None
    whole = int(year) if len(year) == 4 else 2000 + int(year) - (100 if int(year) >= 70 else 0)
    day, month = int(first), int(second)
    span = day_span(whole, month, day) or day_span(whole, day, month)
    return phrase_of(match, Kind.DAY, span)


def read_short(preceded_by: re.Pattern[str]) -> Reader:
    """5/7 after a word that makes it a date rather than a fraction."""

    def read(match: re.Match[str], parts: Parts, reading: PhraseContext) -> Phrase | None:
        if not preceded(preceded_by, reading, match.start()) and not joined(reading, match.start()):
            return None
        day, month = (int(part or 0) for part in parts)
        in_year = days_in_year(month, day)
        if in_year(2000) is None:
            in_year = days_in_year(day, month)
        return yearly(match, Kind.DAY, in_year, reading)

    return read


ISO = PhraseRule(
    "0",
    rf"{NUMBER_START}(\d{{4}})[-/](\d{{1,2}})[-/](\d{{1,2}})(?![a-su-z_\d]|[-/.]\d)",
    read_iso,
)
NUMERIC = PhraseRule(
    "0",
    rf"{NUMBER_START}(\d{{1,2}})([/.\-])(\d{{1,2}})([/.\-])(\d{{4}}|\d{{2}})(?![\w%]|[-/.]\d)",
    read_numeric,
)
SHORT_DATE = rf"{NUMBER_START}(\d{{1,2}})/(\d{{1,2}})(?![\w%]|[-/.]\d)"
