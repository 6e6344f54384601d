"""The relative dates of a statement, resolved against the day on which it was made."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, time

from hitherto_shared.dates.find import ENGLISH, VIETNAMESE
from hitherto_shared.dates.phrases import Kind, Phrase, PhraseContext

_WEEK = {"en": "week of {}", "vi": "tuần từ {}"}
_KEPT = {
    "en": re.compile(r"\b(?:by|before|until|till|since|after|from|for|of)\s+$", re.IGNORECASE),
    "vi": re.compile(r"\b(?:trước|từ|đến|tới|sau)\s+$", re.IGNORECASE),
}
_DROPPED = {
    "en": re.compile(r"\b(?:in|on|during|the|early|late|just|later)\s+$", re.IGNORECASE),
    "vi": re.compile(r"(?<!\w)(?:vào|trong|hồi|khoảng|lúc)\s+$", re.IGNORECASE),
}


@dataclass(frozen=True, slots=True)
class RelativeDate:
    """A resolved date: the first day it covers, and its written form."""

    start: date
    text: str


def resolve_dates(clause: str, language: str, today: date) -> tuple[str, list[RelativeDate]]:
    """Remove relative dates from a clause in English (`en`) or Vietnamese (`vi`), and return both.

    A date after a meaningful preposition ("by tomorrow") is resolved in place instead.
    """
    taken: list[RelativeDate] = []
    reading = PhraseContext(clause, datetime.combine(today, time()))
    table = VIETNAMESE if language == "vi" else ENGLISH
    # From the end: what stands before a date keeps its place.
    for phrase in reversed(table.phrases(reading)):
        if (moment := _moment(phrase, language)) is None:
            continue
        before, after = clause[: phrase.start], clause[phrase.end :]
        if _KEPT[language].search(before):
            clause = before + moment.text + after
        else:
            taken.insert(0, moment)
            before = _DROPPED[language].sub("", before)
            clause = f"{before.rstrip()} {after.lstrip()}".strip(" ,")
    return re.sub(r"(?<!\s)\s+,", ",", clause), taken


def _moment(phrase: Phrase, language: str) -> RelativeDate | None:
    """A date that is counted from the present day; a vague one ("a few days ago") is none."""
    first = phrase.span.first
    written = {
        Kind.DAY: first.isoformat(),
        Kind.WEEK: _WEEK[language].format(first),
        Kind.MONTH: f"{first:%Y-%m}",
        Kind.YEAR: str(first.year),
    }
    vague = phrase.kind is Kind.DAY and phrase.span.last != first
    text = None if vague else written.get(phrase.kind)
    return RelativeDate(first, text) if text and phrase.relative else None
