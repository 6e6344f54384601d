"""Sealing what a row holds with the key of its user.

AES-256-GCM. The tenant, the user and the place of the row are authenticated with it, so that a
value that was copied to another row or user does not open. A sealed value is one byte that names
the format, 12 bytes of nonce, the ciphertext and its tag of 16 bytes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from hitherto_shared.encryption.failures import BrokenSeal

KEY_BYTES = 32
OVERHEAD_BYTES = 1 + 12 + 16
"""By how much a sealed value is longer than what it holds."""

_FORMAT = b"\x01"
_NONCE = 12
_JSON = json.JSONEncoder().encode


class UserKey:
    """The open key of one user; it seals and opens, and never shows itself.

    Attributes:
        tenant_id: Whose user.
        user_id: The user.
        key_id: Tells this key from an earlier or later one of the same user.
    """

    def __init__(self, key: bytes, tenant_id: str, user_id: str, key_id: str) -> None:
        self._cipher = AESGCM(key)
        self.tenant_id = tenant_id
        self.user_id = user_id
        self.key_id = key_id

    def __repr__(self) -> str:
        return f"UserKey(key_id={self.key_id!r})"

    def seal(self, values: Mapping[str, Any], place: Sequence[str]) -> bytes:
        """What JSON can say, sealed for the row at `place` (see `places`)."""
        text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
        # Half a surrogate pair is no UTF-8 and yet a text that JSON may carry.
        return self.seal_bytes(text.encode("utf-8", "surrogatepass"), place)

    def open(self, sealed: bytes, place: Sequence[str]) -> dict[str, Any]:
        """What `seal` was given.

        Raises:
            BrokenSeal: It was changed, or sealed for another row or user or with another key.
        """
        text = self.open_bytes(sealed, place).decode("utf-8", "surrogatepass")
        values: dict[str, Any] = json.loads(text)
        return values

    def seal_bytes(self, plain: bytes, place: Sequence[str]) -> bytes:
        """Bytes, such as a vector's, sealed for the row at `place`."""
        nonce = os.urandom(_NONCE)
        return _FORMAT + nonce + self._cipher.encrypt(nonce, plain, self._binding(place))

    def open_bytes(self, sealed: bytes, place: Sequence[str]) -> bytes:
        """What `seal_bytes` was given.

        Raises:
            BrokenSeal: It was changed, or sealed for another row or user or with another key.
        """
        # Drivers hand out memoryviews too.
        sealed = bytes(sealed)
        if len(sealed) < OVERHEAD_BYTES or sealed[:1] != _FORMAT:
            raise BrokenSeal("a sealed value has a form that this version does not know")
        nonce, text = sealed[1 : 1 + _NONCE], sealed[1 + _NONCE :]
        try:
            return self._cipher.decrypt(nonce, text, self._binding(place))
        except InvalidTag:
            raise BrokenSeal(
                "a sealed value was changed, or belongs to another row, user or key"
            ) from None

    def _binding(self, place: Sequence[str]) -> bytes:
        # As JSON, because texts joined by any sign could also be others.
        return _FORMAT + _JSON([self.tenant_id, self.user_id, *place]).encode()
