"""The words, runs and signs of a text, in every script."""

from __future__ import annotations

import re
import unicodedata

UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f"  # Burmese
    "\u1780-\u17ff"  # Khmer
    "\u3040-\u30ff\u31f0-\u31ff"  # Kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\uac00-\ud7af"  # Hangul
    "\U00020000-\U0003ffff"  # rarer Han
)
# Vowel points and marks belong to their word, but are not word characters to `re`.
_MARKS = "".join(
    chr(code)
    for code in (*range(0x0300, 0x2000), *range(0xFE20, 0xFE30))
    if unicodedata.category(chr(code))[0] == "M" and not re.match(f"[{UNSPACED}]", chr(code))
)
_LETTER = rf"[^\W_{UNSPACED}]"
_LETTERS = rf"{_LETTER}+(?:[{_MARKS}]+{_LETTER}*)*"
TOKEN = re.compile(
    rf"(?P<run>[{UNSPACED}]+)"
    rf"|(?P<word>{_LETTERS}(?:['’]{_LETTERS})*)"
    r"|(?P<sign>[\U0001f1e6-\U0001f1ff]{2}"  # flags
    # Skin tones are left out: a plain thumb finds every thumb.
    r"|[\U0001f300-\U0001f3fa\U0001f400-\U0001faff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff])"
)
