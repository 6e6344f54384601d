"""Reads a stream ahead while earlier items are being written, to prepare items in groups.

What is held is bounded by number: once so many items wait, the caller has to.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

Request = TypeVar("Request")
Item = TypeVar("Item")
Prepared = TypeVar("Prepared")


async def read_ahead(
    requests: AsyncIterator[Request],
    read: Callable[[Request], Item],
    prepare: Callable[[Sequence[Item]], Awaitable[Sequence[Prepared]]],
    *,
    most: int,
) -> AsyncGenerator[tuple[Item, Prepared], None]:
    """The items of a stream in order, each with what was prepared for it.

    Close it (`aclosing`) to end the reading.

    Args:
        requests: The stream.
        read: Makes an item of a request. It must not raise.
        prepare: Prepares a batch of items: what has come by the time the last batch was done with.
        most: Items of a batch, and items that may wait.

    Raises:
        Exception: What the stream ended with, after all items that came before it.
    """
    waiting: asyncio.Queue[Item | None] = asyncio.Queue(maxsize=most)

    async def pump() -> None:
        try:
            async for request in requests:
                await waiting.put(read(request))
        except Exception:
            await waiting.put(None)
            raise
        await waiting.put(None)

    reading = asyncio.create_task(pump(), name="read-ahead")
    try:
        ended = False
        while not ended:
            batch: list[Item] = []
            item = await waiting.get()
            while item is not None:
                batch.append(item)
                if len(batch) == most or waiting.empty():
                    break
                item = waiting.get_nowait()
            ended = item is None
            for pair in zip(batch, await prepare(batch), strict=True):
                yield pair
        await reading
    finally:
        reading.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await reading
