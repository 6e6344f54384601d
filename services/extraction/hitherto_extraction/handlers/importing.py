"""Bulk import: a stream of items, each accepted or refused on its own, in bounded memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
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
"""Refused items that are told one by one."""
MAX_VIOLATIONS = 8
"""Bad fields told of one item, so that a reply full of errors stays within what clients accept."""
MAX_IDS = 60_000
"""Ids in a reply, for the same reason: the default limit of a gRPC client is 4 MiB."""

_ITS_OWN_FAULT = (InvalidRequest, WrongState, AlreadyExists, NotPermitted)
"""What concerns one item. Anything else, such as a database out of reach, ends the stream."""

Item = TypeVar("Item")


@dataclass(slots=True)
class Taken:
    """What became of the items of a stream."""

    accepted: int = 0
    rejected: int = 0
    errors: list[item_error_pb2.ItemError] = field(default_factory=list)


async def take_all(
    requests: AsyncIterator[Item], accept: Callable[[Item], Awaitable[None]]
) -> Taken:
    """Accept the items of a stream one after another.

    Args:
        requests: The stream.
        accept: Stores one item durably and notes what the reply will tell of it.

    Raises:
        HithertoError: Something that concerns more than one item; what was accepted stays.
    """
    taken = Taken()
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
    told = item_error_pb2.ItemError(
        index=index, code=code[0], reason=error.reason, message=error.message
    )
    if isinstance(error, InvalidRequest):
        for violation in error.violations[:MAX_VIOLATIONS]:
            told.field_violations.add(field=violation.field, description=violation.description)
    return told
