"""Reading a stream ahead: order, batches, bounds, ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

import pytest

from hitherto_extraction.handlers.importing import read_ahead


class Source:
    """A stream of numbers that knows how many were taken, and may break off."""

    def __init__(self, count: int, error: Exception | None = None) -> None:
        self.taken = 0
        self._count = count
        self._error = error

    async def __aiter__(self) -> AsyncIterator[int]:
        for n in range(self._count):
            self.taken += 1
            yield n
        if self._error is not None:
            raise self._error


class Preparing:
    """Doubles numbers, and keeps the sizes of the batches."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    async def __call__(self, items: Sequence[int]) -> list[int]:
        self.batches.append(len(items))
        await asyncio.sleep(0)
        return [2 * item for item in items]


async def test_items_come_in_order_with_what_was_prepared_for_them() -> None:
    for count in (0, 100):
        prepare = Preparing()
        async with aclosing(
            read_ahead(aiter(Source(count)), lambda n: n + 1, prepare, most=8)
        ) as items:
            found = [pair async for pair in items]
        assert found == [(n, 2 * n) for n in range(1, count + 1)]
        assert max(prepare.batches, default=0) <= 8


async def test_no_more_is_held_than_was_allowed() -> None:
    source = Source(1_000)
    async with aclosing(read_ahead(aiter(source), int, Preparing(), most=4)) as items:
        assert await anext(items) == (0, 0)
        for _ in range(50):
            await asyncio.sleep(0)
        # A batch in hand, as many that wait, and one that waits for room.
        assert source.taken <= 4 + 4 + 1


async def test_what_came_before_an_error_comes_before_it() -> None:
    source = Source(5, ValueError("broken"))
    found: list[int] = []

    async def read_all() -> None:
        async with aclosing(read_ahead(aiter(source), int, Preparing(), most=2)) as items:
            async for item, _ in items:
                found.append(item)

    with pytest.raises(ValueError, match="broken"):
        await read_all()
    assert found == [0, 1, 2, 3, 4]


async def test_leaving_early_ends_the_reading() -> None:
    async with aclosing(read_ahead(aiter(Source(1_000)), int, Preparing(), most=4)) as items:
        await anext(items)
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "read-ahead"]
