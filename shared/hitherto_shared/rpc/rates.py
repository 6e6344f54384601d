"""Rate limits of a tenant, and of each of its users: token buckets on calls and on bytes.

A bucket is one number, the time at which it is full again, and a full one is not stored: memory is
bounded whatever the number of callers. Bytes are known only on arrival, so they may overdraw a
bucket, and the next calls wait. Every process counts for itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from hitherto_shared import metrics
from hitherto_shared.errors import Exhausted
from hitherto_shared.rpc.edge_settings import EdgeSettings
from hitherto_shared.validation import MAX_ID

BURST_SECONDS = 10.0
MAX_KEYS = 10_000
"""Maximum number of callers that one limit remembers."""

_MAX_PEOPLE = 1_000
"""Maximum per request; a request that names more is refused by its call."""

Key = tuple[str, ...]
"""A tenant, or a tenant and a user."""


class Buckets:
    """The buckets of one limit, one for each caller.

    `rate` is in calls or bytes a second; 0 for no limit.
    """

    def __init__(
        self, name: str, rate: float, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.name = name
        self.rate = rate
        self._monotonic = monotonic
        self._burst = max(BURST_SECONDS, 1 / rate) if rate else 0.0
        self._full_at: dict[Key, float] = {}

    def __len__(self) -> int:
        """The number of remembered callers."""
        return len(self._full_at)

    def wait(self, key: Key) -> float:
        """Seconds until this caller may make one more call; 0.0 if it may now."""
        if not self.rate or (full_at := self._full_at.get(key)) is None:
            return 0.0
        return max(0.0, full_at - self._monotonic() + 1 / self.rate - self._burst)

    def take(self, key: Key, amount: float) -> None:
        """Count a call or bytes. No debt takes longer to pay than a burst."""
        if not self.rate:
            return
        now = self._monotonic()
        full_at = max(now, self._full_at.get(key, now)) + amount / self.rate
        if key not in self._full_at and len(self._full_at) >= MAX_KEYS:
            self._forget(now)
        self._full_at[key] = min(full_at, now + 2 * self._burst)

    def _forget(self, now: float) -> None:
        """Drop the full ones and, if that is not enough, the half that is nearest to it."""
        self._full_at = {key: full_at for key, full_at in self._full_at.items() if full_at > now}
        if len(self._full_at) > MAX_KEYS // 2:
            emptiest = sorted(self._full_at.items(), key=lambda item: item[1], reverse=True)
            self._full_at = dict(emptiest[: MAX_KEYS // 2])


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one kind of calls: of those that only read, or of all others."""

    tenant_calls: Buckets
    tenant_bytes: Buckets
    user_calls: Buckets
    user_bytes: Buckets


def limits_of(settings: EdgeSettings) -> tuple[Limits, Limits]:
    """The limits of reads, and of all other calls."""

    def limits(calls: str) -> Limits:
        of_one = calls.removesuffix("s")
        names = (
            f"tenant_{calls}_per_second",
            f"tenant_{of_one}_bytes_per_second",
            f"user_{calls}_per_second",
            f"user_{of_one}_bytes_per_second",
        )
        return Limits(*(Buckets(name, getattr(settings, name)) for name in names))

    return limits("reads"), limits("writes")


class Meter:
    """Counts the calls and bytes of one call, and checks them against the limits.

    The user is the owner of the credential; for a service's credential, the users that the requests
    name.
    """

    __slots__ = ("_limits", "_people", "_personal", "_tenant")

    def __init__(self, limits: Limits, tenant_id: str, user_id: str | None) -> None:
        self._limits = limits
        self._tenant: Key = (tenant_id,)
        self._personal = user_id is not None
        self._people: list[Key] = [] if user_id is None else [(tenant_id, user_id)]

    def begin(self) -> None:
        """Count a call, as far as its users are known; raises Exhausted beyond a limit."""
        self._require(self._waits())
        self._limits.tenant_calls.take(self._tenant, 1)
        self._count_people()

    def request(self, users: Iterable[str], size: int) -> None:
        """Count the only request of a call that has begun; raises as `begin`."""
        if not self._personal:
            self._name(users)
            self._require(self._waits_of_people())
            self._count_people()
        self.count(size)

    async def item(self, users: Iterable[str], size: int) -> None:
        """Count a request of a stream, each as a call; waits while a limit is exceeded."""
        if not self._personal:
            self._name(users)
        delayed_by = ""
        # Other calls are counted meanwhile, so one wait may not be enough.
        while (longest := max(self._waits(), key=lambda wait: wait[0]))[0]:
            delayed_by = delayed_by or longest[1].name
            await asyncio.sleep(longest[0])
        if delayed_by:
            self._count_limit(delayed_by, "delayed")
        self._limits.tenant_calls.take(self._tenant, 1)
        self._count_people()
        self.count(size)

    def count(self, size: int) -> None:
        """Count received or sent bytes; several users have equal shares."""
        self._limits.tenant_bytes.take(self._tenant, size)
        for person in self._people:
            self._limits.user_bytes.take(person, size / len(self._people))

    def _count_people(self) -> None:
        for person in self._people:
            self._limits.user_calls.take(person, 1)

    def _name(self, users: Iterable[str]) -> None:
        # Anything longer than an id is refused later, and must not be remembered until then.
        named = islice((user_id[:MAX_ID] for user_id in users if user_id), _MAX_PEOPLE)
        self._people = [(*self._tenant, user_id) for user_id in named]

    def _require(self, waits: Iterable[tuple[float, Buckets]]) -> None:
        for seconds, buckets in waits:
            if seconds:
                self._count_limit(buckets.name, "refused")
                raise _limited(buckets, seconds)

    def _count_limit(self, limit: str, effect: str) -> None:
        metrics.RATE_LIMITS.labels(limit, effect, metrics.tenant_label(self._tenant[0])).inc()

    def _waits(self) -> Iterator[tuple[float, Buckets]]:
        for buckets in (self._limits.tenant_calls, self._limits.tenant_bytes):
            yield buckets.wait(self._tenant), buckets
        yield from self._waits_of_people()

    def _waits_of_people(self) -> Iterator[tuple[float, Buckets]]:
        for person in self._people:
            for buckets in (self._limits.user_calls, self._limits.user_bytes):
                yield buckets.wait(person), buckets


def _limited(buckets: Buckets, seconds: float) -> Exhausted:
    whose, what = ("this tenant", "this user")[buckets.name.startswith("user")], "calls"
    if "bytes" in buckets.name:
        what = "bytes"
    return Exhausted(
        f"too many {what} in too little time for {whose}: at most {buckets.rate:g} a second "
        f"(HITHERTO_{buckets.name.upper()}); try again later",
        reason="RATE_LIMITED",
        metadata={"limit": buckets.name, "limit_per_second": f"{buckets.rate:g}"},
        retry_after=max(seconds, 0.001),
    )
