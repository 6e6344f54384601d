"""Converts the claims of a token to a caller, after its signature was verified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from hitherto_shared.auth.principal import CAPABILITIES, MAX_TENANT, SCOPES, Principal
from hitherto_shared.errors import InvalidRequest
from hitherto_shared.validation import MAX_ID, Checks

LEEWAY_SECONDS = 30
"""Permitted difference between the clocks of this machine and the identity provider, in seconds."""
MAX_LIFETIME_SECONDS = 3600
"""Maximum lifetime in seconds, from `iat` to `exp`, or from now if there is no `iat`. A token
cannot be revoked; it expires."""
DEFAULT_TENANT_CLAIM = "tenant"
USER_SCOPE_CLAIM = "hitherto_user_scope"
DEPARTMENTS_CLAIM = "departments"
CAPABILITIES_CLAIM = "hitherto_capabilities"

MAX_DEPARTMENTS = 100
MAX_USERS = 100


class TokenRefused(Exception):
    """The token is not valid.

    Attributes:
        why: The reason for the log, in fixed words with nothing of the token.
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True, slots=True)
class Expected:
    """The required claims of every token: the exact `iss`, and what `aud` must be or contain."""

    issuer: str
    audience: str
    tenant_claim: str = DEFAULT_TENANT_CLAIM


def principal_of(claims: Mapping[str, Any], expected: Expected, now: float) -> Principal:
    """The caller that the claims describe.

    The signature of the token with these claims was verified. `now` is in seconds since the epoch.

    Raises:
        TokenRefused: A claim is missing, malformed or different from what is required.
    """
    _check_times(claims, now)
    if claims.get("iss") != expected.issuer:
        raise TokenRefused("iss is not HITHERTO_JWT_ISSUER")
    _check_audience(claims.get("aud"), expected.audience)
    subject = _name(claims, "sub", MAX_ID)
    tenant_id = _name(claims, expected.tenant_claim, MAX_TENANT)
    whose = claims.get(USER_SCOPE_CLAIM, "self")
    listed = None if whose in ("self", "any") else _users(whose)
    return Principal(
        tenant_id,
        f"jwt:{subject}",
        _scopes(claims),
        subject if whose == "self" else None,
        _departments(claims, bound=whose != "any"),
        _capabilities(claims),
        listed,
    )


def _users(given: Any) -> frozenset[str]:
    """The users that a token lists, normalised as in requests."""
    listed = _identifiers(given, MAX_USERS)
    if not listed:
        raise TokenRefused(
            f"{USER_SCOPE_CLAIM} is neither self nor any nor a list of 1 to {MAX_USERS} users"
        )
    return listed


def _identifiers(given: Any, most: int) -> frozenset[str] | None:
    """The identifiers in a list, up to a maximum number; None if it is not such a list."""
    if not isinstance(given, list) or len(given) > most:
        return None
    found = [_identifier(one, MAX_ID) if isinstance(one, str) else None for one in given]
    return None if None in found else frozenset(one for one in found if one is not None)


def _check_times(claims: Mapping[str, Any], now: float) -> None:
    expires = _moment(claims, "exp")
    issued = _moment(claims, "iat")
    begins = _moment(claims, "nbf")
    if expires is None:
        raise TokenRefused("exp is missing")
    if expires + LEEWAY_SECONDS <= now:
        raise TokenRefused("it has expired")
    if begins is not None and begins > now + LEEWAY_SECONDS:
        raise TokenRefused("nbf is in the future")
    if issued is not None and issued > now + LEEWAY_SECONDS:
        raise TokenRefused("iat is in the future")
    # Without iat, our clock replaces the provider's, with the permitted difference.
    since = issued if issued is not None else now + LEEWAY_SECONDS
    if expires - since > MAX_LIFETIME_SECONDS:
        raise TokenRefused(f"it lives longer than {MAX_LIFETIME_SECONDS} s")


def _moment(claims: Mapping[str, Any], name: str) -> float | None:
    """Seconds since the epoch.

    Only numbers are valid, although some libraries accept quoted digits.
    """
    value = claims.get(name)
    if value is None:
        return None
    try:
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise TokenRefused(f"{name} is not a number")
        return float(value)
    except OverflowError:
        raise TokenRefused(f"{name} is not a number") from None


def _check_audience(given: Any, ours: str) -> None:
    named = given if isinstance(given, list) else [given]
    if ours not in [one for one in named if isinstance(one, str)]:
        raise TokenRefused("aud does not name HITHERTO_JWT_AUDIENCE")


def _name(claims: Mapping[str, Any], claim: str, max_chars: int) -> str:
    """The identifier in a claim, normalised like identifiers in requests."""
    value = claims.get(claim)
    if not isinstance(value, str) or not value.strip():
        raise TokenRefused(f"{_described(claim)} is missing or no text")
    name = _identifier(value, max_chars)
    if name is None:
        raise TokenRefused(
            f"{_described(claim)} is no identifier of at most {max_chars} characters"
        )
    return name


def _identifier(value: str, max_chars: int) -> str | None:
    """The normalised identifier; None if it is not valid in a request."""
    checks = Checks()
    name = checks.identifier("", value, max_chars=max_chars)
    try:
        checks.done()
    except InvalidRequest:
        return None
    return name


def _described(claim: str) -> str:
    return "sub" if claim == "sub" else "the claim of HITHERTO_JWT_TENANT_CLAIM"


def _scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    """Our access scopes in the token; words of other systems are ignored."""
    granted = claims["scope"] if "scope" in claims else claims.get("scp", "")
    return _words("scope", granted) & SCOPES


def _capabilities(claims: Mapping[str, Any]) -> frozenset[str]:
    """Our capabilities in the token."""
    return _words(CAPABILITIES_CLAIM, claims.get(CAPABILITIES_CLAIM) or "") & CAPABILITIES


def _words(claim: str, granted: Any) -> frozenset[str]:
    words = granted.split(" ") if isinstance(granted, str) else granted
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise TokenRefused(f"{claim} is neither text nor a list of texts")
    return frozenset(words)


def _departments(claims: Mapping[str, Any], *, bound: bool) -> frozenset[str] | None:
    """The caller's departments; without the claim a user has none and a service is unrestricted.

    A claim that is present restricts, even if it is empty; a provider without departments may write
    null.
    """
    if DEPARTMENTS_CLAIM not in claims:
        return frozenset() if bound else None
    given = claims[DEPARTMENTS_CLAIM]
    named = _identifiers([] if given is None else given, MAX_DEPARTMENTS)
    if named is None:
        raise TokenRefused(f"{DEPARTMENTS_CLAIM} is no list of at most {MAX_DEPARTMENTS} names")
    return named
