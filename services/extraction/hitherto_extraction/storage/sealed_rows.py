"""Opens sealed values of rows with their user's key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hitherto_shared.encryption.failures import BrokenSeal, SealBroken
from hitherto_shared.encryption.needed import KeyNeeded
from hitherto_shared.encryption.sealed import UserKey


def opened(key: UserKey | None, sealed: bytes, place: Sequence[str]) -> dict[str, Any]:
    """The opened `sealed`.

    Raises:
        KeyNeeded: There is no key to open it.
        SealBroken: It was sealed with another key, or changed.
    """
    if key is None:
        raise KeyNeeded
    try:
        return key.open(sealed, place)
    except BrokenSeal:
        raise SealBroken from None


def opened_bytes(key: UserKey, sealed: bytes, place: Sequence[str]) -> bytes:
    """The opened bytes of `sealed`, such as a vector's.

    Raises:
        SealBroken: They were sealed with another key, or changed.
    """
    try:
        return key.open_bytes(sealed, place)
    except BrokenSeal:
        raise SealBroken from None
