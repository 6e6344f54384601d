"""Limits the bytes of requests in memory, whatever callers send.

The length of a body is known only on arrival, and gRPC buffers it until then. Each call therefore
reserves the room of the longest body before any of its own is read, and afterwards keeps the actual
size until the call ends. A call without room waits a moment: short bodies release theirs at once.
"""

from __future__ import annotations

import asyncio
from typing import Self

from hitherto_shared.rpc.slots import overloaded
from hitherto_shared.shares import Owner, Turns

MAX_REQUEST_BYTES = 4 * 1024 * 1024
"""Maximum size of one request."""
MAX_BODY_BYTES = 5 * 1024 * 1024
"""The limit of gRPC, higher so that requests slightly too large get our own error, with a
reason."""
MAX_REPLY_BYTES = 64 * 1024 * 1024
"""Maximum size of one reply, which clients of ours accept too."""
WAIT_SECONDS = 1.0
"""Longest wait for room, in seconds."""

_FULL = {
    "person": (
        "the running requests of this user's own credential have reached the limit of their bytes "
        "(HITHERTO_USER_SHARE of the tenant's)",
        "user_share",
    ),
    "tenant": (
        "the running requests of this tenant have reached the limit of their bytes "
        "(HITHERTO_TENANT_SHARE of HITHERTO_MAX_BODY_BYTES)",
        "tenant_share",
    ),
    "all": (
        "the running requests have reached the limit of their bytes (HITHERTO_MAX_BODY_BYTES)",
        "max_body_bytes",
    ),
}
"""What is said of whom there is no room for, and the name of the limit."""


class Body:
    """The room of one call's body, released on leaving the context."""

    def __init__(self, turns: Turns, owner: Owner) -> None:
        """`turns` are at the room of all bodies, a place being that of the longest one."""
        self._turns = turns
        self._owner = owner
        self._bytes = 0

    def __enter__(self) -> Self:
        """Nothing is held yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Give back what is held."""
        self.holds(0)

    async def room(self, seconds: float = WAIT_SECONDS) -> None:
        """Reserve room for a body that may arrive; raises Exhausted if there is none."""
        if not self._turns.taken_at_once(self._owner):
            try:
                async with asyncio.timeout(seconds):
                    await self._turns.take(self._owner)
            except TimeoutError:
                why, limit = _FULL[self._turns.lacking(self._owner) or "all"]
                raise overloaded(why, limit=limit) from None
        self._bytes = MAX_BODY_BYTES

    def holds(self, size: int) -> None:
        """Reduce the room to the body that arrived."""
        if size != self._bytes:
            self._turns.give_back(self._owner, self._bytes - size)
            self._bytes = size
