"""Builds the verification of tokens from settings, and refuses invalid ones at start-up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path

from hitherto_shared.auth.claims import Expected
from hitherto_shared.auth.key_ring import KeyRing
from hitherto_shared.auth.key_set import PUBLIC_KEY_ALGORITHMS
from hitherto_shared.auth.key_source import VARIABLE, KeyFile, key_source
from hitherto_shared.auth.web_tokens import ALGORITHMS, SECRET_ALGORITHM, WebTokenAuthentication
from hitherto_shared.private_file import NotPrivate, require_private

logger = logging.getLogger("hitherto.auth")

MIN_SECRET_BYTES = 32
_MAX_SECRET_BYTES = 4096


def check_token_settings(
    *,
    issuer: str | None,
    audience: str | None,
    tenant_claim: str,
    algorithms: str | None,
    has_keys: bool,
    has_secret: bool,
) -> tuple[str, ...]:
    """The accepted algorithms for HITHERTO_AUTH=jwt.

    Args:
        issuer: The `iss` of every token.
        audience: What every `aud` must name.
        tenant_claim: The claim that names the tenant.
        algorithms: Names separated by commas or spaces; None or empty for all that can be used.
        has_keys: Whether a key set is configured.
        has_secret: Whether a file with a secret is configured.

    Raises:
        ValueError: A setting is missing or contradicts another; the message names the variable.
    """
    for variable, value in (
        ("HITHERTO_JWT_ISSUER", issuer),
        ("HITHERTO_JWT_AUDIENCE", audience),
        ("HITHERTO_JWT_TENANT_CLAIM", tenant_claim),
    ):
        if not (value or "").strip():
            raise ValueError(
                f"HITHERTO_AUTH=jwt needs {variable}: without it, tokens issued for other "
                "services would be accepted"
            )
    possible = (*(PUBLIC_KEY_ALGORITHMS if has_keys else ()), *([SECRET_ALGORITHM] * has_secret))
    if not possible:
        raise ValueError(
            f"HITHERTO_AUTH=jwt needs {VARIABLE}, the path or https address of the issuer's key "
            "set (or, for development, HITHERTO_JWT_SECRET_FILE)"
        )
    named = tuple((algorithms or "").replace(",", " ").split())
    if not named:
        return possible
    if not set(named) <= set(ALGORITHMS):
        raise ValueError(f"HITHERTO_JWT_ALGORITHMS may name {', '.join(ALGORITHMS)} only")
    if not set(named) <= set(possible):
        raise ValueError(
            f"HITHERTO_JWT_ALGORITHMS: {SECRET_ALGORITHM} needs HITHERTO_JWT_SECRET_FILE, the "
            f"others need {VARIABLE}"
        )
    if has_secret and SECRET_ALGORITHM not in named:
        raise ValueError(
            f"HITHERTO_JWT_SECRET_FILE is set but HITHERTO_JWT_ALGORITHMS leaves out "
            f"{SECRET_ALGORITHM}: remove one of the two settings"
        )
    return named


@asynccontextmanager
async def web_token_authentication(
    expected: Expected, algorithms: Collection[str], *, place: str | None, secret_file: Path | None
) -> AsyncIterator[WebTokenAuthentication]:
    """Verification by the key set at `place`, refreshed until the context is left.

    An unusable file ends the start-up. An address may be unreachable for a while: calls are refused
    until its keys have been read.

    Raises:
        ValueError: The file, the address or the secret is unusable; the message names the variable.
    """
    secret = None
    if SECRET_ALGORITHM in algorithms and secret_file is not None:
        secret = await asyncio.to_thread(_read_secret, secret_file)
        logger.warning(
            "the secret in HITHERTO_JWT_SECRET_FILE may sign tokens: every verifier can also sign "
            "them, which suits development or a single team only"
        )
    if not set(algorithms) & set(PUBLIC_KEY_ALGORITHMS) or place is None:
        yield WebTokenAuthentication(expected, algorithms, secret=secret)
        return
    source = key_source(place)
    ring = KeyRing(source)
    try:
        why = await ring.start()
        if why is not None and isinstance(source, KeyFile):
            raise ValueError(f"{VARIABLE} names no usable key set: {why}")
        yield WebTokenAuthentication(expected, algorithms, keys=ring, secret=secret)
    finally:
        await ring.stop()


def _read_secret(path: Path) -> bytes:
    try:
        require_private(path)
        with path.open("rb") as file:
            secret = file.read(_MAX_SECRET_BYTES + 1).strip()
    except NotPrivate as error:
        raise NotPrivate(f"HITHERTO_JWT_SECRET_FILE: {error}") from None
    except OSError as error:
        raise ValueError(
            f"HITHERTO_JWT_SECRET_FILE cannot be read: {error.strerror or 'I/O error'}"
        ) from None
    if not MIN_SECRET_BYTES <= len(secret) <= _MAX_SECRET_BYTES:
        raise ValueError(
            f"HITHERTO_JWT_SECRET_FILE must hold {MIN_SECRET_BYTES} to {_MAX_SECRET_BYTES} bytes "
            "of random data: create it with `openssl rand -hex 32`"
        )
    if secret.startswith((b"-----BEGIN", b"ssh-", b"ecdsa-")):
        raise ValueError(
            f"HITHERTO_JWT_SECRET_FILE holds a key in PEM or SSH form, which may be public: "
            f"public keys belong in {VARIABLE}, and `openssl rand -hex 32` creates a secret"
        )
    return secret
