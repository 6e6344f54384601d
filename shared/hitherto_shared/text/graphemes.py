"""Where a text may be cut: between graphemes, which readers see as one character."""

from __future__ import annotations

import unicodedata

_ZWJ = "\u200d"
_KEPT_WITH = frozenset("\u200c\u200d\u0e33\u0eb3")


def is_border(text: str, at: int, since: int = 0) -> bool:
    """Whether `at` is a boundary between graphemes.

    A grapheme may be several characters: a letter with its marks, an emoji with skin tone or joined
    to others, a flag. These are the parts of Unicode's rules for grapheme clusters that matter for
    cutting text. `since` is an earlier boundary.
    """
    if at <= since or at >= len(text):
        return True
    before, after = text[at - 1], text[at]
    if after.isascii() and before.isascii():
        return not (before == "\r" and after == "\n")
    if before == _ZWJ or after in _KEPT_WITH or _extends(after):
        return False
    # After a virama, a consonant belongs to the same syllable.
    if unicodedata.combining(before) == 9 and after.isalpha():
        return False
    if _is_flag_half(before) and _is_flag_half(after):
        halves = 0
        while halves < at - since and _is_flag_half(text[at - 1 - halves]):
            halves += 1
        return halves % 2 == 0
    return True


def beginning(text: str, characters: int) -> str:
    """The beginning of a text, cut between graphemes.

    A letter stays with its marks, an emoji with what it is joined to, a flag whole.
    """
    end = characters
    while not is_border(text, end):
        end -= 1
    # A text of combining marks alone has no place to cut it.
    return text[: end or characters]


def _extends(sign: str) -> bool:
    return (
        unicodedata.category(sign) in ("Mn", "Mc", "Me")
        or "\U0001f3fb" <= sign <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= sign <= "\U000e007f"  # flags of regions
        or "\u1160" <= sign <= "\u11ff"  # Hangul vowels and tails
        or "\ud7b0" <= sign <= "\ud7ff"
    )


def _is_flag_half(sign: str) -> bool:
    return "\U0001f1e6" <= sign <= "\U0001f1ff"
