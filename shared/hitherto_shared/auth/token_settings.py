"""Builds the verification of tokens from settings; an unusable file ends the start-up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from hitherto_shared.auth.claims import Expected
from hitherto_shared.auth.key_ring import KeyRing
from hitherto_shared.auth.key_set import PUBLIC_KEY_ALGORITHMS
from hitherto_shared.auth.key_source import VARIABLE, KeyFile, key_source
from hitherto_shared.auth.web_tokens import SECRET_ALGORITHM, WebTokenAuthentication
from hitherto_shared.config import SharedSettings
from hitherto_shared.private_file import named_by, open_private

logger = logging.getLogger("hitherto.auth")

MIN_SECRET_BYTES = 32
_MAX_SECRET_BYTES = 4096


@asynccontextmanager
async def web_token_authentication(
    settings: SharedSettings,
) -> AsyncIterator[WebTokenAuthentication]:
    """Verification by the key set of the settings, refreshed until the context is left.

    An unusable file ends the start-up. An address may be unreachable for a while: calls are refused
    until its keys have been read.

    Raises:
        ValueError: The file, the address or the secret is unusable; the message names the variable.
    """
    expected = Expected(
        (settings.jwt_issuer or "").strip(),
        (settings.jwt_audience or "").strip(),
        settings.jwt_tenant_claim,
    )
    algorithms, place = settings.token_algorithms(), settings.jwt_jwks
    secret = None
    if SECRET_ALGORITHM in algorithms and settings.jwt_secret_file is not None:
        secret = await asyncio.to_thread(_read_secret, settings.jwt_secret_file)
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
    with named_by("HITHERTO_JWT_SECRET_FILE"), open_private(path) as file:
        secret = file.read(_MAX_SECRET_BYTES + 1).strip()
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
