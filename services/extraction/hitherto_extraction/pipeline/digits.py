"""Checks that a new wording holds no number that nobody said.

A model also computes: days from "next Friday" (`named_days`), 85,000 from "85k" (`amounts`), 0.5
from ½ (`same_fractions`), and hours of a clock with 24 from one with 12. These are recognised by
arithmetic, so that no language needs a list of words. Han numerals (八十, 1.5万) are digits as
well: Unicode has their values.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from itertools import pairwise

from hitherto_extraction.pipeline.amounts import SaidAmounts
from hitherto_extraction.pipeline.named_days import SaidDates
from hitherto_extraction.pipeline.same_fractions import SaidFractions
from hitherto_shared.text.normalise import in_ascii_digits

_RUN = re.compile(r"\d+")
# In groups of three digits, or as in India, where those before the last have two.
_GROUP = r"[.,'’٬\u00a0\u202f ]"
_GROUPED = re.compile(rf"(?<!\d)\d{{1,3}}(?:{_GROUP}\d{{2,3}}){{0,6}}{_GROUP}\d{{3}}(?!\d)")
# A number of a telephone, an account or a card: people group its digits as they like.
_SPLIT = re.compile(r"(?<!\d)\d+(?:[ \u00a0/()-]{1,3}\d+)+")
_SPLIT_DIGITS = 9
"""Minimum digits of such a number: more than a date has."""
_SPACED_DIGITS = 6
"""The same if only spaces or brackets part its groups."""
_HAN_NUMERAL = re.compile(r"(?<!\d)\d{0,20}[\u3007\u4e00-\u9fff][\d\u3007\u4e00-\u9fff]*")
_SCALED = re.compile(r"(?<!\d)(\d{1,20})[.](\d{1,20})([\u4e00-\u9fff])")
_BETWEEN = 5
"""Maximum characters between two numbers of a list."""
_MYRIAD = 10_000
_LONGEST = 20
"""Maximum signs of a number that is computed."""
_YEAR = re.compile(r"(?<!\d)((?:19|20)\d{2})(?!\d)(?:[-/–](\d{2})(?![\d-]))?")
"""A year, also as in "winter 2026/27"."""


def strange(wording: str, sources: Iterable[str], days: Sequence[date]) -> list[str]:
    """The runs of digits in a wording that neither its sources nor a date explain.

    `sources` are the texts that may give the wording its numbers: the old wording and the cited
    messages, which were said on `days`.
    """
    text = in_ascii_digits(wording)
    known: set[str] = set()
    neighbours: set[tuple[str, str]] = set()
    dates, amounts, fractions = SaidDates(days), SaidAmounts(), SaidFractions()
    for source in sources:
        said = in_ascii_digits(source)
        dates.add(said)
        amounts.add(said)
        fractions.add(said)
        # A part of a number in groups is no number.
        alone = _GROUPED.sub(_spaced_alone, said)
        known.update(map(_plain, _RUN.findall(alone)))
        known.update(_plain(re.sub(r"\D", "", each)) for each in _GROUPED.findall(said))
        neighbours.update(_neighbours(alone))
        known.update(filter(None, map(_unsplit, _SPLIT.findall(said))))
        known.update(_of_han(said))
    # Before anything takes the digits of a day apart.
    text = fractions.cut_from(amounts.cut_from(dates.cut_from(text)))
    text = _SCALED.sub(lambda found: "" if _scaled(found) in known else found[0], text)
    text = _HAN_NUMERAL.sub(lambda found: "" if _is_written(found[0], known) else found[0], text)
    text = _GROUPED.sub(lambda found: _ungrouped(found[0], known, neighbours), text)
    text = _SPLIT.sub(lambda found: "" if _unsplit(found[0]) in known else found[0], text)
    if days:
        text = _YEAR.sub(_after_year, text)
    return [run for run in _RUN.findall(text) if not _stands(_plain(run), known)]


def _after_year(found: re.Match[str]) -> str:
    """What no year explains: nothing, or the two digits after it.

    They may be the next year's, if they are no month.
    """
    year, after = found.groups(default="")
    following = int(year) + 1
    is_next = after == f"{following % 100:02}" and following % 100 > 12
    return "" if is_next or not after else f" {after}"


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
    if run in known or run in {"0", "00"}:
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


def _spaced_alone(found: re.Match[str]) -> str:
    """A number in groups as it stands if spaces part these, for they may part two numbers."""
    return found[0] if re.search(r"\s", found[0]) else " " * (_BETWEEN + 1)


def _neighbours(text: str) -> Iterator[tuple[str, str]]:
    """Each number of a text with the next one, where little more than an "and" is between them."""
    for one, other in pairwise(_RUN.finditer(text)):
        if other.start() - one.end() <= _BETWEEN:
            yield one[0], other[0]


def _ungrouped(grouped: str, known: set[str], neighbours: set[tuple[str, str]]) -> str:
    """The digits of a number in groups of three; nothing of several numbers that are one list."""
    parts = _RUN.findall(grouped)
    if _plain("".join(parts)) in known or neighbours.issuperset(pairwise(parts)):
        return ""
    return grouped if re.search(r"\s", grouped) else "".join(parts)


def _plain(run: str) -> str:
    return run.lstrip("0") or run[-3:]
