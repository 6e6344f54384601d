"""Ids created by the server: UUIDv7 (RFC 9562), which sort by their time of creation."""

from __future__ import annotations

import os
import time
from uuid import UUID

_CANONICAL = 36
"""Characters of a UUID."""


def uuid7() -> UUID:
    """A new UUIDv7: 48 bits of Unix milliseconds, then 74 random bits."""
    milliseconds = time.time_ns() // 1_000_000
    value = (milliseconds & 0xFFFF_FFFF_FFFF) << 80 | int.from_bytes(os.urandom(10))
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return UUID(int=value)


def parse_uuid(text: str) -> UUID | None:
    """The id in `text`, or None if it is not a canonical UUID."""
    if len(text) != _CANONICAL:
        return None
    try:
        value = UUID(text)
    except ValueError:
        return None
    return value if str(value) == text.lower() else None
