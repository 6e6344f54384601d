"""A time phrase ("May", "last year", "5 June"), and the text in which it stands."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import Enum

from hitherto_shared.dates.spans import InYear, Span

_LOOK_BACK = 40
_WORD = re.compile(r"\w+")


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
    """A time phrase at `start:end` of the text and the days it means on its own.

    Attributes:
        in_year: Set while the year is open.
        to_now: The span ends now rather than after its last day.
        relative: It is counted from the present day.
    """

    start: int
    end: int
    kind: Kind
    span: Span
    in_year: InYear | None = None
    to_now: bool = False
    relative: bool = False


@dataclass(slots=True)
class PhraseContext:
    """A text, when it was written (local time, without a zone), and the phrases read so far.

    `lower` is the text in lower case, character by character, so that positions are unchanged.
    """

    text: str
    now: datetime
    lower: str = ""
    words: list[tuple[int, str]] = field(default_factory=list)
    phrases: list[Phrase] = field(default_factory=list)

    def __post_init__(self) -> None:
        # A plain `lower` turns "İ" into two characters.
        lowered = self.text.lower()
        if len(lowered) != len(self.text):
            lowered = "".join(low if len(low := ch.lower()) == 1 else ch for ch in self.text)
        self.lower = lowered
        self.words = [(match.start(), match[0]) for match in _WORD.finditer(lowered)]

    @property
    def today(self) -> date:
        """The user's calendar day."""
        return self.now.date()

    def preceded(self, pattern: re.Pattern[str], start: int) -> re.Match[str] | None:
        """A match, anchored to its end, of the text directly before `start`."""
        return pattern.search(self.lower, max(0, start - _LOOK_BACK), start)


def spaced(pattern: str) -> re.Pattern[str]:
    """Compile a pattern in which a space matches a limited amount of white space.

    The limit keeps matching linear in the text, however many spaces it contains.
    """
    return re.compile(pattern.replace(" ", r"(?:\s{1,3})"))


_RANGE_JOINS = spaced(
    r" ?(?:-|–|—|to|and|until|till|through|thru|đến|tới|và|den|toi|va) ?(?:ngày |ngay )?"
)


def joined(reading: PhraseContext, start: int) -> bool:
    """Whether the phrase at `start` continues a range that an earlier phrase began."""
    return bool(reading.phrases) and bool(
        _RANGE_JOINS.fullmatch(reading.lower, reading.phrases[-1].end, start)
    )
