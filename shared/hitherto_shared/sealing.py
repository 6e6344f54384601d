"""Opaque tokens that a caller can neither read, change nor pass to another.

AES-256-GCM with a key derived per purpose from the service's secret. What the token is bound to
(tenant, user, request) is authenticated data, so that a token does not open elsewhere.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from hitherto_shared.private_file import create_once, open_private

_NONCE = 12
_JSON = json.JSONEncoder(separators=(",", ":")).encode


class BrokenToken(Exception):
    """The token was not created by us, for this purpose, for this caller."""


class Sealer:
    """Seals and opens tokens of one purpose, such as `page` or `consistency`."""

    def __init__(self, secret: bytes, purpose: str) -> None:
        key = HKDF(SHA256(), length=32, salt=None, info=f"hitherto/{purpose}".encode())
        self._cipher = AESGCM(key.derive(secret))

    def seal(self, payload: Mapping[str, Any], bound_to: Sequence[str]) -> str:
        """The token for `payload`, valid only with the same `bound_to`."""
        return _spelling(self.seal_bytes(_JSON(payload).encode(), bound_to))

    def open(self, token: str, bound_to: Sequence[str]) -> dict[str, Any]:
        """The payload of `token`.

        Raises:
            BrokenToken: Malformed, tampered with, spelt otherwise than we do, or bound to something
                else.
        """
        try:
            sealed = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
            # Base64 has many spellings of the same bytes.
            if _spelling(sealed) != token:
                raise BrokenToken
        except (binascii.Error, ValueError):
            raise BrokenToken from None
        payload: dict[str, Any] = json.loads(self.open_bytes(sealed, bound_to))
        return payload

    def seal_bytes(self, plain: bytes, bound_to: Sequence[str]) -> bytes:
        """Bytes, sealed so that they open only with the same `bound_to`."""
        nonce = os.urandom(_NONCE)
        return nonce + self._cipher.encrypt(nonce, plain, _binding(bound_to))

    def open_bytes(self, sealed: bytes, bound_to: Sequence[str]) -> bytes:
        """Open what `seal_bytes` returned; raises BrokenToken for anything else."""
        try:
            return self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], _binding(bound_to))
        except (ValueError, InvalidTag):
            raise BrokenToken from None


def _spelling(sealed: bytes) -> str:
    """The only text that is a token of these bytes."""
    return base64.urlsafe_b64encode(sealed).decode().rstrip("=")


def _binding(parts: Sequence[str]) -> bytes:
    return json.dumps(list(parts)).encode()


def load_secret(path: Path) -> bytes:
    """The 32-byte secret in `path`, created there on first use (mode 0600).

    Replicas of both services must share the file: a token sealed by one is opened by another.

    Raises:
        ValueError: The file has other contents, or other users may read it.
    """
    create_once(path, os.urandom(32).hex().encode() + b"\n")
    with open_private(path) as file:
        content = file.read()
    try:
        secret = bytes.fromhex(content.decode("ascii").strip())
    except (ValueError, UnicodeDecodeError):
        secret = b""
    if len(secret) != 32:
        raise ValueError(
            f"{path} does not hold a secret of 64 hexadecimal digits: put one there "
            "(`openssl rand -hex 32`), or remove the file to have one created"
        )
    return secret
