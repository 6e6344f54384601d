"""Opening what rows hold sealed, with the key of their user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hitherto_shared.encryption.failures import BrokenSeal, SealBroken
from hitherto_shared.encryption.needed import KeyNeeded
from hitherto_shared.encryption.sealed import UserKey


def opened(key: UserKey | None, sealed: bytes, place: Sequence[str]) -> dict[str, Any]:
    """What `sealed` holds.

    Raises:
        KeyNeeded: There is no key to open it with.
        SealBroken: The key is another than it was sealed with, or the value was changed.
    """
    if key is None:
        raise KeyNeeded
    try:
        return key.open(sealed, place)
    except BrokenSeal:
        raise SealBroken from None


def opened_bytes(key: UserKey, sealed: bytes, place: Sequence[str]) -> bytes:
    """The bytes, such as a vector's, that `sealed` holds.

    Raises:
        SealBroken: The key is another than they were sealed with, or the value was changed.
    """
    try:
        return key.open_bytes(sealed, place)
    except BrokenSeal:
        raise SealBroken from None
