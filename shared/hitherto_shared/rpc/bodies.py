"""Limits the bytes of requests in memory, whatever callers send.

The length of a body is known only on arrival, and gRPC buffers it until then. Each call therefore
reserves the room of the longest body before any of its own is read, and afterwards keeps the actual
size until the call ends. A call without room waits a moment: short bodies release theirs at once.
"""

from __future__ import annotations

import asyncio
from typing import Self

from hitherto_shared.rpc.slots import overloaded
from hitherto_shared.shares import Owner, Shares, Turns

MAX_REQUEST_BYTES = 4 * 1024 * 1024
"""Maximum size of one request."""
MAX_BODY_BYTES = 5 * 1024 * 1024
"""The limit of gRPC, higher so that requests slightly too large get our own error, with a
reason."""
MAX_REPLY_BYTES = 64 * 1024 * 1024
"""Maximum size of one reply, which clients of ours accept too."""
WAIT_SECONDS = 1.0
"""Longest wait for room, in seconds."""


class Body:
    """The room of one call's body, released on leaving the context."""

    def __init__(self, bodies: Bodies, owner: Owner) -> None:
        self._bodies = bodies
        self._owner = owner
        self._bytes = 0

    def __enter__(self) -> Self:
        """Nothing is held yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Give back what is held."""
        self.holds(0)

    async def room(self, seconds: float = WAIT_SECONDS) -> None:
        """Reserve room for a body that may arrive.

        Raises:
            Exhausted: There was none.
        """
        if not self._bodies.taken_at_once(self._owner):
            await self._bodies.wait(self._owner, seconds)
        self._bytes = MAX_BODY_BYTES

    def holds(self, size: int) -> None:
        """Reduce the room to the body that arrived."""
        if size != self._bytes:
            self._bodies.give_back(self._owner, self._bytes - size)
            self._bytes = size


class Bodies:
    """The room of all bodies together, of which each tenant and each person has a share at most."""

    def __init__(self, shares: Shares) -> None:
        """All of it is free; everybody may have the bytes of one body."""
        self._shares = shares
        self._turns = Turns(shares, MAX_BODY_BYTES)
        self.taken_at_once = self._turns.taken_at_once
        self.give_back = self._turns.give_back

    def body(self, owner: Owner) -> Body:
        """The body of a call of this owner."""
        return Body(self, owner)

    async def wait(self, owner: Owner, seconds: float) -> None:
        """Reserve the room of the longest body, or raise Exhausted."""
        try:
            async with asyncio.timeout(seconds):
                await self._turns.take(owner)
        except TimeoutError:
            raise self._full(owner) from None

    def _full(self, owner: Owner) -> Exception:
        match self._shares.lacking(owner, MAX_BODY_BYTES):
            case "person":
                return overloaded(
                    "the running requests of this user's own credential have reached the limit of "
                    "their bytes (HITHERTO_USER_SHARE of the tenant's)",
                    limit="user_share",
                )
            case "tenant":
                return overloaded(
                    "the running requests of this tenant have reached the limit of their bytes "
                    "(HITHERTO_TENANT_SHARE of HITHERTO_MAX_BODY_BYTES)",
                    limit="tenant_share",
                )
        return overloaded(
            "the running requests have reached the limit of their bytes (HITHERTO_MAX_BODY_BYTES)",
            limit="max_body_bytes",
        )
