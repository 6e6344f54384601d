"""Bulk import: a stream of transcripts, each accepted or refused by itself, in bounded memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from recollect.v1 import extraction_service_pb2 as pb
from recollect.v1 import item_error_pb2
from recollect_extraction.intake import Accepted
from recollect_shared.consistency import Position
from recollect_shared.errors import (
    AlreadyExists,
    InvalidRequest,
    NotPermitted,
    RecollectError,
    TooLate,
    WrongState,
)

MAX_ERRORS = 1_000
"""Refused items that are told one by one."""
MAX_VIOLATIONS = 8
"""Bad fields told of one item, so that a reply full of errors stays within what clients accept."""
MAX_JOB_IDS = 60_000
"""Job ids in a reply, for the same reason: the default limit of a gRPC client is 4 MiB."""
IDLE_SECONDS = 300.0
"""A stream on which nothing comes for so long is ended."""

_ITS_OWN_FAULT = (InvalidRequest, WrongState, AlreadyExists, NotPermitted)
"""What concerns one item. Anything else, such as a database out of reach, ends the stream."""

Accept = Callable[[pb.StreamTranscriptsRequest], Awaitable[Accepted]]


async def import_all(
    requests: AsyncIterator[pb.StreamTranscriptsRequest], accept: Accept
) -> tuple[pb.StreamTranscriptsResponse, Position | None]:
    """Accept the transcripts of a stream one after another.

    Args:
        requests: The stream.
        accept: Stores one transcript durably.

    Returns:
        The reply without its token, and the moment that covers it; None if nothing was accepted.

    Raises:
        RecollectError: Something that concerns more than one item; what was accepted stays.
    """
    reply = pb.StreamTranscriptsResponse()
    position: Position | None = None
    index = -1
    while (request := await _next(requests)) is not None:
        index += 1
        try:
            accepted = await accept(request)
        except _ITS_OWN_FAULT as error:
            reply.rejected_count += 1
            if len(reply.errors) < MAX_ERRORS:
                reply.errors.append(_item_error(index, error))
            continue
        reply.accepted_count += 1
        position = accepted.position
        room = MAX_JOB_IDS - len(reply.job_ids)
        reply.job_ids.extend([str(job.job_id) for job in accepted.jobs][:room])
    return reply, position


async def _next(
    requests: AsyncIterator[pb.StreamTranscriptsRequest],
) -> pb.StreamTranscriptsRequest | None:
    try:
        async with asyncio.timeout(IDLE_SECONDS):
            return await anext(requests, None)
    except TimeoutError:
        raise TooLate(
            f"nothing came on the stream for {IDLE_SECONDS:.0f} seconds; what was accepted stays, "
            "start again with the rest",
            reason="DEADLINE_EXCEEDED",
        ) from None


def _item_error(index: int, error: RecollectError) -> item_error_pb2.ItemError:
    code: tuple[int, str] = error.code.value
    told = item_error_pb2.ItemError(
        index=index, code=code[0], reason=error.reason, message=error.message
    )
    if isinstance(error, InvalidRequest):
        for violation in error.violations[:MAX_VIOLATIONS]:
            told.field_violations.add(field=violation.field, description=violation.description)
    return told
