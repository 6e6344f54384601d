"""Text from messages of other packages, in a form that the services store."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MOST_BYTES = 60 * 1024
"""UTF-8 bytes of a message that is kept in one piece; the services take 64 KiB."""


def text_of(content: Any) -> str:
    """The text of a message's content: a string, or parts of which only those of text count."""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        return ""
    texts = (part if isinstance(part, str) else field(part, "text") for part in content)
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def field(item: Any, name: str) -> Any:
    """A field of a mapping or an object; None if it has none."""
    return item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)


def storable(text: str) -> str:
    """The text in NFC, without characters that no database stores."""
    text = text.replace("\x00", "").encode("utf-8", "replace").decode()
    return unicodedata.normalize("NFC", text)


def pieces(text: str, most: int = MOST_BYTES) -> Iterator[str]:
    """The storable text in pieces of at most `most` bytes; none of them is blank."""
    raw = storable(text).encode()
    start = 0
    while start < len(raw):
        end = min(start + most, len(raw))
        while end < len(raw) and raw[end] & 0xC0 == 0x80:
            end -= 1
        piece = raw[start:end].decode()
        if piece.strip():
            yield piece
        start = end


_BEGIN = re.compile(r"<<<hitherto:memory ([0-9A-Za-z]{8,64}): ")


def joined(instructions: str, block: str) -> str:
    """The instructions without any earlier block, and the block after them."""
    bare = without_blocks(instructions).rstrip()
    return f"{bare}\n\n{block}" if bare else block


def without_blocks(text: str) -> str:
    """The text without the blocks of memory in it, such as a reply's echo of its instructions."""
    kept: list[str] = []
    at = 0
    while (begin := _BEGIN.search(text, at)) is not None:
        end = f"<<<end hitherto:memory {begin[1]}>>>"
        found = text.find(end, begin.end())
        if found < 0:
            break
        kept.append(text[at : begin.start()])
        at = found + len(end)
    return "".join(kept) + text[at:]
