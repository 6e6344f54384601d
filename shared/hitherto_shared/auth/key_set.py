"""The public keys that verify tokens, read from a JSON Web Key Set (RFC 7517).

A key serves only one algorithm, determined by its type and never by a token: a public key thus
cannot be used as the secret of an HMAC.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWK

PUBLIC_KEY_ALGORITHMS = ("RS256", "ES256", "EdDSA")
"""The algorithms of the supported keys: RSA, the curve P-256, the curve Ed25519."""

MAX_BYTES = 256 * 1024
"""Maximum size of a key set; one of a large identity provider has a few thousand bytes."""
_MAX_KEYS = 100
_RSA_BITS = range(2048, 8193)

Key = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey
VerifyingKey = Key | bytes
"""A key that verifies signatures; bytes are the secret of HS256."""


class UnusableKeySet(ValueError):
    """It is not a key set; the message gives the reason and quotes nothing of it."""


class KeysUnreachable(Exception):
    """The key set is unavailable.

    The message gives the reason and quotes neither place nor content.
    """


@dataclass(frozen=True, slots=True)
class KeySet:
    """Keys by algorithm and id (None for a key without one).

    `passed_over` counts the skipped entries: of other types, too weak, or private.
    """

    keys: Mapping[tuple[str, str | None], Key]
    passed_over: int = 0

    def find(self, algorithm: str, kid: str | None) -> Key | None:
        """The key that a token names, if it is for this algorithm.

        A token without `kid` matches the only key of its algorithm, and none of several.
        """
        if kid is not None:
            return self.keys.get((algorithm, kid))
        fitting = [key for (of, _), key in self.keys.items() if of == algorithm]
        return fitting[0] if len(fitting) == 1 else None


def read_key_set(body: bytes) -> KeySet:
    """The usable keys in the text of a key set.

    Entries of other types are skipped, as RFC 7517 requires. So are private keys: whoever can read
    the set could sign with them.

    Raises:
        UnusableKeySet: It is too large, not JSON, or not shaped as a key set.
    """
    if len(body) > MAX_BYTES:
        raise UnusableKeySet(f"it has more than {MAX_BYTES} bytes")
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise UnusableKeySet("it is not JSON") from None
    entries = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise UnusableKeySet('it is not a JSON object with a list "keys"')
    if len(entries) > _MAX_KEYS:
        raise UnusableKeySet(f"it has more than {_MAX_KEYS} keys")
    return _collect(entries)


def _collect(entries: Iterable[Any]) -> KeySet:
    keys: dict[tuple[str, str | None], Key] = {}
    passed_over = 0
    for entry in entries:
        found = _read(entry) if isinstance(entry, dict) else None
        # With two keys of one name the result would depend on their order: the first counts.
        if found is None or found[0] in keys:
            passed_over += 1
        else:
            keys[found[0]] = found[1]
    return KeySet(keys, passed_over)


def _read(entry: dict[str, Any]) -> tuple[tuple[str, str | None], Key] | None:
    kid = entry.get("kid")
    operations = entry.get("key_ops", ["verify"])
    if (
        "d" in entry
        or not (kid is None or (isinstance(kid, str) and kid))
        or entry.get("use", "sig") != "sig"
        or not isinstance(operations, list)
        or "verify" not in operations
    ):
        return None
    try:
        # Without `alg`: the type of the key decides.
        found = PyJWK({name: value for name, value in entry.items() if name != "alg"})
    except Exception:
        # Whatever is wrong inside one entry, the others must stay usable.
        return None
    algorithm, key = found.algorithm_name, found.key
    if algorithm not in PUBLIC_KEY_ALGORITHMS or entry.get("alg", algorithm) != algorithm:
        return None
    if isinstance(key, RSAPublicKey) and key.key_size not in _RSA_BITS:
        return None
    return ((algorithm, kid), key) if isinstance(key, Key) else None
