"""One spelling per text: NFC at the border, and the folded form used for comparisons."""

from __future__ import annotations

import re
import unicodedata

_SPACE = re.compile(r"\s+")


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


def unusable_characters(text: str) -> str | None:
    """Why `text` cannot be stored, or None if it can.

    Postgres stores no NUL, and a lone surrogate is no character at all.
    """
    if "\x00" in text:
        return "must not contain the NUL character"
    if not text.isascii() and any("\ud800" <= ch <= "\udfff" for ch in text):
        return "must not contain lone surrogates"
    return None
