"""Authenticates the caller by the metadata of a call."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from hitherto_shared.auth.api_keys import find_principal, split_key
from hitherto_shared.auth.principal import ANONYMOUS, Principal
from hitherto_shared.database.pool import Connection, Reads
from hitherto_shared.errors import Exhausted, NotAuthenticated

CACHE_SECONDS = 10.0
"""Time for which a found key is cached: a revoked one stops working within this time."""
_CACHE_SIZE = 10_000
_LOOKUP_SECONDS = 5.0
_NEW_AT_ONCE = 8
"""Number of concurrent look-ups of new keys, so that a caller with invented ones does not take the
database's connections from others."""
_NEW_WAITING = 256


class Authenticator(Protocol):
    """Converts the value of the `authorization` metadata to a caller."""

    revocable: bool
    """Whether a credential may end, or permit less, before its time."""

    async def authenticate(self, authorization: str | None) -> Principal:
        """The caller.

        Raises:
            NotAuthenticated: There is no valid credential.
        """
        ...


class NoAuthentication:
    """Every caller is the anonymous caller of the default tenant. Loopback only."""

    revocable = False

    async def authenticate(self, authorization: str | None) -> Principal:
        """The anonymous caller, whatever was sent."""
        del authorization
        return ANONYMOUS


class ApiKeyAuthentication:
    """Looks keys up in the database and caches found ones for a few seconds."""

    revocable = True

    def __init__(self, database: Reads, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._monotonic = monotonic
        self._known: dict[bytes, tuple[float, Principal]] = {}
        self._new = asyncio.Semaphore(_NEW_AT_ONCE)
        self._waiting = 0

    async def authenticate(self, authorization: str | None) -> Principal:
        """The caller of `Bearer mk_…`.

        Raises:
            NotAuthenticated: There is no valid key.
            Exhausted: Too many new keys wait to be looked up.
        """
        scheme, _, key = (authorization or "").partition(" ")
        if scheme.lower() != "bearer":
            raise NotAuthenticated
        key = key.strip()
        # The key itself is never stored, not even in memory.
        digest = hashlib.sha256(key.encode()).digest()
        remembered = self._known.get(digest)
        if remembered is not None and remembered[0] > self._monotonic():
            return remembered[1]
        if split_key(key) is None:
            raise NotAuthenticated
        if remembered is not None:
            return await self._look_up(key, digest)
        if self._waiting >= _NEW_WAITING:
            raise Exhausted(
                "too many unknown keys are waiting to be looked up; try again in a moment",
                reason="OVERLOADED",
                retry_after=1.0,
            )
        self._waiting += 1
        try:
            async with self._new:
                return await self._look_up(key, digest)
        finally:
            self._waiting -= 1

    async def _look_up(self, key: str, digest: bytes) -> Principal:
        def find(connection: Connection) -> Awaitable[Principal | None]:
            return find_principal(connection, key)

        principal = await self._database.run(find, timeout=_LOOKUP_SECONDS, repeatable=True)
        if principal is None:
            self._known.pop(digest, None)
            raise NotAuthenticated
        if len(self._known) >= _CACHE_SIZE:
            self._known.clear()
        self._known[digest] = (self._monotonic() + CACHE_SECONDS, principal)
        return principal
