"""Normalisation: NFC at the boundary, and the folded form for comparisons."""

from __future__ import annotations

import re
import unicodedata
from itertools import groupby
from typing import Literal

INVISIBLE = (
    "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f"  # control characters that are not white space
    "\xad\u034f\u061c\u180e"  # soft hyphen, grapheme joiner, Arabic letter mark, vowel separator
    "\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff"  # zero-width, directions, signs
    "\u115f\u1160\u17b4\u17b5\u3164\uffa0"  # blank letters
    "\ufff0-\ufffb\ufffe\uffff"  # annotation marks, non-characters
    "\ud800-\udfff"  # lone surrogates
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # controls of shorthand and music
    "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"  # tag characters
)
"""The inside of a character class: what no text needs to be read, and no reader sees."""
SELECTORS = "\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"
"""The inside of a character class: what selects one of several forms of the character before it."""

_SPACE = re.compile(r"\s+")
_NOT_LABEL = re.compile(r"[\x00-/:-@\[-^`{-\x7f]+")
# Letters, marks and symbols without visible form (Unicode: default ignorable, and the blank of
# Braille).
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_VARIES = re.compile(f"[{SELECTORS}]")
# It matches all combining marks, including the two half-width Japanese ones, and other characters.
_MARKS = re.compile(
    r"(?:[^\w\s\x00-\x7f]|[\uff9e\uff9f]){32}(?:[^\w\s\x00-\x7f]++|[\uff9e\uff9f]++)*+"
)
# A soft hyphen or a joiner stands inside of a word; between Arabic letters, a non-joiner divides.
_UNSEEN_INSIDE = re.compile(
    rf"(?:(?![\x00-\x7f])[{INVISIBLE}{SELECTORS}\u200d\u0640])+"
    r"|(?<![\u0600-\u06ff])\u200c|\u200c(?![\u0600-\u06ff])"
)
_MARKS_OF_TRADE = re.compile("[\u2120\u2122]")
_OTHER_DIGIT = re.compile(r"(?![0-9])\d")
_PERSIAN_LETTER = re.compile("[\u06a9\u06cc]")
_PERSIAN = str.maketrans("\u06a9\u06cc", "\u0643\u064a")
_WHOLE_LETTERS = str.maketrans(
    {
        **{"đ": "d", "ð": "d", "ħ": "h", "ı": "i", "ł": "l", "ø": "o", "ŧ": "t"},
        **{"æ": "ae", "œ": "oe", "þ": "th", "ß": "ss"},
    }
)
_WHOLE_LETTER = re.compile("[đðħıłøŧæœþß]")
_FEW = 64
"""Number of characters that sort quickly in any order."""
_DECOMPOSED: dict[str, Literal["NFD", "NFKD"]] = {
    "NFC": "NFD",
    "NFD": "NFD",
    "NFKC": "NFKD",
    "NFKD": "NFKD",
}
FRACTION = re.compile("[\u00bc-\u00be\u2150-\u215e]")
"""Signs such as ½."""


def nfc(text: str) -> str:
    """`text` in Unicode normal form C, so that composed and decomposed letters are equal."""
    return normalized("NFC", text)


def normalized(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
    """`text` in a normal form, in linear time.

    `unicodedata` sorts the marks of a letter by insertion, in quadratic time: a letter with 32,000
    marks blocks the whole process for a second. Long runs are therefore sorted first.
    """
    if text.isascii():
        return text
    if len(text) > _FEW:
        text = _MARKS.sub(lambda run: _in_order(_DECOMPOSED[form], run[0]), text)
    return unicodedata.normalize(form, text)


def _in_order(form: Literal["NFD", "NFKD"], run: str) -> str:
    """Decomposed characters, with the marks of each in canonical order."""
    decomposed = {sign: unicodedata.normalize(form, sign) for sign in set(run)}
    signs = "".join(map(decomposed.__getitem__, run))
    order = {sign: unicodedata.combining(sign) for sign in set(signs)}
    if len({place for place in order.values() if place}) < 2:
        return signs  # Marks of one place, such as accents above, keep their order.
    is_mark = {sign: place != 0 for sign, place in order.items()}
    return "".join(
        "".join(sorted(group, key=order.__getitem__) if marks else group)
        for marks, group in groupby(signs, key=is_mark.__getitem__)
    )


def in_ascii_digits(text: str) -> str:
    """The text with the digits of every script as ASCII digits, without superscripts (m²)."""
    if text.isascii():
        return text
    level = "".join(ch for ch in text if not unicodedata.decomposition(ch).startswith("<su"))
    return "".join(
        str(int(ch)) if ch.isdecimal() and not ch.isascii() else ch
        for ch in normalized("NFKC", FRACTION.sub(r" \g<0>", level))
    )


def compatible(text: str) -> str:
    """`text` with one form of each letter and digit, and without what nobody sees, in linear time.

    Wide and narrow letters, letters in circles, presentation forms of Arabic, radicals that stand
    for characters (NFKC), the digits of every script, the Persian forms of ya and kaf. The sign of
    a trade mark ends a word.
    """
    if text.isascii():
        return text
    text = normalized("NFKC", _UNSEEN_INSIDE.sub("", _MARKS_OF_TRADE.sub(" ", text)))
    if _OTHER_DIGIT.search(text):
        text = _OTHER_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), text)
    return text.translate(_PERSIAN) if _PERSIAN_LETTER.search(text) else text


def plain_letters(lowered: str) -> str:
    """Casefolded text without diacritics; letters that Unicode does not decompose by a table."""
    decomposed = normalized("NFD", lowered)
    if _WHOLE_LETTER.search(decomposed):
        decomposed = decomposed.translate(_WHOLE_LETTERS)
    return nfc("".join(ch for ch in decomposed if not unicodedata.combining(ch)))


def fold(text: str) -> str:
    """`text` without case, diacritics and forms of letters, spaces collapsed.

    "Hà Nội" and "ha noi" are equal, and so are "Łódź" and "lodz".
    """
    lowered = text.casefold()
    if not lowered.isascii():
        lowered = plain_letters(compatible(compatible(text).casefold()))
    return _SPACE.sub(" ", lowered).strip()


def tag_key(text: str) -> str:
    """`text` in the form of stored tags: lower_snake_case, empty without a letter or a digit.

    Vowel signs and other marks belong to their letters.
    """
    lowered = nfc(text).lower()
    if not lowered.isascii():
        lowered = "".join(" " if _parts_words(ch) else ch for ch in lowered)
    label = _NOT_LABEL.sub("_", lowered).strip("_")
    return label if any(map(str.isalnum, label)) else ""


def _parts_words(character: str) -> bool:
    return not (character.isalnum() or character == "_" or _is_mark(character))


def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] == "M"


def has_visible(text: str) -> bool:
    """Whether anything of `text` is visible: spaces, format characters and fillers are not."""
    if text.isascii():
        return any("!" <= ch <= "~" for ch in text)
    return any(
        ch not in _UNSEEN and unicodedata.category(ch)[0] in "LNPSM" and not _VARIES.match(ch)
        for ch in text
    )


def unusable_characters(text: str) -> str | None:
    """Why `text` cannot be stored, or None if it can.

    Postgres stores no NUL, and a lone surrogate is not a character.
    """
    if "\x00" in text:
        return "must not contain the NUL character"
    if not text.isascii() and any("\ud800" <= ch <= "\udfff" for ch in text):
        return "must not contain lone surrogates"
    return None
