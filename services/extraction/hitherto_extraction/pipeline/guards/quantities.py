"""Normalises the numbers, dates and times of a statement, in digits or in words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hitherto_extraction.pipeline.guards.tokens import NUMBER, POINT, SIGN, WORD, Token
from hitherto_shared.vocabulary import times

_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth".split()
_TENS = "thirty forty fifty sixty seventy eighty ninety".split()
# "một" is left out: it is the article far more often than the number. "năm" needs its context.
_VIETNAMESE = {word: n for word, n in times.VIETNAMESE_NUMBERS.items() if n not in (1, 5)}
_SMALL = {
    **times.NUMBERS,
    **{word: number for number, word in enumerate(_ORDINALS, 1)},
    **{word: number for number, word in zip(range(30, 100, 10), _TENS, strict=True)},
    **_VIETNAMESE,
    **{"tư": 4, "bẩy": 7, "once": 1, "twice": 2},
}
_SCALES = {
    "hundred": 100,
    "thousand": 1_000,
    "million": 1_000_000,
    "billion": 1_000_000_000,
    "mươi": 10,
    "trăm": 100,
    "nghìn": 1_000,
    "ngàn": 1_000,
    "triệu": 1_000_000,
    "tỷ": 1_000_000_000,
}
_PERCENT = ("%", "percent", "pct")

_MONTHS = times.MONTH_FORMS | times.FOREIGN_MONTHS
_WEEKDAYS = times.WEEKDAY_FORMS | times.FOREIGN_WEEKDAYS
_NEEDS_CAPITAL = frozenset("may march mar mai jun sat sun wed mon dec sep mars fri".split())
"""Words that mean months or days only with a capital ("may", "sun", the French "mars")."""

# "năm" is both "five" and "year"; next to these words it is the year.
_BESIDE_YEAR = frozenset(
    "nay ngoái sau trước tới mỗi hằng hàng nhiều vài mấy cả một trong từ vào qua".split()
)
_ALL_THOUSANDS = re.compile(r"[1-9]\d{0,2}([.,])\d{3}(?:\1\d{3})*$")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number, or a month or weekday, and the range of tokens that it takes up."""

    value: str
    is_date: bool
    start: int
    end: int


def is_date_word(token: Token) -> bool:
    """Whether a word is the name of a month or a weekday."""
    word = token.lower
    return (word in _MONTHS or word in _WEEKDAYS) and (
        token.text[0].isupper() or word not in _NEEDS_CAPITAL
    )


def is_number_word(word: str) -> bool:
    """Whether a casefolded word is only a number word ("twenty", "hundred", "percent").

    Vietnamese ones are not included: most have other meanings as well.
    """
    return word.isascii() and (word in _SMALL or word in _SCALES or word in _PERCENT)


def numeral(digits: str) -> str:
    """A single spelling for a run of digits: "1,000" and "1.000" are 1000, "07" is 7, "3.10" stays.

    A point or comma before exactly three digits separates thousands, otherwise decimals. Zeros at
    the end of a decimal stay, because they matter in a version.
    """
    sign = "-" if digits.startswith("-") else ""
    digits = digits.removeprefix("-")
    if ":" in digits:
        parts = [str(int(part)) if part.isdigit() else part for part in digits.split(":")]
        return ":".join([parts[0], *(part.zfill(2) for part in parts[1:])])
    if _ALL_THOUSANDS.match(digits):
        return sign + re.sub("[.,]", "", digits)
    if "," in digits and "." in digits:
        thousands, decimal = (",", ".") if digits.rfind(".") > digits.rfind(",") else (".", ",")
        return sign + digits.replace(thousands, "").replace(decimal, ".")
    digits = digits.replace(",", ".")
    return sign + (digits.lstrip("0") or "0" if digits.isdigit() else digits)


def _o_clock(number: str, meridiem: str) -> str:
    hour, _, minutes = number.partition(":")
    if not hour.isdigit() or not 1 <= int(hour) <= 12:
        return number + meridiem
    return f"{int(hour) % 12 + (12 if meridiem == 'pm' else 0)}:{minutes or '00'}"


def quantities(tokens: Sequence[Token]) -> tuple[Counter[str], Counter[str]]:
    """The numbers and dates (months, weekdays) of a statement, with repetitions."""
    numbers: Counter[str] = Counter()
    dates: Counter[str] = Counter()
    for each in found_in(without_signs(tokens)):
        (dates if each.is_date else numbers)[each.value] += 1
    return numbers, dates


def without_signs(tokens: Sequence[Token]) -> list[Token]:
    """The tokens among which `found_in` looks for numbers."""
    return [token for token in tokens if token.kind != SIGN]


def found_in(words: Sequence[Token]) -> Iterator[Quantity]:
    """The numbers and dates in order."""
    at = 0
    while at < len(words):
        used = 1
        if words[at].kind == NUMBER:
            number = numeral(words[at].text)
            if _is(words, at - 1, "tháng") or _followed_by_month_sign(words, at):
                yield Quantity(f"month {number}", True, at, at + 1)
            else:
                yield Quantity(_with_unit(number, words, at + 1), False, at, at + 1)
        elif words[at].kind == WORD:
            if date := _date(words, at):
                yield Quantity(date, True, at, at + 1)
            elif not (_is(words, at, "trăm") and _is(words, at - 1, "phần")):
                value, used = _spelled(words, at)
                if used and _is(words, at - 1, "tháng"):
                    yield Quantity(f"month {value}", True, at, at + used)
                elif used:
                    number = _with_unit(str(value), words, at + used)
                    yield Quantity(number, False, at, at + used)
        at += max(used, 1)


def _with_unit(number: str, words: Sequence[Token], at: int) -> str:
    """The number with a following percent sign or half of the day."""
    if _is(words, at, *_PERCENT) or (_is(words, at, "phần") and _is(words, at + 1, "trăm")):
        return number + "%"
    for meridiem in ("am", "pm"):
        if _is(words, at, meridiem):
            return _o_clock(number, meridiem)
    return number


def _followed_by_month_sign(words: Sequence[Token], at: int) -> bool:
    return at + 1 < len(words) and words[at + 1].text.startswith(("月", "월"))


def _date(words: Sequence[Token], at: int) -> str | None:
    word = words[at].lower
    if is_date_word(words[at]):
        return f"month {_MONTHS[word]}" if word in _MONTHS else f"weekday {_WEEKDAYS[word] + 1}"
    return "weekday 7" if word == "nhật" and _is(words, at - 1, "chủ") else None


def _is(words: Sequence[Token], at: int, *texts: str) -> bool:
    return 0 <= at < len(words) and words[at].lower in texts


def _spelled(words: Sequence[Token], start: int) -> tuple[int, int]:
    """(value, words used) of the number words at a position; (0, 0) if there are none."""
    total = current = used = 0
    at = start
    while at < len(words):
        token = words[at]
        if token.kind == POINT and token.text == "-" and used:
            at += 1
            continue
        value = _value(words, at)
        if value is not None and (not used or _adds(current, value)):
            current += value
        elif token.lower in _SCALES and (used or token.lower != "mươi"):
            scale = _SCALES[token.lower]
            if scale >= 1_000:
                total, current = total + max(current, 1) * scale, 0
            else:
                current = max(current, 1) * scale
        else:
            break
        at += 1
        used = at - start
    return total + current, used


def _adds(current: int, value: int) -> bool:
    """Whether a number word continues the one before it ("twenty five"), or starts anew."""
    return (
        current == 0 or (current % 10 == 0 and value < 10) or (current % 100 == 0 and value < 100)
    )


def _value(words: Sequence[Token], at: int) -> int | None:
    word = words[at].lower
    if word != "năm":
        return _SMALL.get(word)
    for place in (at - 1, at + 1):
        if 0 <= place < len(words):
            beside = words[place]
            if beside.kind == NUMBER or beside.lower in _BESIDE_YEAR or beside.lower in _SMALL:
                # "tháng năm" is May even before a year.
                return 5 if at and words[at - 1].lower == "tháng" else None
    return 5
