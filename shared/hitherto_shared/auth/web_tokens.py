"""JSON Web Tokens (RFC 7519) as credentials: first the signature, then the claims.

The algorithm of a token selects a key that serves this algorithm and no other. Every invalid token
gets the same answer; the log gives the reason, and nothing of the token.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import time
from collections.abc import Callable, Collection
from typing import Any

import jwt

from hitherto_shared.auth.claims import Expected, TokenRefused, principal_of
from hitherto_shared.auth.key_ring import KeyRing
from hitherto_shared.auth.key_set import PUBLIC_KEY_ALGORITHMS, VerifyingKey
from hitherto_shared.auth.principal import Principal
from hitherto_shared.errors import NotAuthenticated

SECRET_ALGORITHM = "HS256"
ALGORITHMS = (*PUBLIC_KEY_ALGORITHMS, SECRET_ALGORITHM)
"""All configurable algorithms; anything else, `none` above all, is not."""

MAX_TOKEN_CHARS = 8192
_MAX_KID_CHARS = 256
# Stricter than the library, which ignores characters that are not base64url.
_COMPACT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")

_TO_DEVELOPERS = (
    "a valid credential is required: send metadata `authorization: Bearer <token>`, once, with a "
    "JWT of this installation's issuer and audience that is valid now, lives for at most an hour "
    "and has exp, sub and the tenant; the service's log gives the reason for a refusal"
)


class WebTokenAuthentication:
    """Verifies tokens with the issuer's keys.

    `algorithms` are some of `ALGORITHMS`. Without `keys` only the secret of HS256 verifies, and
    without `secret` only public keys.
    """

    revocable = False

    def __init__(
        self,
        expected: Expected,
        algorithms: Collection[str],
        *,
        keys: KeyRing | None = None,
        secret: bytes | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._expected = expected
        self._algorithms = frozenset(algorithms) & frozenset(ALGORITHMS)
        self._keys = keys
        self._secret = secret
        self._now = now
        self._signatures = jwt.PyJWS(algorithms=sorted(self._algorithms))

    async def authenticate(self, authorization: str | None) -> Principal:
        """The caller of `Bearer <token>`; raises NotAuthenticated without a valid one."""
        try:
            return await self._principal(authorization)
        except TokenRefused as refused:
            raise NotAuthenticated(_TO_DEVELOPERS, why=refused.why) from None

    async def _principal(self, authorization: str | None) -> Principal:
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer":
            raise TokenRefused("there is no bearer token")
        token = token.strip(" ")
        if len(token) > MAX_TOKEN_CHARS:
            raise TokenRefused(f"it has more than {MAX_TOKEN_CHARS} characters")
        if not _COMPACT.fullmatch(token):
            raise TokenRefused("it is not three parts in base64url")
        algorithm, kid = self._header(token)
        key = await self._key(algorithm, kid)
        if key is None:
            raise TokenRefused("no key is known for its kid and algorithm")
        try:
            verified = self._signatures.decode_complete(token, key, [algorithm])
        except jwt.PyJWTError:
            raise TokenRefused("the signature is not by that key") from None
        return principal_of(_object(verified["payload"]), self._expected, self._now())

    def _header(self, token: str) -> tuple[str, str | None]:
        header = _object(_decoded(token.partition(".")[0]))
        algorithm, kid = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in self._algorithms:
            raise TokenRefused("its algorithm is not one of HITHERTO_JWT_ALGORITHMS")
        if "crit" in header or "b64" in header:
            # Extensions that change the meaning of the signature, none of which is supported.
            raise TokenRefused("its header asks for an extension")
        if kid is not None and not (isinstance(kid, str) and 0 < len(kid) <= _MAX_KID_CHARS):
            raise TokenRefused("its kid is no text of ordinary length")
        return algorithm, kid

    async def _key(self, algorithm: str, kid: str | None) -> VerifyingKey | None:
        if algorithm == SECRET_ALGORITHM:
            return self._secret
        return await self._keys.find(algorithm, kid) if self._keys is not None else None


def _decoded(part: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except (binascii.Error, ValueError):
        raise TokenRefused("it is not three parts in base64url") from None


def _object(text: bytes) -> dict[str, Any]:
    """The JSON object in `text`, in which every name occurs once."""
    try:
        found = json.loads(text.decode(), object_pairs_hook=_unique, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise TokenRefused("its parts are not JSON") from None
    if not isinstance(found, dict):
        raise TokenRefused("its parts are not JSON objects")
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        # Readers differ in which of the two they take.
        raise TokenRefused("it contains a name twice")
    return found


def _no_number(name: str) -> float:
    raise ValueError(name)
