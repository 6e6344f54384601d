"""Fractions as a message writes them and as a model does: 1/2, ½ and 0.5 are one number.

Two decimal fractions are compared as they stand: 3.1 and 3.10 may be versions.
"""

from __future__ import annotations

import re
from fractions import Fraction

_COMMON = re.compile(r"(?<![\d.,/⁄])(?:(\d{1,4})[ \u00a0])?([1-9])[/⁄]([2-9]|10)(?![\d/⁄]|[.,]\d)")
"""A proper fraction, with the number before it; a longer path of numbers is a date."""
_DECIMAL = re.compile(r"(?<![\d.,/⁄])(\d{1,4})[.,٫](\d{1,3})(?![\d/⁄]|[.,]\d)")


class SaidFractions:
    """The fractions that messages name, in ASCII digits."""

    def __init__(self) -> None:
        self._common = set[Fraction]()
        self._decimal = set[Fraction]()

    def add(self, text: str) -> None:
        """Read a message, or another text that may give a wording its fractions."""
        self._common.update(map(_common, _COMMON.finditer(text)))
        self._decimal.update(map(_decimal, _DECIMAL.finditer(text)))

    def cut_from(self, wording: str) -> str:
        """A wording without those that the messages name in the other form."""
        if self._decimal:
            wording = _COMMON.sub(
                lambda found: "" if _common(found) in self._decimal else found[0], wording
            )
        if self._common:
            wording = _DECIMAL.sub(
                lambda found: "" if _decimal(found) in self._common else found[0], wording
            )
        return wording


def _common(found: re.Match[str]) -> Fraction:
    part = Fraction(int(found[2]), int(found[3]))
    return int(found[1] or 0) + part if part < 1 else Fraction(-1)


def _decimal(found: re.Match[str]) -> Fraction:
    return Fraction(f"{found[1]}.{found[2]}")
