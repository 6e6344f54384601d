"""One spelling per text: NFC at the border, and the folded form used for comparisons."""

from __future__ import annotations

import re
import unicodedata
from itertools import groupby
from typing import Literal

_SPACE = re.compile(r"\s+")
_NOT_LABEL = re.compile(r"[^\w]+")
# Letters, marks and symbols that are drawn as nothing (Unicode: default ignorable, and the blank
# of Braille).
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_VARIES = re.compile("[\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
# All marks are among what this finds, the two of half-width Japanese as well; other signs too.
_MARKS = re.compile(r"(?:[^\w\s\x00-\x7f]|[\uff9e\uff9f]){32,}")
_FEW = 64
"""Signs that take no time in any order."""
_DECOMPOSED: dict[str, Literal["NFD", "NFKD"]] = {
    "NFC": "NFD",
    "NFD": "NFD",
    "NFKC": "NFKD",
    "NFKD": "NFKD",
}


def nfc(text: str) -> str:
    """`text` in Unicode normal form C, so that composed and decomposed letters are equal."""
    return normalized("NFC", text)


def normalized(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
    """`text` in a normal form, in linear time.

    `unicodedata` puts the marks of a letter into their order by insertion, in quadratic time: a
    letter with 32,000 marks holds the whole process for a second. Long runs are put into order
    before.
    """
    if text.isascii():
        return text
    if len(text) > _FEW:
        text = _MARKS.sub(lambda run: _in_order(_DECOMPOSED[form], run[0]), text)
    return unicodedata.normalize(form, text)


def _in_order(form: Literal["NFD", "NFKD"], run: str) -> str:
    """Signs decomposed, and the marks on each in canonical order."""
    signs = "".join(unicodedata.normalize(form, sign) for sign in run)
    return "".join(
        "".join(sorted(group, key=unicodedata.combining) if marks else group)
        for marks, group in groupby(signs, key=lambda sign: unicodedata.combining(sign) != 0)
    )


def fold(text: str) -> str:
    """`text` without case and diacritics ("Hà Nội" and "ha noi" are equal), spaces collapsed.

    The Vietnamese đ has no decomposition in Unicode and is mapped to d by hand.
    """
    lowered = text.casefold()
    if not lowered.isascii():
        decomposed = normalized("NFD", lowered.replace("đ", "d"))
        lowered = nfc("".join(ch for ch in decomposed if not unicodedata.combining(ch)))
    return _SPACE.sub(" ", lowered).strip()


def tag_key(text: str) -> str:
    """`text` as tags are kept: lower_snake_case, empty if it has no letter and no digit."""
    return _NOT_LABEL.sub("_", nfc(text).lower()).strip("_")


def has_visible(text: str) -> bool:
    """Whether anything of `text` can be seen: blanks, format characters and fillers cannot."""
    if text.isascii():
        return any("!" <= ch <= "~" for ch in text)
    return any(
        ch not in _UNSEEN and unicodedata.category(ch)[0] in "LNPSM" and not _VARIES.match(ch)
        for ch in text
    )


def unusable_characters(text: str) -> str | None:
    """Why `text` cannot be stored, or None if it can.

    Postgres stores no NUL, and a lone surrogate is no character at all.
    """
    if "\x00" in text:
        return "must not contain the NUL character"
    if not text.isascii() and any("\ud800" <= ch <= "\udfff" for ch in text):
        return "must not contain lone surrogates"
    return None
