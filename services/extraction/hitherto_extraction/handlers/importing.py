"""Bulk import: a stream of items, each accepted or refused independently, in bounded memory.

A stream may be read ahead while earlier items are written, to prepare items in groups. Once as many
wait as make a group, the caller has to wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from hitherto.v1 import item_error_pb2
from hitherto_shared.errors import (
    AlreadyExists,
    HithertoError,
    InvalidRequest,
    NotPermitted,
    WrongState,
)

MAX_ERRORS = 1_000
"""Maximum number of refused items with individual errors."""
MAX_VIOLATIONS = 8
"""Maximum number of violations reported per item, so that a reply full of errors stays within
clients' limits."""
MAX_IDS = 60_000
"""Maximum number of ids in a reply, for the same reason: the default limit of a gRPC client is 4
MiB."""

_ITS_OWN_FAULT = (InvalidRequest, WrongState, AlreadyExists, NotPermitted)
"""Errors of a single item. Any other error, such as an unreachable database, ends the stream."""

Item = TypeVar("Item")
Request = TypeVar("Request")
Prepared = TypeVar("Prepared")


@dataclass(slots=True)
class ImportOutcome:
    """The outcome of a stream's items."""

    accepted: int = 0
    rejected: int = 0
    errors: list[item_error_pb2.ItemError] = field(default_factory=list)


async def take_all(
    requests: AsyncIterator[Item], accept: Callable[[Item], Awaitable[None]]
) -> ImportOutcome:
    """Accept the items of a stream one after another.

    Raises:
        HithertoError: An error of more than one item; accepted items stay.
    """
    taken = ImportOutcome()
    index = -1
    async for request in requests:
        index += 1
        try:
            await accept(request)
        except _ITS_OWN_FAULT as error:
            taken.rejected += 1
            if len(taken.errors) < MAX_ERRORS:
                taken.errors.append(_item_error(index, error))
            continue
        taken.accepted += 1
    return taken


def _item_error(index: int, error: HithertoError) -> item_error_pb2.ItemError:
    code: tuple[int, str] = error.code.value
    message = item_error_pb2.ItemError(
        index=index, code=code[0], reason=error.reason, message=error.message
    )
    if isinstance(error, InvalidRequest):
        for violation in error.violations[:MAX_VIOLATIONS]:
            message.field_violations.add(field=violation.field, description=violation.description)
    return message


async def read_ahead(
    requests: AsyncIterator[Request],
    read: Callable[[Request], Item],
    prepare: Callable[[Sequence[Item]], Awaitable[Sequence[Prepared]]],
    *,
    most: int,
) -> AsyncGenerator[tuple[Item, Prepared], None]:
    """The items of a stream in order, each with the result of its preparation.

    Close it (`aclosing`) to end the reading.

    `read` must not raise. A batch for `prepare` is what arrived while the last one was in progress,
    at most `most` items; as many may wait.

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
