"""Amounts whose thousands stand as a word in one text and as digits in another: 85k, 85,000.

No language's words are known, only the k and M of the SI. Else the digits must be the same, a power
of a thousand must lie between them, and both numbers must stand before the same word, which the
short one has behind another one: "1,5 triệu đồng". Han numerals have their own reader.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import NamedTuple

_AMOUNT = re.compile(
    r"(?<![\d.,])(?:(\d{1,3}(?:[.,'’٬\u00a0\u202f ]\d{3}){1,5})"
    r"|(\d{1,12})(?:[.,](\d{1,6}))?)(?![.,]?\d)"
)
"""A number in groups, or with a decimal fraction."""
# Signs that are no letters by their own are parts of words in many scripts.
_WORD = r"([^\s\d!-/:-@\[-`{-~]*)"
_AFTER = re.compile(rf"[ \u00a0\u202f-]?{_WORD}[ \u00a0\u202f-]?{_WORD}")
_PREFIX = re.compile(r"[kKM](?![^\W_])")
_PREFIXES = {"k": 3, "K": 3, "M": 6}
_POWERS = (3, 6, 9)


class _Amount(NamedTuple):
    digits: str
    """Without zeros at either end."""
    power: int
    """Of ten, of the last digit."""
    word: str
    """What follows; empty at the end of a sentence."""
    next: str
    is_prefixed: bool
    """Whether its thousands or millions are a prefix of the SI."""


class SaidAmounts:
    """The amounts that messages name."""

    def __init__(self) -> None:
        self._long = defaultdict[tuple[str, int], set[str]](set)
        """The word behind each number."""
        self._short = defaultdict[tuple[str, int], set[str]](set)
        """The word behind that."""
        self._prefixed = set[tuple[str, int]]()

    def add(self, text: str) -> None:
        """Read a message, or another text that may give a wording its amounts."""
        for found in _AMOUNT.finditer(text):
            amount = _read(found)
            self._long[amount[:2]].add(amount.word)
            self._short[amount[:2]].add(amount.next)
            if amount.is_prefixed:
                self._prefixed.add(amount[:2])

    def cut_from(self, wording: str) -> str:
        """A wording without these amounts, where it writes them in the other form."""
        return _AMOUNT.sub(lambda found: "" if self._has(_read(found)) else found[0], wording)

    def _has(self, amount: _Amount) -> bool:
        digits, power, word, following, is_prefixed = amount
        if amount[:2] in (self._long if is_prefixed else self._prefixed):
            return True
        return any(
            (word and word in self._short.get((digits, power - more), ()))
            or (following and following in self._long.get((digits, power + more), ()))
            for more in _POWERS
        )


def _read(found: re.Match[str]) -> _Amount:
    grouped, number, fraction = found.groups()
    digits = re.sub(r"\D", "", grouped) if grouped else number + (fraction or "")
    power = len(digits) - len(digits.rstrip("0")) - len(fraction or "")
    end = found.end()
    if prefix := _PREFIX.match(found.string, end):
        power, end = power + _PREFIXES[prefix[0]], prefix.end()
    word, following = _AFTER.match(found.string, end).groups()  # type: ignore[union-attr]
    folded = word.casefold(), following.casefold()
    return _Amount(digits.strip("0"), power, *folded, prefix is not None)
