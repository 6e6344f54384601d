"""The English words for times."""

from __future__ import annotations

import re
from collections.abc import Callable

from hitherto_retrieval.search.dates.language import Language
from hitherto_retrieval.search.dates.numeric import (
    ISO,
    NUMBER_START,
    NUMERIC,
    SHORT_DATE,
    read_short,
)
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
    spaced,
    yearly,
)
from hitherto_retrieval.search.dates.relative import ago, kind_of, latest_day, rolling
from hitherto_shared.vocabulary import times
from hitherto_shared.vocabulary.spans import (
    InYear,
    Which,
    choose_weekday,
    days_in_year,
    month_in_year,
    months_span,
    quarter_in_year,
    season_in_year,
    unit_of,
    which_of,
    year_span,
)

_CERTAIN_MONTHS = frozenset("january february july september october november december".split())
_VERBS = frozenset({"may", "march"})
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "last": -1}
_ORDINALS |= {"1st": 1, "2nd": 2, "3rd": 3, "4th": 4, "5th": 5}
_NUMBERS = {word: (times.NUMBERS[word], times.NUMBERS[word]) for word in times.TO_TWELVE}
_NUMBERS |= {"a": (1, 1), "an": (1, 1), "couple": (2, 2), "few": (2, 5), "several": (3, 7)}
_WHICH = {word: which_of(shift) for word, shift in times.WHICH.items()}

_YEAR = r"(?:19|20|21)\d\d"
_MONTH = rf"(?:{'|'.join(times.MONTHS)}|sept|jan|feb|mar|apr|jun|jul|aug|sep|oct|nov|dec)\b\.?"
_DAY = r"(\d{1,2})(?:st|nd|rd|th)?\b"
_TO = r" ?(?:-|–|—|to|and|until|till|through|thru) ?(?:the )?"
_NUMBER = rf"(\d{{1,4}}|{'|'.join(sorted(_NUMBERS, key=len, reverse=True))})"
_UNIT = r"(minute|hour|day|night|week|weekend|month|quarter|year)s?\b"
_WHICH_WORD = r"(last|past|previous|this|current|next|coming) "
_WEEKDAY = rf"({'|'.join(sorted(times.WEEKDAY_FORMS, key=len, reverse=True))})\b"

_YEAR_FOLLOWS = spaced(rf",? ?(?:of |in )?(?:{_YEAR}|(?:last|this|next|that|the same) year)\b")
_CLAUSE_ENDS = re.compile(r"\s*(?:[?.!,;:)\"'”’]|\Z)")
_MODAL = spaced(
    r" (?:be|have|not|well|also|still|never|only|just|even|or may|i|we|you|he|she|they|it|"
    r"need|want|come|go|get|cause|include|help|seem|take|make|contain|require)\b"
)
_DATE_WORD = spaced(r"\b(?:on|since|before|after|until|till|by|from|of|between)(?: the)? \Z")
_STRONG = spaced(
    r"(?:\b(?:up to|in|during|since|until|till|before|after|early|late|mid|throughout"
    r"|around)(?: |-)"
    r"|\b(?:start|beginning|end|middle|month|week|weekend|day) of )\Z"
)
_RANGE_OPENS = spaced(r"\b(?:from|between) \Z")
_MONTH_TO_MONTH = spaced(rf" ?(?:-|–|—|to|until|till|through|thru) ?{_MONTH}")
_RANGE_GOES_ON = spaced(rf"{_TO}(?:{_MONTH}|\d)")
_YEAR_WORD = spaced(
    r"\b(?:in|since|before|after|during|until|till|by|for|of|throughout|year|around|from|between"
    r"|early|mid|late|and)(?: |-)(?:early |mid-?|late )?\Z"
)
_YEAR_GAP = spaced(r",? ?(?:of |in )?")
_COUNTED = spaced(
    r" ?(?:%|words?|steps?|people|users?|dollars?|usd|euros?|eur|vnd|lines?|km|meters?|metres?|"
    r"miles?|characters?|tokens?|calories|kcal|pages?|items?|files?|rows?|points?|times|years|"
    r"days|hours|minutes|other|different|more)\b"
)
_COUNTED_ANY = re.compile(r"\s+[a-z]{3,}s\b")
_SHORT_DATE_WORD = spaced(r"\b(?:on|since|until|till) \Z")
_ON_THE = spaced(r"\b(?:on|since|until|till|by) the \Z")
_LARGER_NUMBER = spaced(r"(?:\bhalf |[a-z]-|\b(?:hundred|thousand|and) )\Z")
_PART_OF_THE = spaced(r"\b(?:start|beginning|early|middle|end|rest)(?: part)? (?:of|in) the \Z")
_NO_WEEKDAY = spaced(r"\b(?:every|each|per|black|good|casual|girl|man|any) \Z")
_NEAR_WEEKDAY = spaced(r"\b(?:on|since|until|till|before|after) \Z")
_THE = spaced(r"\b(?:the|a|an|his|her|their|our|my|your) \Z")


def _capital(reading: PhraseContext, at: int) -> bool:
    """Whether a word is capitalised for itself, not for upper-case text or its position."""
    if not reading.text[at : at + 1].isupper() or reading.text[at + 1 : at + 2].isupper():
        return False
    ahead = reading.text[:at].rstrip(" \t\n\u00a0\"'“‘(")
    return bool(ahead) and ahead[-1] not in ".?!:"


def _is_date(match: re.Match[str], month: str, reading: PhraseContext, ordinal: bool) -> bool:
    """Whether a number beside a month's name forms a date; "may" and "march" are also verbs."""
    if month.rstrip(".") not in _VERBS or ordinal:
        return True
    name = match.start() + match[0].index(month)
    return (
        _capital(reading, name)
        or preceded(_DATE_WORD, reading, match.start())
        or bool(_YEAR_FOLLOWS.match(reading.lower, match.end()))
        or bool(_CLAUSE_ENDS.match(reading.lower, match.end()))
    )


def _month_number(name: str) -> int:
    return times.MONTH_FORMS[name.rstrip(".")]


def _read_day_range(match: re.Match[str], parts: Parts, reading: PhraseContext) -> Phrase | None:
    if parts[2]:
        first, last, month = parts[:3]
    else:
        month, first, last = parts[3:]
    in_year = days_in_year(_month_number(month or ""), int(first or 0), int(last or 0))
    return yearly(match, Kind.DAY, in_year, reading)


def _read_day_month(match: re.Match[str], parts: Parts, reading: PhraseContext) -> Phrase | None:
    day, month = parts[0] or "", parts[1] or ""
    ordinal = not match[0][len(day) :].startswith(" ")
    if not _is_date(match, month, reading, ordinal):
        return None
    return yearly(match, Kind.DAY, days_in_year(_month_number(month), int(day)), reading)


def _read_month_day(match: re.Match[str], parts: Parts, reading: PhraseContext) -> Phrase | None:
    month, day = parts[0] or "", parts[1] or ""
    if not _is_date(match, month, reading, not match[0].endswith(day)):
        return None
    return yearly(match, Kind.DAY, days_in_year(_month_number(month), int(day)), reading)


def _is_month(match: re.Match[str], name: str, which: bool, reading: PhraseContext) -> bool:
    """Whether a month's name alone means the month, and not a verb or a personal name."""
    lower, start, end = reading.lower, match.start(), match.end()
    if name in _CERTAIN_MONTHS or _YEAR_FOLLOWS.match(lower, end):
        return True
    if name in _VERBS and _MODAL.match(lower, end):
        return False
    if which:
        return name not in _VERBS or _is_noun(match, reading)
    if preceded(_RANGE_OPENS, reading, start):
        return bool(_RANGE_GOES_ON.match(lower, end))
    return (
        preceded(_STRONG, reading, start)
        or _MONTH_TO_MONTH.match(lower, end) is not None
        or joined(reading, start)
    )


def _is_noun(match: re.Match[str], reading: PhraseContext) -> bool:
    """Whether "last march" and the like end the clause or are written as a name."""
    ends = bool(_CLAUSE_ENDS.match(reading.lower, match.end()))
    name = match.end() - len(match[0].split()[-1])
    return _capital(reading, name) or (ends and not preceded(_THE, reading, match.start()))


def _read_month(match: re.Match[str], parts: Parts, reading: PhraseContext) -> Phrase | None:
    name = (parts[1] or "").rstrip(".")
    if not _is_month(match, name, bool(parts[0]), reading):
        return None
    which = _WHICH[parts[0]] if parts[0] else None
    return yearly(match, Kind.MONTH, month_in_year(times.MONTH_FORMS[name]), reading, which)


def _yearly_if_dated(in_year: Callable[[str], InYear], near: re.Pattern[str]) -> Reader:
    """A season or quarter: it counts with "last" or the like, with a year, or after `near`."""

    def read(match: re.Match[str], parts: Parts, reading: PhraseContext) -> Phrase | None:
        which = _WHICH[parts[0]] if parts[0] else None
        name = next((part for part in parts[1:] if part), "")
        dated = (
            which is not None
            or _YEAR_FOLLOWS.match(reading.lower, match.end())
            or preceded(near, reading, match.start())
        )
        return yearly(match, Kind.OTHER, in_year(name), reading, which) if dated else None

    return read


def _read_weekday(match: re.Match[str], parts: Parts, reading: PhraseContext) -> Phrase | None:
    name = parts[1] or ""
    which = _WHICH[parts[0]] if parts[0] else None
    if name not in times.WEEKDAYS:
        # "Sun", "sat" and "wed" are also ordinary words.
        at = match.end() - len(name)
        placed = which is not None or preceded(_NEAR_WEEKDAY, reading, match.start())
        if not placed or not _capital(reading, at) or name == "sun":
            return None
    elif preceded(_NO_WEEKDAY, reading, match.start()):
        return None
    kind = Kind.DAY if which else Kind.WEEKDAY
    return phrase_of(
        match, kind, choose_weekday(times.WEEKDAY_FORMS[name], reading.today, which or Which.LATEST)
    )


def _read_day_word(match: re.Match[str], _parts: Parts, reading: PhraseContext) -> Phrase | None:
    shift = times.DAYS[" ".join(match[0].split())]
    return phrase_of(match, Kind.DAY, unit_of("day", reading.today, shift))


def _read_unit(match: re.Match[str], parts: Parts, reading: PhraseContext) -> Phrase | None:
    which, unit, unit_before_last = parts
    if unit_before_last:
        return phrase_of(
            match, kind_of(unit_before_last), unit_of(unit_before_last, reading.today, -2)
        )
    if which == "past" and unit != "weekend":
        return rolling(match, unit or "", 1, reading)
    shift = times.WHICH[which or ""]
    return phrase_of(match, kind_of(unit or ""), unit_of(unit or "", reading.today, shift))


def _read_current(match: re.Match[str], parts: Parts, reading: PhraseContext) -> Phrase | None:
    """The beginning "of the year" refers to the current year."""
    if not preceded(_PART_OF_THE, reading, match.start()):
        return None
    unit = parts[0] or ""
    return phrase_of(match, kind_of(unit), unit_of(unit, reading.today, 0))


def _amount(words: str) -> tuple[int, int]:
    return (int(words), int(words)) if words.isdigit() else _NUMBERS[words]


def _read_ago(match: re.Match[str], parts: Parts, reading: PhraseContext) -> Phrase | None:
    # "Half a year ago" and "twenty-two days ago" begin before the number that was matched.
    if preceded(_LARGER_NUMBER, reading, match.start()):
        return None
    low, high = _amount(parts[0] or "")
    unit = parts[1] or ""
    return ago(match, "day" if unit == "night" else unit, low, high, reading)


def _read_rolling(match: re.Match[str], parts: Parts, reading: PhraseContext) -> Phrase | None:
    unit = parts[1] or ""
    return rolling(match, "day" if unit == "night" else unit, _amount(parts[0] or "")[1], reading)


def _read_year(match: re.Match[str], _parts: Parts, reading: PhraseContext) -> Phrase | None:
    start, end, lower = match.start(), match.end(), reading.lower
    previous = reading.phrases[-1] if reading.phrases else None
    follows = (
        previous is not None
        and previous.in_year is not None
        and bool(_YEAR_GAP.fullmatch(lower, previous.end, start))
    )
    if not follows:
        if not preceded(_YEAR_WORD, reading, start) and not joined(reading, start):
            return None
        if _COUNTED.match(lower, end):
            return None
        # "in 2000 iterations": a round number before a plural is more often a count.
        if match[0].endswith("00") and _COUNTED_ANY.match(reading.text, end):
            return None
    return phrase_of(match, Kind.YEAR, year_span(int(match[0])))


def _read_year_month(match: re.Match[str], parts: Parts, reading: PhraseContext) -> Phrase | None:
    if not preceded(_YEAR_WORD, reading, match.start()) and not joined(reading, match.start()):
        return None
    return phrase_of(match, Kind.MONTH, months_span(int(parts[0] or 0), int(parts[1] or 0)))


def _read_day_number(match: re.Match[str], parts: Parts, reading: PhraseContext) -> Phrase | None:
    if not preceded(_ON_THE, reading, match.start()):
        return None
    return latest_day(match, int(parts[0] or 0), reading)


def _quarter(name: str) -> InYear:
    return quarter_in_year(int(name) if name.isdigit() else _ORDINALS[name])


_NEAR_SEASON = spaced(r"\b(?:since|until|till|before|after) \Z")
_NEAR_QUARTER = spaced(r"\b(?:in|since|until|till|before|after|during|for|from) (?:the )?\Z")
_OPTIONAL_WHICH = rf"(?:{_WHICH_WORD})?"

_WHICH_STARTS = " ".join(_WHICH)
_MONTH_STARTS = " ".join(times.MONTH_FORMS)
_ENGLISH = Language(
    [
        ISO,
        NUMERIC,
        PhraseRule("0", SHORT_DATE, read_short(_SHORT_DATE_WORD)),
        PhraseRule(
            f"0 {_MONTH_STARTS}",
            rf"{NUMBER_START}{_DAY}{_TO}{_DAY} (?:of )?({_MONTH})"
            rf"|({_MONTH}) (?:the )?{_DAY}{_TO}{_DAY}(?![-/.:]\d| (?:of )?{_MONTH})",
            _read_day_range,
        ),
        PhraseRule("0", rf"{NUMBER_START}{_DAY} (?:of )?({_MONTH})", _read_day_month),
        PhraseRule(
            f"0 {' '.join(_NUMBERS)}", rf"{_NUMBER} (?:of )?{_UNIT} (?:ago|back)\b", _read_ago
        ),
        PhraseRule(
            "last past previous recent",
            rf"(?:last|past|previous|recent) (?:a )?{_NUMBER} (?:of )?{_UNIT}(?! of\b)",
            _read_rolling,
        ),
        PhraseRule("0", rf"{NUMBER_START}({_YEAR})-(\d\d)(?![\w%]|[-/.]\d)", _read_year_month),
        PhraseRule("0", rf"{NUMBER_START}{_YEAR}(?![\w%]|[.,:/\-]\d)", _read_year),
        PhraseRule(
            "0",
            rf"{NUMBER_START}(\d{{1,2}})(?:st|nd|rd|th)"
            r"(?= ?(?:[?.!,;]|of (?:last|this) month\b|\Z))",
            _read_day_number,
        ),
        PhraseRule(
            _MONTH_STARTS,
            rf"({_MONTH}) (?:the )?{_DAY}(?![:%]|\.\d|,\d{{1,3}}\b)",
            _read_month_day,
        ),
        PhraseRule(
            "today tonight yesterday tomorrow last day this",
            r"(?:today|tonight|yesterday|tomorrow|last night|day before yesterday"
            r"|this (?:morning|afternoon|evening))\b",
            _read_day_word,
        ),
        PhraseRule(
            f"{_WHICH_STARTS} week weekend month year",
            rf"{_WHICH_WORD}(week|weekend|month|quarter|year)\b(?! of\b)"
            r"|(week|weekend|month|year) before last\b",
            _read_unit,
        ),
        PhraseRule("week month quarter year", r"(week|month|quarter|year)\b", _read_current),
        PhraseRule(
            f"{_WHICH_STARTS} {_MONTH_STARTS}", rf"{_OPTIONAL_WHICH}({_MONTH})", _read_month
        ),
        PhraseRule(
            f"{_WHICH_STARTS} {' '.join(_SEASONS)}",
            rf"{_OPTIONAL_WHICH}({'|'.join(_SEASONS)})\b",
            _yearly_if_dated(lambda name: season_in_year(_SEASONS[name]), _NEAR_SEASON),
        ),
        PhraseRule(
            f"{_WHICH_STARTS} q1 q2 q3 q4 first second third fourth 0",
            rf"{_OPTIONAL_WHICH}(?:q([1-4])\b|(first|second|third|fourth|1st|2nd|3rd|4th)"
            r" quarter\b)",
            _yearly_if_dated(_quarter, _NEAR_QUARTER),
        ),
        PhraseRule(
            f"{_WHICH_STARTS} {' '.join(times.WEEKDAY_FORMS)}",
            rf"{_OPTIONAL_WHICH}{_WEEKDAY}",
            _read_weekday,
        ),
    ],
    apposition=r" ?,? ?(?:of |in |on )?(?:the )?",
    joint=r" ?(?:-|–|—|to|(?P<and>and)|until|till|through|thru) ?(?:the )?",
    between="between",
    opening="from|between|starting",
    prefix=(
        r"\b(?:(?P<beside>(?P<length>day|week|month) (?P<side>before|after))"
        r"|(?P<before>before|prior to|earlier than)"
        r"|(?P<since>since|ever since|starting)"
        r"|(?P<after>after|following|later than)"
        r"|(?P<until>until|till|up to|up until|by)"
        r"|(?P<early>early(?: in)?|(?:start|beginning) of)"
        r"|(?P<middle>mid|middle of)"
        r"|(?P<late>late(?: in)?|end of)"
        r"|(?P<week_of>week of)"
        r"|(?P<weekend_of>weekend of)"
        r"|(?P<nth>(?P<ordinal>first|second|third|fourth|fifth|last|1st|2nd|3rd|4th|5th)"
        r" (?P<unit>weekend|week|day) (?:of|in)))(?: |-)(?:the )?(?:year )?\Z"
    ),
    onward=r" (?:on|onwards?|to now|until now|till now|up to now|to date|to the present)\b",
    ordinals=_ORDINALS,
    units={unit: unit for unit in ("day", "week", "weekend", "month")},
)
find = _ENGLISH.find
