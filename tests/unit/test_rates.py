"""Token buckets of tenants and people: what passes, what waits, and that memory is bounded."""

from __future__ import annotations

import time

import pytest

from hitherto_shared.errors import Exhausted
from hitherto_shared.metrics import REGISTRY
from hitherto_shared.rpc.rates import BURST_SECONDS, MAX_KEYS, Buckets, Limits, Meter
from tests.clock import Clock

ANA = ("a", "ana")


def test_a_burst_passes_and_then_the_rate() -> None:
    clock = Clock()
    buckets = Buckets("user_reads_per_second", 5, monotonic=clock)
    passed = 0
    for _ in range(300):
        clock.now += 0.1
        if not buckets.wait(ANA):
            buckets.take(ANA, 1)
            passed += 1
    # Thirty seconds at five, and the burst.
    assert passed == pytest.approx(30 * 5 + BURST_SECONDS * 5, abs=1)


def test_a_rate_below_one_in_a_burst_still_lets_one_pass() -> None:
    clock = Clock()
    buckets = Buckets("user_reads_per_second", 0.01, monotonic=clock)
    assert buckets.wait(ANA) == 0.0
    buckets.take(ANA, 1)
    assert buckets.wait(ANA) == pytest.approx(100)


def test_no_debt_lasts_longer_than_a_burst() -> None:
    clock = Clock()
    buckets = Buckets("user_read_bytes_per_second", 1_000, monotonic=clock)
    buckets.take(ANA, 1e12)
    assert buckets.wait(ANA) <= BURST_SECONDS + 0.01


def test_zero_is_no_limit_and_remembers_nobody() -> None:
    buckets = Buckets("user_reads_per_second", 0)
    buckets.take(ANA, 1e9)
    assert (buckets.wait(ANA), len(buckets)) == (0.0, 0)


def test_whoever_has_overdrawn_stays_known_among_any_number_of_others() -> None:
    clock = Clock()
    buckets = Buckets("user_writes_per_second", 10, monotonic=clock)
    for _ in range(200):
        buckets.take(ANA, 1)
    for number in range(5 * MAX_KEYS):
        buckets.take(("a", str(number)), 1)
        assert len(buckets) <= MAX_KEYS
    assert buckets.wait(ANA) > 0
    clock.now += 60
    buckets.take(("a", "new"), 1)
    assert buckets.wait(ANA) == 0.0


def limits(**rates: float) -> Limits:
    return Limits(
        *(
            Buckets(name, rates.get(name, 0))
            for name in ("tenant_calls", "tenant_bytes", "user_calls", "user_bytes")
        )
    )


def spend(meter: Meter, *users: str, size: int = 0) -> str | None:
    """One call; which limit refuses it."""
    try:
        meter.begin()
        meter.request(users, size)
    except Exhausted as error:
        limited = error.reason == "RATE_LIMITED" and error.retry_after is not None
        return error.metadata["limit"] if limited else error.reason
    return None


def test_people_are_counted_by_credential_or_by_request() -> None:
    of = limits(user_calls=1)
    for _ in range(int(BURST_SECONDS)):
        assert spend(Meter(of, "a", None), "ana") is None
    assert spend(Meter(of, "a", None), "ana") == "user_calls"
    assert spend(Meter(of, "a", None), "bo", "ana") == "user_calls"
    assert spend(Meter(of, "a", None), "bo") is None
    assert spend(Meter(of, "a", None)) is None
    # The same person by a credential of her own; another tenant's is somebody else.
    assert spend(Meter(of, "a", "ana"), "bo") == "user_calls"
    assert spend(Meter(of, "b", "ana"), "ana") is None
    # Whom she names is not counted.
    own = limits(user_calls=1)
    assert spend(Meter(own, "a", "ana"), "bo") is None
    assert len(own.user_calls) == 1


def test_only_ids_are_remembered_and_so_many_of_a_request() -> None:
    of = limits(user_calls=1)
    assert spend(Meter(of, "a", None), "x" * 1_000_000) is None
    assert [len(key[1]) for key in of.user_calls._full_at] == [256]
    assert spend(Meter(of, "a", None), *map(str, range(5_000))) is None
    assert len(of.user_calls) == 1_001


def test_bytes_are_shared_among_those_whom_a_request_names() -> None:
    of = limits(user_bytes=100)
    assert spend(Meter(of, "a", None), "ana", "bo", size=1_500) is None
    assert spend(Meter(of, "a", None), "ana") is None
    assert spend(Meter(of, "a", None), "ana", size=500) is None
    assert spend(Meter(of, "a", None), "ana") == "user_bytes"
    assert spend(Meter(of, "a", None), "bo") is None


@pytest.mark.parametrize("credential", [None, "ana"])
@pytest.mark.parametrize("limit", ["tenant_calls", "user_calls", "tenant_bytes", "user_bytes"])
async def test_each_item_of_a_stream_counts_as_a_call_of_its_tenant_and_user(
    limit: str, credential: str | None
) -> None:
    """Once they have used up the burst, the next call is refused, whoever makes it."""
    clock = Clock()
    names = ("tenant_calls", "tenant_bytes", "user_calls", "user_bytes")
    of = Limits(*(Buckets(name, 2.0 if name == limit else 0, monotonic=clock) for name in names))
    meter = Meter(of, "a", credential)
    for _ in range(int(2 * BURST_SECONDS)):
        await meter.item(["ana"], 1)
    assert spend(Meter(of, "a", credential), "ana") == limit
    assert spend(Meter(of, "b", credential), "ana") is None
    # Others of the tenant are refused by the limits of the tenant only.
    assert spend(Meter(of, "a", None), "bo") == (limit if limit.startswith("tenant") else None)


async def test_items_of_a_stream_wait_and_what_is_limited_is_counted() -> None:
    def counted(effect: str) -> float:
        labels = {"limit": "tenant_calls", "effect": effect, "tenant": ""}
        return REGISTRY.get_sample_value("hitherto_rate_limits_total", labels) or 0.0

    refused, delayed = counted("refused"), counted("delayed")
    meter = Meter(limits(tenant_calls=50), "a", None)
    began = time.monotonic()
    for _ in range(int(50 * BURST_SECONDS) + 20):
        await meter.item(["ana"], 1)
    assert time.monotonic() - began > 0.3
    assert (counted("refused"), counted("delayed") > delayed) == (refused, True)
    assert spend(meter) == "tenant_calls"
    assert counted("refused") == refused + 1
