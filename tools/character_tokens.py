"""Writes what single characters cost in tokens, for the estimate that needs no vocabulary.

    python -m tools.character_tokens

For every character of the Basic Multilingual Plane: the larger of its token counts in o200k_base
and cl100k_base, one byte each, compressed. Needs the extra `tokens`.
"""

from __future__ import annotations

import unicodedata
import zlib

import splintr

from hitherto_retrieval.render.tokens import CHARACTER_TOKENS, ENCODINGS

_UNKNOWN = 3
"""What a character costs that has no meaning yet: its UTF-8 bytes."""


def character_tokens() -> bytes:
    """The table, indexed by code point."""
    encodings = [splintr.Tokenizer.from_pretrained(name) for name in ENCODINGS]
    costs = bytearray([_UNKNOWN] * 0x10000)
    for code in range(0x10000):
        if unicodedata.category(chr(code)) not in {"Cn", "Cs", "Co"}:
            costs[code] = max(len(each.encode_ordinary(chr(code))) for each in encodings)
    return bytes(costs)


if __name__ == "__main__":
    CHARACTER_TOKENS.write_bytes(zlib.compress(character_tokens(), level=9))
