"""Combines the time phrases of one language into the span of days that a question names.

Neighbours are merged ("May" + "last year", "Friday" + "last week"), two phrases form a range ("from
… to …"), and the words before a phrase modify it ("since", "early", "the week of").
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import NamedTuple

from hitherto_retrieval.search.dates.phrases import (
    Kind,
    Phrase,
    PhraseContext,
    PhraseRule,
    Reader,
    spaced,
)
from hitherto_shared.vocabulary.spans import (
    Span,
    day_span,
    nth,
    shift_days,
    third,
    week_of,
    weekend_of,
)

_LOOK_BACK = 40
_MAX_PREFIXES = 3
_THIRDS = ("early", "middle", "late")
_AFTER = frozenset({"after", "sau"})
_DAYS = {"day": 1, "week": 7, "weekend": 7, "month": 30}


class DateMatch(NamedTuple):
    """The days that a question names and the text they were read from.

    A start of None is open to the past.
    """

    first: date | None
    last: date
    to_now: bool
    start: int
    end: int


class Language:
    """The rules of one language.

    Args:
        rules: tried in this order at each word with which they can begin.
        apposition: what may stand between a phrase and its year ("May of last year").
        joint: what stands between the two ends of a range; its group `and` needs `between` in
            front, or two months or years in a row.
        between: what opens a range with `and`.
        opening: what may open any range.
        prefix: what changes the phrase behind it. Groups: before, since, after, until, early,
            middle, late, week_of, weekend_of; nth with an `ordinal` and a `unit` ("the first week
            of"); beside with a `length` and a `side` ("the day before").
        onward: what stands after a phrase to make it last until now ("from May on").
        ordinals: their words: 1 to 5, and -1 for the last.
        units: their words: day, week, weekend and month.
    """

    def __init__(
        self,
        rules: Sequence[PhraseRule],
        *,
        apposition: str,
        joint: str,
        between: str,
        opening: str,
        prefix: str,
        onward: str,
        ordinals: dict[str, int],
        units: dict[str, str],
    ) -> None:
        self._rules: dict[str, list[tuple[re.Pattern[str], Reader]]] = {}
        for rule in rules:
            compiled = (spaced(rule.pattern), rule.read)
            for word in dict.fromkeys(rule.starts.split()):
                self._rules.setdefault(word, []).append(compiled)
        self._apposition = spaced(apposition)
        self._joint = spaced(joint)
        self._between = spaced(rf"\b(?:{between}) \Z")
        self._opening = spaced(rf"\b(?:{opening}) \Z")
        self._prefix = spaced(prefix)
        self._onward = spaced(onward)
        self._ordinals = ordinals
        self._units = units

    def find(self, reading: PhraseContext) -> DateMatch | None:
        """The first time in the text that makes sense, or None."""
        done = 0
        for start, word in reading.words:
            rules = self._rules.get("0" if word[0].isdigit() else word)
            if rules is None or start < done:
                continue
            for pattern, read in rules:
                match = pattern.match(reading.lower, start)
                phrase = read(match, match.groups(), reading) if match else None
                if phrase:
                    reading.phrases.append(phrase)
                    done = phrase.end
                    break
        phrases = self._unite(reading) if len(reading.phrases) > 1 else reading.phrases
        for number, phrase in enumerate(phrases):
            following = phrases[number + 1] if number + 1 < len(phrases) else None
            found = following and self._range(phrase, following, reading)
            found = found or self._single(phrase, reading)
            if found:
                return found
        return None

    def _unite(self, reading: PhraseContext) -> list[Phrase]:
        united: list[Phrase] = []
        rest = reading.phrases
        index = 0
        while index < len(rest):
            phrase = rest[index]
            index += 1
            while index < len(rest) and self._touch(phrase, rest[index], reading):
                beyond = rest[index + 1] if index + 1 < len(rest) else None
                # In "2021, May 2022" May belongs to the following year.
                if (
                    phrase.kind is Kind.YEAR
                    and beyond
                    and beyond.kind is Kind.YEAR
                    and self._touch(rest[index], beyond, reading)
                ):
                    break
                whole = _unite_two(phrase, rest[index])
                if whole is None:
                    break
                phrase = whole
                index += 1
            united.append(phrase)
        return united

    def _touch(self, left: Phrase, right: Phrase, reading: PhraseContext) -> bool:
        return bool(self._apposition.fullmatch(reading.lower, left.end, right.start))

    def _range(self, left: Phrase, right: Phrase, reading: PhraseContext) -> DateMatch | None:
        joint = self._joint.fullmatch(reading.lower, left.end, right.start)
        if joint is None:
            return None
        low = max(0, left.start - _LOOK_BACK)
        between = self._between.search(reading.lower, low, left.start)
        opening = between or self._opening.search(reading.lower, low, left.start)
        first, last = _ends(left, right, reading.today)
        if first is None or last is None or first.first > last.last:
            return None
        in_a_row = left.kind is right.kind and shift_days(first.last, 1) == last.first
        if joint["and"] and not between and not in_a_row:
            return None
        start = opening.start() if opening else left.start
        return DateMatch(first.first, last.last, right.to_now, start, right.end)

    def _single(self, phrase: Phrase, reading: PhraseContext) -> DateMatch | None:
        start, end, span = phrase.start, phrase.end, phrase.span
        for _ in range(_MAX_PREFIXES):
            prefix = self._prefix.search(reading.lower, max(0, start - _LOOK_BACK), start)
            if prefix is None:
                break
            start = prefix.start()
            name = prefix.lastgroup
            if name == "since":
                onward = self._onward.match(reading.lower, end)
                return DateMatch(
                    span.first, span.last, True, start, onward.end() if onward else end
                )
            if name == "after":
                return DateMatch(shift_days(span.last, 1), date.max, True, start, end)
            if name == "before":
                earlier = shift_days(span.first, -1)
                return DateMatch(None, earlier, False, start, end) if earlier < span.first else None
            if name == "until":
                return DateMatch(None, span.last, phrase.to_now, start, end)
            span = self._part(name or "", prefix, span)
        onward = self._onward.match(reading.lower, end)
        if onward and (opening := self._opening.search(reading.lower, max(0, start - 20), start)):
            return DateMatch(span.first, span.last, True, opening.start(), onward.end())
        return DateMatch(span.first, span.last, phrase.to_now, start, end)

    def _part(self, name: str, prefix: re.Match[str], span: Span) -> Span:
        if name == "week_of":
            return week_of(span.first)
        if name == "weekend_of":
            return weekend_of(span.first)
        if name in _THIRDS:
            return third(span, _THIRDS.index(name))
        if name == "beside":
            days = _DAYS[self._units[prefix["length"]]]
            if prefix["side"] in _AFTER:
                return Span(shift_days(span.last, 1), shift_days(span.last, days))
            return Span(shift_days(span.first, -days), shift_days(span.first, -1))
        # The words of one name may be separated by several spaces.
        unit, ordinal = (" ".join(prefix[group].split()) for group in ("unit", "ordinal"))
        return nth(span, self._units[unit], self._ordinals[ordinal])


def _unite_two(left: Phrase, right: Phrase) -> Phrase | None:
    """One phrase for both, or None if they do not belong together."""
    start, end = left.start, right.end
    for open_year, year in ((left, right), (right, left)):
        if open_year.in_year and year.kind is Kind.YEAR:
            span = open_year.in_year(year.span.first.year)
            return span and Phrase(start, end, open_year.kind, span)
    for day, whole in ((left, right), (right, left)):
        if day.kind is Kind.WEEKDAY and whole.kind is Kind.WEEK:
            only = shift_days(whole.span.first, day.span.first.weekday())
            return Phrase(start, end, Kind.DAY, Span(only, only))
        if day.kind is Kind.DAY_NUMBER and whole.kind is Kind.MONTH and not whole.in_year:
            month = whole.span.first
            span = day_span(month.year, month.month, day.span.first.day)
            return span and Phrase(start, end, Kind.DAY, span)
        # "Friday, 5 May": the date is enough.
        if day.kind is Kind.WEEKDAY and whole.kind is Kind.DAY:
            return replace(whole, start=start, end=end)
    return None


def _ends(left: Phrase, right: Phrase, today: date) -> tuple[Span | None, Span | None]:
    """Both ends of a range; an end without a year takes the year of the other end."""
    first: Span | None = left.span
    last: Span | None = right.span
    if left.in_year:
        year = right.span.first.year
        first = left.in_year(year)
        if first is None or first.first > right.span.last:
            first = left.in_year(year - 1)
    elif right.in_year:
        year = left.span.first.year
        last = right.in_year(year)
        if last is None or last.last < left.span.first:
            last = right.in_year(year + 1)
    elif left.kind is Kind.WEEKDAY and left.span.first > right.span.first:
        earlier = shift_days(left.span.first, -7)
        first = Span(earlier, earlier)
    return first, last
