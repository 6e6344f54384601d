"""Reads a stream ahead while earlier items are written, to prepare items in groups.

Memory is bounded by a number of items: once that many wait, the caller has to wait.
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
    """The items of a stream in order, each with the result of its preparation.

    Close it (`aclosing`) to end the reading.

    Args:
        requests: The stream.
        read: Converts a request to an item. It must not raise.
        prepare: Prepares a batch: the items that arrived while the last batch was in progress.
        most: Maximum items of a batch, and of waiting items.

    Raises:
        Exception: The error that ended the stream, after all items before it.
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
