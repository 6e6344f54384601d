"""The rules of a language, read from its table, and how the phrases that they find combine.

Neighbours are merged ("May" + "last year", "Friday" + "last week"), two phrases form a range ("from
… to …"), and the words before a phrase modify it ("since", "early", "the week of").

In a table, a rule is tried at each word in `starts` ("0": any number); `reads` says what its groups
mean (a digit behind the name of a group counts for nothing). A rule counts only `after` such words,
unless it continues a range, says which one ("last") or is followed by a year; never after
`not_after` or before `not_before`; and if its `guard` agrees.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from importlib.resources import files
from typing import NamedTuple

from hitherto_shared.dates.guards import GUARDS
from hitherto_shared.dates.phrases import Kind, Phrase, PhraseContext, joined
from hitherto_shared.dates.readers import READERS, Found
from hitherto_shared.dates.spans import (
    Span,
    day_span,
    nth,
    shift_days,
    third,
    week_of,
    weekend_of,
)
from hitherto_shared.dates.words import LanguageWords, without_marks

_MAX_PREFIXES = 3
_THIRDS = ("early", "middle", "late")
_AFTER = frozenset({"after", "sau"})
_DAYS = {"day": 1, "week": 7, "weekend": 7, "month": 30}
_EVERYWHERE: list[dict[str, str]] = [
    {
        "starts": "0",
        "pattern": r"<start>(?P<year>\d{4})[-/](?P<month>\d{1,2})[-/](?P<day>\d{1,2})"
        r"(?![a-su-z_\d]|[-/.]\d)",
        "reads": "iso",
    },
    {
        "starts": "0",
        "pattern": r"<start>(?P<day>\d{1,2})(?P<by>[/.\-])(?P<month>\d{1,2})(?P<again>[/.\-])"
        r"(?P<year>\d{4}|\d{2})(?![\w%]|[-/.]\d)",
        "reads": "numeric",
    },
]


class DateMatch(NamedTuple):
    """The days that a question names and the text they were read from.

    A start of None is open to the past.
    """

    first: date | None
    last: date
    to_now: bool
    start: int
    end: int


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    reads: str
    after: re.Pattern[str] | None
    not_after: re.Pattern[str] | None
    not_before: re.Pattern[str] | None
    guard: Callable[[Found], bool] | None


class Language:
    """The contents of `<name>.toml`; with `plain` as written without diacritics."""

    def __init__(self, name: str, *, plain: bool = False) -> None:
        given = tomllib.loads(files(__package__).joinpath(f"{name}.toml").read_text("utf-8"))
        self.words = words = LanguageWords(given, plain=plain)
        self._near = words.near
        self._rules: dict[str, list[_Rule]] = {}
        for row in [*_EVERYWHERE, *given["rules"]]:
            after, not_after, not_before = (
                words.pattern(row[key]) if key in row else None
                for key in ("after", "not_after", "not_before")
            )
            guard = GUARDS[row["guard"]] if "guard" in row else None
            pattern = words.pattern(row["pattern"])
            rule = _Rule(pattern, row["reads"], after, not_after, not_before, guard)
            for word in words.starts(row["starts"]):
                self._rules.setdefault(word, []).append(rule)

    def find(self, reading: PhraseContext) -> DateMatch | None:
        """The first time in the text that makes sense, or None."""
        phrases = self.phrases(reading)
        for number, phrase in enumerate(phrases):
            following = phrases[number + 1] if number + 1 < len(phrases) else None
            found = following and self._range(phrase, following, reading)
            if found := found or self._single(phrase, reading):
                return found
        return None

    def phrases(self, reading: PhraseContext) -> list[Phrase]:
        """The times in the text, neighbours as one."""
        done = 0
        for start, word in reading.words:
            rules = self._rules.get("0" if word[0].isdigit() else word)
            if rules is None or start < done:
                continue
            for rule in rules:
                if phrase := self._read(rule, start, reading):
                    reading.phrases.append(phrase)
                    done = phrase.end
                    break
        return self._unite(reading) if len(reading.phrases) > 1 else reading.phrases

    def _read(self, rule: _Rule, start: int, reading: PhraseContext) -> Phrase | None:
        match = rule.pattern.match(reading.lower, start)
        if match is None:
            return None
        parts = {
            key.rstrip("0123456789"): without_marks(" ".join(value.split())).rstrip(".")
            for key, value in match.groupdict().items()
            if value
        }
        found = Found(match, parts, self.words, reading)
        return READERS[rule.reads](found) if self._counts(rule, found) else None

    def _counts(self, rule: _Rule, it: Found) -> bool:
        reading, (start, end) = it.reading, it.match.span()
        if rule.reads == "year" and rule.after and it.continues:
            return True
        if rule.not_after and reading.preceded(rule.not_after, start):
            return False
        if rule.not_before and rule.not_before.match(reading.lower, end):
            return False
        if rule.after and not reading.preceded(rule.after, start):
            dated = rule.reads in ("season", "quarter") and (
                "which" in it.parts or self._near["year_follows"].match(reading.lower, end)
            )
            if not dated and not (
                rule.reads in ("short", "year", "year_month") and joined(reading, start)
            ):
                return False
        return rule.guard is None or rule.guard(it)

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
        return bool(self._near["apposition"].fullmatch(reading.lower, left.end, right.start))

    def _range(self, left: Phrase, right: Phrase, reading: PhraseContext) -> DateMatch | None:
        joint = self._near["joint"].fullmatch(reading.lower, left.end, right.start)
        if joint is None:
            return None
        between = reading.preceded(self._near["between"], left.start)
        opening = between or reading.preceded(self._near["opening"], left.start)
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
            prefix = reading.preceded(self._near["prefix"], start)
            if prefix is None:
                break
            start = prefix.start()
            name = prefix.lastgroup
            if name == "since":
                onward = self._near["onward"].match(reading.lower, end)
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
        onward = self._near["onward"].match(reading.lower, end)
        if onward and (opening := reading.preceded(self._near["opening"], start)):
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
            days = _DAYS[self.words.unit(without_marks(prefix["length"]))]
            if prefix["side"] in _AFTER:
                return Span(shift_days(span.last, 1), shift_days(span.last, days))
            return Span(shift_days(span.first, -days), shift_days(span.first, -1))
        # The words of one name may be separated by several spaces.
        unit, ordinal = (
            without_marks(" ".join(prefix[group].split())) for group in ("unit", "ordinal")
        )
        return nth(span, self.words.unit(unit), self.words.values["ordinals"][ordinal])


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
            return Phrase(start, end, Kind.DAY, Span(only, only), relative=whole.relative)
        if day.kind is Kind.DAY_NUMBER and whole.kind is Kind.MONTH and not whole.in_year:
            month = whole.span.first
            span = day_span(month.year, month.month, day.span.first.day)
            return span and Phrase(start, end, Kind.DAY, span, relative=whole.relative)
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
