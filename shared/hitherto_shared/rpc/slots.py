"""Limits concurrent calls: one slot for each; without one a call is refused, not queued.

A call takes its slot once its caller is admitted, so that nobody without a credential can take one,
and no tenant has more than its share. Health checks need no credential: they have slots of their
own, few for each connection.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hitherto_shared.errors import Exhausted

HEALTH_CALLS_OF_A_CONNECTION = 8
"""Concurrent health checks and watches of one connection."""
HEALTH_CALLS = 256
"""Concurrent health watches of all connections. Checks are not counted, because they end by
themselves."""
_RETRY_SECONDS = 1.0


class CallSlots:
    """Slots of calls, of which each tenant has a share at most."""

    def __init__(self, number: int, share: float) -> None:
        """All are free.

        Args:
            number: The number of slots.
            share: The maximum share of one tenant, one slot at least.
        """
        self._free = number
        self._most_of_one = max(1, int(number * share))
        self._of_tenant: dict[str, int] = {}

    @contextmanager
    def place(self, tenant_id: str) -> Iterator[None]:
        """The slot of a call of this tenant, released on leaving the context.

        Raises:
            Exhausted: All are taken, or all that the tenant may have.
        """
        if self._free <= 0:
            raise overloaded(
                "this process has reached its limit of concurrent calls",
                limit="max_concurrent_rpcs",
            )
        taken = self._of_tenant.get(tenant_id, 0)
        if taken >= self._most_of_one:
            raise overloaded(
                "this process has reached its limit of concurrent calls for this tenant: "
                f"{self._most_of_one} (HITHERTO_TENANT_SHARE of HITHERTO_MAX_CONCURRENT_RPCS)",
                limit="tenant_share",
            )
        self._free -= 1
        self._of_tenant[tenant_id] = taken + 1
        try:
            yield
        finally:
            self._free += 1
            _count_down(self._of_tenant, tenant_id)


class HealthSlots:
    """Slots of health checks, counted per connection."""

    def __init__(self) -> None:
        self._of_peer: dict[str, int] = {}
        self._watches = 0

    @contextmanager
    def place(self, peer: str, *, watch: bool) -> Iterator[None]:
        """The slot of a call of `peer`, gRPC's name for the other end of a connection.

        Raises:
            Exhausted: This connection, or all together, have too many.
        """
        # All Unix socket clients share one name; whoever can open one is on this machine.
        limited = not peer.startswith("unix")
        if limited and self._of_peer.get(peer, 0) >= HEALTH_CALLS_OF_A_CONNECTION:
            raise overloaded(
                "this connection has reached its limit of open health checks",
                limit="health_calls_of_a_connection",
            )
        if watch and self._watches >= HEALTH_CALLS:
            raise overloaded(
                "the limit of open health watches is reached; Check is still answered",
                limit="health_watches",
            )
        self._of_peer[peer] = self._of_peer.get(peer, 0) + 1
        self._watches += watch
        try:
            yield
        finally:
            self._watches -= watch
            _count_down(self._of_peer, peer)


def _count_down(counts: dict[str, int], key: str) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


def overloaded(why: str, *, limit: str) -> Exhausted:
    """The error that there is no room for another call now.

    `limit` is the limit's name in the metadata.
    """
    return Exhausted(
        f"{why}; try again in a moment",
        reason="OVERLOADED",
        metadata={"limit": limit},
        retry_after=_RETRY_SECONDS,
    )
