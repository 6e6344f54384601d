"""One spelling per text: NFC at the border, and the folded form used for comparisons."""

from __future__ import annotations

import re
import unicodedata

_SPACE = re.compile(r"\s+")
_NOT_LABEL = re.compile(r"[^\w]+")
# Letters, marks and symbols that are drawn as nothing (Unicode: default ignorable, and the blank
# of Braille).
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_VARIES = re.compile("[\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")


def nfc(text: str) -> str:
    """`text` in Unicode normal form C, so that composed and decomposed letters are equal."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def fold(text: str) -> str:
    """`text` without case and diacritics ("Hà Nội" and "ha noi" are equal), spaces collapsed.

    The Vietnamese đ has no decomposition in Unicode and is mapped to d by hand.
    """
    lowered = text.casefold()
    if not lowered.isascii():
        decomposed = unicodedata.normalize("NFD", lowered.replace("đ", "d"))
        lowered = unicodedata.normalize(
            "NFC", "".join(ch for ch in decomposed if not unicodedata.combining(ch))
        )
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
