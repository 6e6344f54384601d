"""Limits the bytes of requests in memory, whatever callers send.

The length of a body is known only on arrival, and gRPC buffers it until then. Each call therefore
reserves the room of the longest body before any of its own is read, and afterwards keeps the actual
size until the call ends. A call without room waits a moment: short bodies release theirs at once.
"""

from __future__ import annotations

import asyncio
from typing import Self

from hitherto_shared.rpc.slots import overloaded

MAX_REQUEST_BYTES = 4 * 1024 * 1024
"""Maximum size of one request."""
MAX_BODY_BYTES = 5 * 1024 * 1024
"""The limit of gRPC, higher so that requests slightly too large get our own error, with a
reason."""
WAIT_SECONDS = 1.0
"""Longest wait for room, in seconds."""


class Body:
    """The room of one call's body, released on leaving the context."""

    def __init__(self, bodies: Bodies, tenant_id: str) -> None:
        self._bodies = bodies
        self._tenant_id = tenant_id
        self._bytes = 0

    def __enter__(self) -> Self:
        """Nothing is held yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Give back what is held."""
        self.holds(0)

    async def room(self, seconds: float = WAIT_SECONDS) -> None:
        """Reserve room for a body that may arrive.

        Args:
            seconds: Longest wait.

        Raises:
            Exhausted: There was none.
        """
        await self._bodies.wait(self._tenant_id, seconds)
        self._bytes = MAX_BODY_BYTES

    def holds(self, size: int) -> None:
        """Reduce the room to the body that arrived."""
        if size != self._bytes:
            self._bodies.give_back(self._tenant_id, self._bytes - size)
            self._bytes = size


class Bodies:
    """The room of all bodies together, of which each tenant has a share at most."""

    def __init__(self, most: int, share: float) -> None:
        """All of it is free.

        Args:
            most: Bytes; room for one body at least.
            share: The maximum share of one tenant, also one body at least.
        """
        self._most = max(most, MAX_BODY_BYTES)
        self._most_of_one = max(int(most * share), MAX_BODY_BYTES)
        self._held = 0
        self._of_tenant: dict[str, int] = {}
        self._waiting: dict[asyncio.Future[None], str] = {}

    def body(self, tenant_id: str) -> Body:
        """The body of a call of this tenant."""
        return Body(self, tenant_id)

    async def wait(self, tenant_id: str, seconds: float) -> None:
        """Reserve the room of the longest body, or raise Exhausted."""
        if self._fits(tenant_id):
            self._take(tenant_id, MAX_BODY_BYTES)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[turn] = tenant_id
        try:
            async with asyncio.timeout(seconds):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.give_back(tenant_id, MAX_BODY_BYTES)
            if isinstance(error, TimeoutError):
                raise self._full(tenant_id) from None
            raise
        finally:
            self._waiting.pop(turn, None)

    def give_back(self, tenant_id: str, size: int) -> None:
        """Release some of this tenant's bytes to the longest waiting calls."""
        self._take(tenant_id, -size)
        for turn, waits in list(self._waiting.items()):
            if self._held + MAX_BODY_BYTES > self._most:
                return
            if not turn.done() and self._fits(waits):
                self._take(waits, MAX_BODY_BYTES)
                del self._waiting[turn]
                turn.set_result(None)

    def _fits(self, tenant_id: str) -> bool:
        held = self._of_tenant.get(tenant_id, 0)
        return (
            self._held + MAX_BODY_BYTES <= self._most and held + MAX_BODY_BYTES <= self._most_of_one
        )

    def _take(self, tenant_id: str, size: int) -> None:
        self._held += size
        left = self._of_tenant.get(tenant_id, 0) + size
        if left:
            self._of_tenant[tenant_id] = left
        else:
            self._of_tenant.pop(tenant_id, None)

    def _full(self, tenant_id: str) -> Exception:
        if self._of_tenant.get(tenant_id, 0) + MAX_BODY_BYTES > self._most_of_one:
            return overloaded(
                "the running requests of this tenant have reached the limit of their bytes "
                "(HITHERTO_TENANT_SHARE of HITHERTO_MAX_BODY_BYTES)",
                limit="tenant_share",
            )
        return overloaded(
            "the running requests have reached the limit of their bytes (HITHERTO_MAX_BODY_BYTES)",
            limit="max_body_bytes",
        )
