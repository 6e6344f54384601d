"""Checks that a new wording holds no number that nobody said.

A model also computes: days from "next Friday", and hours of a clock with 24 from one with 12. These
are recognised by arithmetic, so that no language needs a list of words. Han numerals (八十, 1.5万)
and fractions (½) are digits as well: Unicode has their values.
"""

from __future__ import annotations

import re
import unicodedata
from calendar import monthrange
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta

from hitherto_shared.text.normalise import normalized

_RUN = re.compile(r"\d+")
# In groups of three digits, or as in India, where those before the last have two.
_GROUPED = re.compile(r"\d{1,3}(?:[.,'’٬\u00a0\u202f ]\d{2,3}){0,6}[.,'’٬\u00a0\u202f ]\d{3}(?!\d)")
# A number of a telephone, an account or a card: people group its digits as they like.
_SPLIT = re.compile(r"(?<!\d)\d+(?:[ \u00a0/()-]{1,3}\d+)+")
_SPLIT_DIGITS = 9
"""Minimum digits of such a number: more than a date has."""
_SPACED_DIGITS = 6
"""The same if only spaces or brackets part its groups."""
_HAN_NUMERAL = re.compile(r"(?<!\d)\d{0,20}[\u3007\u4e00-\u9fff][\d\u3007\u4e00-\u9fff]*")
_SCALED = re.compile(r"(?<!\d)(\d{1,20})[.](\d{1,20})([\u4e00-\u9fff])")
_FRACTION = re.compile("[\u00bc-\u00be\u2150-\u215e]")
_MYRIAD = 10_000
_LONGEST = 20
"""Maximum signs of a number that is computed."""
_DATE = re.compile(r"(?<![\d-])(\d{4})-(\d{2})(?:-(\d{2}))?(?![\d-])")
_DATE_BY_SIGNS = re.compile(
    r"(?<![\d./])(?:(\d{4})[年./](\d{1,2})(?!\d)(?:[月./](\d{1,2})(?!\d))?"
    r"|(?:(\d{1,2})[./])?(\d{1,2})[./](\d{4})(?![\d/]|[.]\d))"
)
"""A day or month as in 2026年3月15日, 15.03.2026, or 3/2026."""
_YEAR = re.compile(r"(?<!\d)(?:19|20)\d{2}(?!\d)")
_COMPUTED = timedelta(days=400)
"""How far from its message a day may lie that a message means without naming it."""
_GAP = r"[^\d./!?;。！？\n-]{1,14}"
_DATED = re.compile(
    rf"(?<!\d)(?:(\d{{1,2}})[.-]?{_GAP})?(?:(\d{{1,2}})[.-]?{_GAP}(?:[.] |-)?)?"
    r"((?:19|20)\d{2})(?!\d)"
    rf"(?=(?:{_GAP}(\d{{1,2}})(?!\d)(?:{_GAP}(\d{{1,2}})(?!\d))?)?)"
)
"""A year and the numbers before and after it in its sentence, with room for a month's name."""
_OFFSETS = timedelta(minutes=15)
"""What the offset of every time zone is a multiple of."""


def strange(wording: str, sources: Iterable[str], days: Sequence[date]) -> list[str]:
    """The runs of digits in a wording that neither its sources nor a date explain.

    `sources` are the texts that may give the wording its numbers: the old wording and the cited
    messages, which were said on `days`.
    """
    text = _ascii(wording)
    known: set[str] = set()
    dated: dict[str, set[tuple[int, ...]]] = {}
    numbered: set[str] = set()
    for source in sources:
        said = _ascii(source)
        for year, _, day, first, _, last in _DATE_BY_SIGNS.findall(said):
            if not day and not first:
                numbered.add(year or last)
        # Two wordings are compared as they stand: words for a month may be those of another one.
        for first, second, year, *after in _DATED.findall(said) if days else ():
            for beside in ((first, second), after):
                dated.setdefault(year, set()).add(tuple(int(each) for each in beside if each))
        known.update(map(_plain, _RUN.findall(said)))
        known.update(_plain(re.sub(r"\D", "", each)) for each in _GROUPED.findall(said))
        known.update(filter(None, map(_unsplit, _SPLIT.findall(said))))
        known.update(_of_han(said))
        known.update(str(unicodedata.numeric(each))[2:] for each in _FRACTION.findall(source))
    # Before anything takes the digits of a day apart.
    for form in (_DATE, _DATE_BY_SIGNS):
        text = form.sub(
            lambda found: "" if _is_told(found, days, dated, numbered) else found[0], text
        )
    text = _SCALED.sub(lambda found: "" if _scaled(found) in known else found[0], text)
    text = _HAN_NUMERAL.sub(lambda found: "" if _is_written(found[0], known) else found[0], text)
    text = _GROUPED.sub(lambda found: "" if _is_known(found[0], known) else found[0], text)
    text = _SPLIT.sub(lambda found: "" if _unsplit(found[0]) in known else found[0], text)
    if days:
        text = _YEAR.sub("", text)
    return [run for run in _RUN.findall(text) if not _stands(_plain(run), known)]


def put_off(end: datetime, old: str, new: str) -> datetime | None:
    """The end of the last day that an old wording names, moved to the last one of a new wording.

    There is none if the new wording names no day. Any other moment stays as it is: it has nothing
    to do with that day. So does one beside a date that is written otherwise than a model should.

    Raises:
        OverflowError: There is no such moment.
    """
    before, after = (max(_days_of(each), default=None) for each in (old, new))
    if before is None or not _is_end(end, before):
        return end
    if after is None:
        return end if _DATE_BY_SIGNS.search(_ascii(new)) else None
    return end + (after - before)


def _is_end(moment: datetime, day: date) -> bool:
    """Whether a day ends at a moment, in any time zone: the user may have travelled since."""
    late = moment - timedelta(days=1) - datetime.combine(day, time(), UTC)
    return timedelta(hours=-14) <= late <= timedelta(hours=12) and not late % _OFFSETS


def _days_of(text: str) -> list[date]:
    """The days that a text names; if it names none, the last ones of its months."""
    days, ends = [], []
    for year, month, day in _DATE.findall(_ascii(text)):
        with suppress(ValueError):
            if day:
                days.append(date(int(year), int(month), int(day)))
            else:
                last = monthrange(int(year), int(month))[1]
                ends.append(date(int(year), int(month), last))
    return days or ends


def _of_han(text: str) -> set[str]:
    """The numbers that Han numerals write, alone or after digits: 八十, 二〇二六, 2万5千, 1.5万."""
    if text.isascii():
        return set()
    found = {number for each in _SCALED.finditer(text) if (number := _scaled(each))}
    for signs in _HAN_NUMERAL.findall(text):
        run: list[int] = []
        for sign in (*signs, ""):
            value = unicodedata.numeric(sign, -1.0) if sign else -1.0
            if value >= 0 and value.is_integer():
                run.append(int(value))
            elif run:
                if len(run) <= _LONGEST:
                    found.add(str(_number(run)))
                run = []
    return found


def _scaled(found: re.Match[str]) -> str:
    """The number that a decimal fraction and a unit write; empty if that is no unit."""
    unit = unicodedata.numeric(found[3], 0.0)
    number, left = divmod(int(found[1] + found[2]) * int(unit), 10 ** len(found[2]))
    return str(number) if unit >= 10 and not left and len(found[0]) <= _LONGEST else ""


def _number(values: Sequence[int]) -> int:
    """The number that values of signs make: digits in a row, multiplied by the units after them."""
    whole = part = digits = 0
    for value in values:
        if value < 10:
            digits = 10 * digits + value
        elif value < _MYRIAD:
            part, digits = part + (digits or 1) * value, 0
        else:
            whole, part, digits = whole + (part + digits or 1) * value, 0, 0
    return whole + part + digits


def _stands(run: str, known: set[str]) -> bool:
    if run in known or run == "0":
        return True
    # 14:00 for "2 pm".
    return len(run) == 2 and 13 <= int(run) <= 23 and str(int(run) - 12) in known


def _is_written(signs: str, known: set[str]) -> bool:
    """Whether Han numerals and digits write only known numbers."""
    return known.issuperset(_of_han(signs) or {signs})


def _unsplit(grouped: str) -> str:
    """The digits of a number in groups; empty if they are too few to be one number."""
    run = re.sub(r"\D", "", grouped)
    least = _SPLIT_DIGITS if set(grouped) & set("/-") else _SPACED_DIGITS
    return _plain(run) if len(run) >= least else ""


def _is_known(grouped: str, known: set[str]) -> bool:
    return _plain(re.sub(r"\D", "", grouped)) in known


def _is_told(
    found: re.Match[str],
    days: Sequence[date],
    dated: Mapping[str, Collection[tuple[int, ...]]],
    numbered: Collection[str],
) -> bool:
    """Whether a day or month was said, or can be computed from a message.

    It lies near one of the messages; or its year and day stand side by side, with no other number
    that could be a month: then words name the month, in any language ("March 15, 1990"), and nobody
    checks which. `dated` has the numbers before and after each year. What is written as 3/2026 may
    be no month: it is none where a source has its year, as in `numbered`, in such a number.
    """
    is_month = found.re is _DATE or "年" in found[0]
    for year, month, day in _readings(*found.groups()):
        try:
            meant = date(int(year), int(month), int(day or 1))
        except ValueError:
            continue
        near = any(abs(meant - said) <= _COMPUTED for said in days)
        if near and (day or is_month or year not in numbered):
            return True
        if day and any(_has_only(int(day), beside) for beside in dated.get(year, ())):
            return True
    return False


def _has_only(day: int, beside: Sequence[int]) -> bool:
    """Whether a day stands there, and nothing else that could be a month."""
    if day not in beside:
        return False
    others = list(beside)
    others.remove(day)
    return not any(0 < each <= 12 for each in others)


def _readings(
    year: str, month: str, day: str, first: str = "", second: str = "", last: str = ""
) -> list[tuple[str, str, str]]:
    """The years, months and days that the groups of a date may mean: day and month in any order."""
    if year:
        return [(year, month, day)]
    return [(last, second, first), (last, first, second)] if first else [(last, second, "")]


def _plain(run: str) -> str:
    return run.lstrip("0") or "0"


def _ascii(text: str) -> str:
    """The text with the digits of every script as ASCII digits, without superscripts (m²)."""
    if text.isascii():
        return text
    level = "".join(ch for ch in text if not unicodedata.decomposition(ch).startswith("<su"))
    return "".join(
        str(int(ch)) if ch.isdecimal() and not ch.isascii() else ch
        for ch in normalized("NFKC", _FRACTION.sub(r" \g<0>", level))
    )
