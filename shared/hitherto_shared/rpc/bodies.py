"""How many bytes of requests are held at once, so that memory is bounded whatever callers send.

How long a body is is known only once it is there, and gRPC holds it while it comes. So each call
has the room of the longest one before anything of its body is read, and keeps from then on what the
body took, until the call ends. Who finds no room waits a moment: short bodies give theirs back at
once.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from hitherto_shared.rpc.slots import overloaded

MAX_REQUEST_BYTES = 4 * 1024 * 1024
"""Of one request."""
MAX_BODY_BYTES = 5 * 1024 * 1024
"""What gRPC takes, so that whoever sends a little too much is told by us, with a reason."""
WAIT_SECONDS = 1.0
"""How long a call waits for room."""


class Body:
    """The room that the body of one call has; left, it is given back."""

    def __init__(self, bodies: Bodies, tenant_id: str) -> None:
        self._bodies = bodies
        self._tenant_id = tenant_id
        self._bytes = 0

    def __enter__(self) -> Self:
        """Nothing is held yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Give back what is held."""
        self.holds(0)

    async def room(self, seconds: float = WAIT_SECONDS) -> None:
        """Have room for a body that may come.

        Args:
            seconds: How long to wait for it.

        Raises:
            Exhausted: There was none.
        """
        await self._bodies.wait(self._tenant_id, seconds)
        self._bytes = MAX_BODY_BYTES

    def holds(self, size: int) -> None:
        """Keep no more than the body that came has."""
        if size != self._bytes:
            self._bodies.give_back(self._tenant_id, self._bytes - size)
            self._bytes = size


class Bodies:
    """The room of all bodies together, of which no tenant has more than its share."""

    def __init__(self, most: int, share: float) -> None:
        """All of it is free.

        Args:
            most: Bytes; room for one body at least.
            share: The part of it that one tenant may have, likewise.
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
        """Take the room of the longest body, or raise Exhausted."""
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
        """Let others have some of this tenant's bytes, whoever waits longest first."""
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
                "the requests of this tenant that are in hand have as many bytes as they may "
                "(HITHERTO_TENANT_SHARE of HITHERTO_MAX_BODY_BYTES)",
                limit="tenant_share",
            )
        return overloaded(
            "the requests in hand have as many bytes as they may (HITHERTO_MAX_BODY_BYTES)",
            limit="max_body_bytes",
        )
