"""Limits concurrent calls: one slot for each; without one a call is refused, not queued.

A call takes its slot once its caller is admitted, so that nobody without a credential can take one,
and no tenant and no person has more than its share. Health checks need no credential: they have
slots of their own, few for each connection.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hitherto_shared.errors import Exhausted
from hitherto_shared.shares import Owner, Shares

HEALTH_CALLS_OF_A_CONNECTION = 8
"""Concurrent health checks and watches of one connection."""
HEALTH_CALLS = 256
"""Concurrent health watches of all connections. Checks are not counted, because they end by
themselves."""
HEALTH_CALLS_OF_A_HOST = HEALTH_CALLS // 2
"""Of those, the most of all connections from one address."""
_RETRY_SECONDS = 1.0


class CallSlots:
    """Slots of calls, of which each tenant has a share at most, and each person in it."""

    def __init__(self, shares: Shares) -> None:
        """All are free."""
        self._shares = shares

    @contextmanager
    def place(self, owner: Owner) -> Iterator[None]:
        """The slot of a call of this owner, released on leaving the context.

        Raises:
            Exhausted: All are taken, or all that the tenant or the person may have.
        """
        match self._shares.lacking(owner):
            case "all":
                raise overloaded(
                    "this process has reached its limit of concurrent calls",
                    limit="max_concurrent_rpcs",
                )
            case "tenant":
                raise overloaded(
                    "this process has reached its limit of concurrent calls for this tenant: "
                    f"{self._shares.most_of_tenant} (HITHERTO_TENANT_SHARE of "
                    "HITHERTO_MAX_CONCURRENT_RPCS)",
                    limit="tenant_share",
                )
            case "person":
                raise overloaded(
                    "this process has reached its limit of concurrent calls for this user's own "
                    f"credential: {self._shares.most_of_person} (HITHERTO_USER_SHARE of the "
                    "tenant's)",
                    limit="user_share",
                )
        self._shares.take(owner)
        try:
            yield
        finally:
            self._shares.give_back(owner)


class HealthSlots:
    """Slots of health checks, counted per connection."""

    def __init__(self) -> None:
        self._of_peer: dict[str, int] = {}
        self._of_host: dict[str, int] = {}
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
        host = peer.rpartition(":")[0]
        of_host = self._of_host.get(host, 0)
        if watch and (
            self._watches >= HEALTH_CALLS or (limited and of_host >= HEALTH_CALLS_OF_A_HOST)
        ):
            raise overloaded(
                "the limit of open health watches is reached; Check is still answered",
                limit="health_watches",
            )
        self._of_peer[peer] = self._of_peer.get(peer, 0) + 1
        self._watches += watch
        self._of_host[host] = of_host + watch
        try:
            yield
        finally:
            self._watches -= watch
            _count_down(self._of_peer, peer)
            _count_down(self._of_host, host, watch)


def _count_down(counts: dict[str, int], key: str, by: int = 1) -> None:
    left = counts.pop(key, 0) - by
    if left > 0:
        counts[key] = left


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
