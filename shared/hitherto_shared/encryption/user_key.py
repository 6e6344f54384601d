"""Seals values of a row with the user's data key: AES-256-GCM.

The tenant, the user and the place of the row are authenticated, so that a value copied to another
row or user does not open. A sealed value is one byte for the format, 12 bytes of nonce, the
ciphertext and its tag of 16 bytes. In rows whose words change, the version under which it was
sealed follows the first byte, in four bytes that are authenticated too: readers compare it with the
row's version (`sealed_of_memory`, `sealed_at`), so that a restored earlier value is detected.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from hitherto_shared.encryption.failures import DecryptionFailed

KEY_BYTES = 32
OVERHEAD_BYTES = 1 + 12 + 16
"""By how many bytes a sealed value without a version is longer than its contents."""

_FORMAT = b"\x01"
_VERSIONED = b"\x02"
_NONCE = 12
_VERSION = 4
_JSON = json.JSONEncoder().encode


class UserKey:
    """The opened data key of one user; it seals and opens, and never reveals itself.

    `key_id` distinguishes it from an earlier or later key of the same user.
    """

    def __init__(self, key: bytes, tenant_id: str, user_id: str, key_id: str) -> None:
        self._cipher = AESGCM(key)
        self.tenant_id = tenant_id
        self.user_id = user_id
        self.key_id = key_id

    def __repr__(self) -> str:
        return f"UserKey(key_id={self.key_id!r})"

    def seal(self, values: Mapping[str, Any], place: Sequence[str], *, version: int = 0) -> bytes:
        """A JSON value, sealed for the row at `place` (see `rows`).

        `version` is that of the row, from 1; 0: the row never changes, or its place names the
        version.
        """
        text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
        # A lone surrogate is not UTF-8, and yet JSON may contain one.
        return self.seal_bytes(text.encode("utf-8", "surrogatepass"), place, version=version)

    def open(self, sealed: bytes, place: Sequence[str]) -> dict[str, Any]:
        """Open what `seal` returned.

        Raises:
            DecryptionFailed: It was changed, or sealed for another row or user or with another key.
        """
        text = self.open_bytes(sealed, place).decode("utf-8", "surrogatepass")
        values: dict[str, Any] = json.loads(text)
        return values

    def seal_bytes(self, plain: bytes, place: Sequence[str], *, version: int = 0) -> bytes:
        """Bytes, such as a vector's, sealed for the row at `place` as `seal` does it."""
        nonce = os.urandom(_NONCE)
        head = _VERSIONED + version.to_bytes(_VERSION, "big") if version else _FORMAT
        return head + nonce + self._cipher.encrypt(nonce, plain, self._binding(head, place))

    def open_bytes(self, sealed: bytes, place: Sequence[str]) -> bytes:
        """Open what `seal_bytes` returned; raises as `open`."""
        # Drivers also return memoryviews.
        sealed = bytes(sealed)
        length = {_FORMAT: 1, _VERSIONED: 1 + _VERSION}.get(sealed[:1])
        if length is None or len(sealed) < length + OVERHEAD_BYTES - 1:
            raise DecryptionFailed("a sealed value has a format that this version does not know")
        head, nonce, text = sealed[:length], sealed[length:][:_NONCE], sealed[length + _NONCE :]
        try:
            return self._cipher.decrypt(nonce, text, self._binding(head, place))
        except InvalidTag:
            raise DecryptionFailed(
                "a sealed value was changed, or belongs to another row, user or key"
            ) from None

    def _binding(self, head: bytes, place: Sequence[str]) -> bytes:
        # As JSON, because a separator could also occur in the texts.
        return head + _JSON([self.tenant_id, self.user_id, *place]).encode()


def version_of(sealed: bytes) -> int:
    """The version in a sealed value, 0 if none; opening detects a forged one."""
    if sealed[:1] != _VERSIONED:
        return 0
    return int.from_bytes(sealed[1 : 1 + _VERSION], "big")
