"""Amounts whose thousands stand as a word in one text and as digits in another: 85k, 85,000.

No language's words are known. The digits must be the same, and a power of ten that some language
has a word for must lie between them. The short form has a word there which the long one lacks:
behind the digits without a space, or, after a space, before the word that follows both.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import NamedTuple

_AMOUNT = re.compile(
    r"(?<![\d.,])(?:(\d{1,3}(?:[.,'’٬\u00a0\u202f ]\d{2,3}){0,4}[.,'’٬\u00a0\u202f ]\d{3})"
    r"|(\d{1,12})(?:[.,](\d{1,6}))?)(?![.,]?\d)"
)
"""A number in groups, or with a decimal fraction."""
# Signs that are no letters by their own are parts of words in many scripts.
_WORD = r"([^\s\d!-/:-@\[-`{-~]*)"
_AFTER = re.compile(rf"([ \u00a0\u202f-]?){_WORD}[ \u00a0\u202f-]?{_WORD}")
_POWERS = (3, 5, 6, 7, 9, 12)
"""Thousand, lakh, million, crore, billion, trillion. Han numerals have their own reader."""


class _Amount(NamedTuple):
    digits: str
    """Without zeros at either end."""
    power: int
    """Of ten, of the last digit."""
    is_joined: bool
    """Whether the word follows without a space."""
    word: str
    next: str


class SaidAmounts:
    """The amounts that messages name."""

    def __init__(self) -> None:
        self._words = defaultdict[tuple[str, int], set[str]](set)
        """The words behind each number."""
        self._scales = defaultdict[tuple[str, int, str | None], set[str]](set)
        """Those that may be a scale: by what follows them, None for those behind the digits."""

    def add(self, text: str) -> None:
        """Read a message, or another text that may give a wording its amounts."""
        for found in _AMOUNT.finditer(text):
            amount = _read(found)
            self._words[amount[:2]].add(amount.word)
            if amount.word:
                follows = None if amount.is_joined else amount.next
                self._scales[*amount[:2], follows].add(amount.word)

    def cut_from(self, wording: str) -> str:
        """A wording without these amounts, where it writes them in the other form."""
        return _AMOUNT.sub(lambda found: "" if self._has(_read(found)) else found[0], wording)

    def _has(self, amount: _Amount) -> bool:
        digits, power, is_joined, word, following = amount
        for more in _POWERS:
            short = digits, power - more
            for follows in (None, word):
                if self._scales.get((*short, follows), set()) - {word}:
                    return True
            words = self._words.get((digits, power + more), set())
            if word and (words - {word} if is_joined else following in words - {word}):
                return True
        return False


def _read(found: re.Match[str]) -> _Amount:
    grouped, number, fraction = found.groups()
    digits = re.sub(r"\D", "", grouped) if grouped else number + (fraction or "")
    power = len(digits) - len(digits.rstrip("0")) - len(fraction or "")
    space, word, following = _AFTER.match(found.string, found.end()).groups()  # type: ignore[union-attr]
    return _Amount(digits.strip("0"), power, not space, word.casefold(), following.casefold())
