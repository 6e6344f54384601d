"""A time phrase ("May", "last year", "5 June"), and the input of the rules that read one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import Enum
from typing import NamedTuple

from hitherto_shared.vocabulary.spans import (
    InYear,
    Span,
    Which,
    choose_year,
)

_LOOK_BACK = 30


class Kind(Enum):
    """The unit that a phrase names, as far as merging with its neighbour requires."""

    DAY = "a day"
    WEEKDAY = "a day of the week"
    DAY_NUMBER = "a day of the month"
    WEEK = "a week"
    MONTH = "a month"
    YEAR = "a year"
    OTHER = "anything else"


@dataclass(frozen=True, slots=True)
class Phrase:
    """A time phrase at `start:end` of the text and the days it means on its own."""

    start: int
    end: int
    kind: Kind
    span: Span
    in_year: InYear | None = None
    """Set while the year is open."""
    to_now: bool = False
    """The span ends now rather than after its last day."""


@dataclass(slots=True)
class PhraseContext:
    """The context that a reader can use besides its own match."""

    text: str
    lower: str
    """`text` in lower case, character by character, so that positions are unchanged."""
    now: datetime
    """The user's local time, without a time zone."""
    words: list[tuple[int, str]]
    """The words of `lower` and where they start."""
    phrases: list[Phrase] = field(default_factory=list)
    """The phrases read so far."""

    @property
    def today(self) -> date:
        """The user's calendar day."""
        return self.now.date()


Parts = tuple[str | None, ...]
Reader = Callable[[re.Match[str], Parts, PhraseContext], Phrase | None]
"""Interprets a match and its inner groups; None if the words do not mean a time."""


class PhraseRule(NamedTuple):
    """A pattern in lower case, in which a space matches white space, and its reader."""

    starts: str
    """The words with which the pattern can begin, separated by spaces; `0` is any number."""
    pattern: str
    read: Reader


def spaced(pattern: str) -> re.Pattern[str]:
    """Compile a pattern in which a space matches a limited amount of white space.

    The limit keeps matching linear in the text, however many spaces it contains.
    """
    return re.compile(pattern.replace(" ", r"(?:\s{1,3})"))


_RANGE_JOINS = spaced(
    r" ?(?:-|–|—|to|and|until|till|through|thru|đến|tới|và|den|toi|va) ?(?:ngày |ngay )?"
)


def yearly(
    match: re.Match[str],
    kind: Kind,
    in_year: InYear,
    reading: PhraseContext,
    which: Which | None = None,
) -> Phrase | None:
    """A phrase that recurs each year; its year stays open unless `which` determines it."""
    span = choose_year(in_year, reading.today, which or Which.LATEST)
    if span is None:
        return None
    return Phrase(match.start(), match.end(), kind, span, None if which else in_year)


def preceded(pattern: re.Pattern[str], reading: PhraseContext, start: int) -> bool:
    """Whether a pattern that is anchored to its end matches the text directly before `start`."""
    return pattern.search(reading.lower, max(0, start - _LOOK_BACK), start) is not None


def phrase_of(match: re.Match[str], kind: Kind, span: Span | None) -> Phrase | None:
    """The phrase of a match, or None if the calendar has no such date."""
    return span and Phrase(match.start(), match.end(), kind, span)


def joined(reading: PhraseContext, start: int) -> bool:
    """Whether the phrase at `start` continues a range that an earlier phrase began."""
    return bool(reading.phrases) and bool(
        _RANGE_JOINS.fullmatch(reading.lower, reading.phrases[-1].end, start)
    )
