"""An identity provider in miniature: key pairs, their public key set, and tokens good or bad."""

from __future__ import annotations

import base64
import functools
import json
import time
from dataclasses import dataclass, field
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

ISSUER = "https://id.example/"
AUDIENCE = "hitherto.example"

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


def part(value: object) -> str:
    """One part of a token: JSON (or the given bytes) in base64url."""
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


@functools.cache
def _private_key(algorithm: str, number: int) -> PrivateKey:
    """Making RSA keys takes long, so that those of one number are made once."""
    del number
    if algorithm == "RS256":
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)
    if algorithm == "ES256":
        return ec.generate_private_key(ec.SECP256R1())
    return ed25519.Ed25519PrivateKey.generate()


@dataclass(frozen=True)
class KeyPair:
    """A key of the provider; pairs that differ in `number` are different keys."""

    kid: str | None = "k1"
    algorithm: str = "ES256"
    number: int = 1

    @property
    def private(self) -> Any:
        return _private_key(self.algorithm, self.number)

    def public_jwk(self, **changed: object) -> dict[str, Any]:
        """The entry of the key set; a value of None takes a member away."""
        public = self.private.public_key()
        kinds: dict[str, Any] = {"RS256": RSAAlgorithm, "ES256": ECAlgorithm, "EdDSA": OKPAlgorithm}
        entry = kinds[self.algorithm].to_jwk(public, as_dict=True)
        entry |= {"kid": self.kid, "use": "sig", "alg": self.algorithm} | changed
        return {name: value for name, value in entry.items() if value is not None}


def key_set(*pairs: KeyPair) -> bytes:
    """The text of a key set with the public halves."""
    return json.dumps({"keys": [pair.public_jwk() for pair in pairs]}).encode()


def claims(**changed: object) -> dict[str, Any]:
    """Claims of a good token for ana of tenant a, half an hour long; None takes a claim away."""
    now = int(time.time())
    found: dict[str, object] = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "ana",
        "tenant": "a",
        "scope": "openid read write",
        "iat": now,
        "exp": now + 1800,
    } | changed
    return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True)
class TokenIssuer:
    """Signs with one key."""

    pair: KeyPair = field(default_factory=KeyPair)

    def sign(
        self, payload: dict[str, Any] | bytes, header: dict[str, Any] | bytes | None = None
    ) -> str:
        """A token with exactly this payload and header, signed by the key's own algorithm."""
        if header is None:
            header = {"alg": self.pair.algorithm, "typ": "JWT", "kid": self.pair.kid}
            header = {name: value for name, value in header.items() if value is not None}
        text = f"{part(header)}.{part(payload)}"
        signer = jwt.get_algorithm_by_name(self.pair.algorithm)
        return f"{text}.{part(signer.sign(text.encode(), self.pair.private))}"

    def token(self, **changed: object) -> str:
        """A good token but for the claims that are changed."""
        return self.sign(claims(**changed))
