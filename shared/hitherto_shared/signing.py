"""Publicly verifiable signatures: Ed25519 with the installation's key.

The key is in a PEM file (PKCS 8, not encrypted) that only the service may read. If none is
configured, one is created beside the embedded database; replicas must share it. `openssl pkey -in
FILE -pubout` prints the public half.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from hitherto_shared.private_file import create_once, open_private

_KEY_ID_DIGITS = 16


class BrokenSignature(Exception):
    """The signature is not that of this key over this payload."""


class Signer:
    """Signs with one private key, whose public half has 32 bytes.

    `key_id` is the first 16 hexadecimal digits of the SHA-256 of that half.
    """

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public_key = key.public_key().public_bytes_raw()
        self.key_id = key_id_of(self.public_key)

    def sign(self, payload: bytes) -> bytes:
        """The signature over `payload`, 64 bytes."""
        return self._key.sign(payload)


def key_id_of(public_key: bytes) -> str:
    """The id of the key with this public half."""
    return hashlib.sha256(public_key).hexdigest()[:_KEY_ID_DIGITS]


def verify(public_key: bytes, payload: bytes, signature: bytes) -> None:
    """Raise BrokenSignature if this key has not signed this payload."""
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, payload)
    except (InvalidSignature, ValueError):
        raise BrokenSignature from None


def read_public_key(path: Path) -> bytes:
    """The public key, 32 bytes, from a PEM file with it or with the private key.

    Raises:
        ValueError: The file has other contents.
        OSError: The file cannot be read.
    """
    text = path.read_bytes()
    try:
        private = serialization.load_pem_private_key(text, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        pass
    else:
        if isinstance(private, Ed25519PrivateKey):
            return private.public_key().public_bytes_raw()
    try:
        public = serialization.load_pem_public_key(text)
    except (ValueError, UnsupportedAlgorithm):
        public = None
    if not isinstance(public, Ed25519PublicKey):
        raise ValueError(
            f"{path} is not an Ed25519 key in PEM format: "
            "`openssl pkey -in SIGNING_KEY -pubout` prints the public half of a signing key"
        )
    return public.public_bytes_raw()


def load_signer(path: Path) -> Signer:
    """The signer with the key in `path`, which is created there on first use (mode 0600).

    Raises:
        ValueError: The file has other contents, or other users may read it.
        OSError: The file cannot be read, or created.
    """
    create_once(path, _new_key())
    with open_private(path) as file:
        content = file.read()
    try:
        key = serialization.load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError(
            f"{path} does not hold an Ed25519 private key in PEM form without a password: put one "
            "there (`openssl genpkey -algorithm ed25519`), or remove the file to have one created"
        )
    return Signer(key)


def _new_key() -> bytes:
    return Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
