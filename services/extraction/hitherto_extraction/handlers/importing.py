"""Bulk import: a stream of items, each accepted or refused independently, in bounded memory."""

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

    Args:
        requests: The stream.
        accept: Stores one item durably and adds it to the reply.

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
