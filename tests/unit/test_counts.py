"""Counts of several tenants wait, fail and are written in turn (D11, H6)."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import pytest

from hitherto_shared.database import counts
from hitherto_shared.database.counts import Counts
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.errors import TooLate

logger = logging.getLogger("test.counts")

Key = tuple[str, int]


class Store:
    """What is written, by tenant; some tenants cannot be written to.

    Attributes:
        written: All that was written.
        batches: The tenant and size of each batch that was written.
        failing: What a write of a tenant raises.
        meanwhile: Called at the beginning of each write.
    """

    def __init__(self) -> None:
        self.written: defaultdict[str, Counter[Key]] = defaultdict(Counter)
        self.batches: list[tuple[str, int]] = []
        self.failing: dict[str, Exception] = {}
        self.meanwhile: Callable[[str], None] = lambda tenant_id: None

    async def run(self, work: Callable[[Connection], Awaitable[Any]], *, timeout: float) -> None:
        await work(cast(Connection, None))

    async def write(self, _: Connection, tenant_id: str, batch: Mapping[Key, int]) -> None:
        self.meanwhile(tenant_id)
        if tenant_id in self.failing:
            raise self.failing[tenant_id]
        self.batches.append((tenant_id, len(batch)))
        self.written[tenant_id].update(batch)


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def counting(store: Store) -> Counts[Key]:
    return Counts(cast(Database, store), store.write, logger, "counts")


def keys(*numbers: int) -> list[Key]:
    return [("ana", number) for number in numbers]


async def test_each_tenant_is_written_for_itself_and_in_batches(
    store: Store, counting: Counts[Key]
) -> None:
    counting.add("a", keys(*range(1_500)))
    counting.add("b", keys(1, 1, 2))
    counting.add("a", keys(0))
    counting.add("c", [])
    await counting.flush()
    assert store.written["a"] == Counter(
        {**dict.fromkeys(keys(*range(1, 1_500)), 1), ("ana", 0): 2}
    )
    assert store.written["b"] == Counter({("ana", 1): 2, ("ana", 2): 1})
    assert sorted(store.batches) == [("a", 500), ("a", 1_000), ("b", 2)]
    await counting.flush()
    assert len(store.batches) == 3


async def test_a_tenant_that_cannot_be_written_holds_up_no_other_for_good(
    store: Store, counting: Counts[Key]
) -> None:
    store.failing["a"] = TooLate("locked", reason="DEADLINE_EXCEEDED")
    counting.add("a", keys(*range(1_500)))
    counting.add("b", keys(1))
    await counting.flush()
    await counting.flush()
    assert store.written["b"] == Counter(keys(1))
    assert not store.written["a"]
    store.failing.clear()
    await counting.flush()
    assert store.written["a"] == Counter(keys(*range(1_500)))


async def test_what_comes_during_a_write_is_counted_once(
    store: Store, counting: Counts[Key]
) -> None:
    """Also where the write fails, and both are written together the next time."""
    coming = [keys(1, 2), keys(2, 3)]

    def meanwhile(tenant_id: str) -> None:
        if coming:
            counting.add(tenant_id, coming.pop())

    store.meanwhile = meanwhile
    store.failing["a"] = TooLate("locked", reason="DEADLINE_EXCEEDED")
    counting.add("a", keys(1))
    await counting.flush()
    store.failing.clear()
    await counting.flush()
    assert store.written["a"] == Counter({("ana", 1): 2, ("ana", 2): 2, ("ana", 3): 1})


async def test_a_batch_that_is_being_written_is_not_lost_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class SlowStore(Store):
        """Its writes take as long as they are let."""

        begun, let = asyncio.Event(), asyncio.Event()

        async def write(self, _: Connection, tenant_id: str, batch: Mapping[Key, int]) -> None:
            self.begun.set()
            await self.let.wait()
            await super().write(_, tenant_id, batch)

    monkeypatch.setattr(counts, "FLUSH_SECONDS", 0.0)
    store = SlowStore()
    counting = Counts(cast(Database, store), store.write, logger, "counts")
    counting.add("a", keys(1))
    await counting.start()
    async with asyncio.timeout(30):
        await store.begun.wait()
        # One more comes in while the first is under way and the service is about to end.
        counting.add("a", keys(2))
        ending = asyncio.create_task(counting.stop())
        await asyncio.sleep(0)
        assert not ending.done()
        store.let.set()
        await ending
    assert store.written["a"] == Counter(keys(1, 2))


async def test_what_can_never_be_written_is_told_and_the_rest_goes_on(
    store: Store, counting: Counts[Key], caplog: pytest.LogCaptureFixture
) -> None:
    store.failing["a"] = KeyError("zzrow")
    counting.add("a", keys(1))
    counting.add("b", keys(2))
    await counting.flush()
    assert store.written["b"] == Counter(keys(2))
    assert "counts are lost: KeyError" in caplog.text
    assert "zzrow" not in caplog.text
    store.failing.clear()
    await counting.flush()
    assert not store.written["a"]


async def test_above_the_bound_new_ones_are_not_taken_and_known_ones_still_count(
    store: Store,
    counting: Counts[Key],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(counts, "_MAX_WAITING", 3)
    counting.add("a", keys(1, 2))
    counting.add("b", keys(1))
    assert not caplog.records
    counting.add("a", keys(2, 3))
    assert "the buffer is full" in caplog.text
    counting.add("c", keys(1))
    await counting.flush()
    assert store.written == {"a": Counter({("ana", 1): 1, ("ana", 2): 2}), "b": Counter(keys(1))}
    caplog.clear()
    counting.add("c", keys(1))
    await counting.flush()
    assert store.written["c"] == Counter(keys(1))
    assert not caplog.records
