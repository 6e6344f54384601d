"""Bulk imports: any number of items in bounded memory, with retries that duplicate nothing.

An import is cut into windows of a few items, each a stream of its own. Only a window is held, and
one that breaks off is sent again with the idempotency keys it had: what was taken already answers
as it did the first time.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc

from hitherto.v1 import conversation_pb2, item_error_pb2
from hitherto.v1 import extraction_service_pb2 as extraction_pb2
from hitherto.v1 import memory_service_pb2 as memory_pb2
from hitherto_client.calls import Endpoint, RetryPolicy, with_idempotency_key
from hitherto_client.errors import read_error

WINDOW_SECONDS = 120.0
"""How long one window may take by default, its retries and the wait for room included."""
MAX_ERRORS = 1_000
"""Refused items that a result names one by one."""
MAX_IDS = 60_000
"""Ids that a result holds, those of the first items; the counts cover all."""

_WINDOW_ITEMS = 100
_WINDOW_BYTES = 8 * 1024 * 1024
_MAX_ITEM_BYTES = 4 * 1024 * 1024 - 1024
"""What a service takes as one message, less some room for the key."""

Request = TypeVar(
    "Request", extraction_pb2.StreamTranscriptsRequest, memory_pb2.StreamMemoriesRequest
)


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of an import."""

    handled: int
    """Items that were accepted or refused."""
    accepted: int
    refused: int


def stream_transcripts(
    call: Any,
    transcripts: Iterable[conversation_pb2.Transcript],
    endpoint: Endpoint,
    retry: RetryPolicy,
    *,
    progress: Callable[[Progress], None] | None,
    timeout: float,
) -> extraction_pb2.StreamTranscriptsResponse:
    """Import transcripts; see HithertoClient.stream_transcripts.

    Args:
        call: The stub's StreamTranscripts.
        transcripts: What to import.
        endpoint: Where the service is, for errors.
        retry: How windows that broke off are repeated.
        progress: Called with the progress after every window.
        timeout: Seconds for each window.
    """
    total = extraction_pb2.StreamTranscriptsResponse()
    requests = (
        extraction_pb2.StreamTranscriptsRequest(
            transcript=transcript, idempotency_key=uuid.uuid4().hex
        )
        for transcript in transcripts
    )
    for window in _windows(requests):
        reply = _send(call, window.requests, endpoint, retry, timeout)
        total.accepted_count += reply.accepted_count
        total.job_ids.extend(reply.job_ids[: MAX_IDS - len(total.job_ids)])
        _settle(total, reply, window)
        if progress is not None:
            progress(_progress(total.accepted_count, total.rejected_count))
    return total


def stream_memories(
    call: Any,
    items: Iterable[memory_pb2.SaveMemoryRequest],
    endpoint: Endpoint,
    retry: RetryPolicy,
    *,
    progress: Callable[[Progress], None] | None,
    timeout: float,
) -> memory_pb2.StreamMemoriesResponse:
    """Import memories; see HithertoClient.stream_memories and `stream_transcripts`."""
    total = memory_pb2.StreamMemoriesResponse()
    requests = (memory_pb2.StreamMemoriesRequest(item=with_idempotency_key(item)) for item in items)
    for window in _windows(requests):
        reply = _send(call, window.requests, endpoint, retry, timeout)
        total.saved_count += reply.saved_count
        total.deduplicated_count += reply.deduplicated_count
        total.memory_ids.extend(reply.memory_ids[: MAX_IDS - len(total.memory_ids)])
        _settle(total, reply, window)
        if progress is not None:
            progress(_progress(total.saved_count, total.rejected_count))
    return total


@dataclass(slots=True)
class _Window:
    requests: list[Any]
    places: list[int]
    """The place of each request in the import."""
    refused: list[item_error_pb2.ItemError]
    """Items that no service would take, so that they are not sent."""


def _windows(requests: Iterator[Request]) -> Iterator[_Window]:
    window = _Window([], [], [])
    size = 0
    for place, request in enumerate(requests):
        item_size = request.ByteSize()
        if item_size > _MAX_ITEM_BYTES:
            window.refused.append(_too_large(place, item_size))
        else:
            window.requests.append(request)
            window.places.append(place)
            size += item_size
        if len(window.requests) + len(window.refused) >= _WINDOW_ITEMS or size >= _WINDOW_BYTES:
            yield window
            window, size = _Window([], [], []), 0
    if window.requests or window.refused:
        yield window


def _too_large(place: int, size: int) -> item_error_pb2.ItemError:
    return item_error_pb2.ItemError(
        index=place,
        code=grpc.StatusCode.RESOURCE_EXHAUSTED.value[0],
        reason="REQUEST_TOO_LARGE",
        message=f"the item has {size} bytes, and {_MAX_ITEM_BYTES} are the most: split it",
    )


def _send(
    call: Any, requests: list[Any], endpoint: Endpoint, retry: RetryPolicy, timeout: float
) -> Any:
    """Send one window until it is taken whole.

    Raises:
        HithertoCallError: It was not, within the time or the attempts.
    """
    deadline = time.monotonic() + timeout
    failures = 0
    while True:
        remaining = max(deadline - time.monotonic(), 0.001)
        try:
            return call(iter(requests), timeout=remaining)
        except grpc.RpcError as raised:
            error = read_error(raised, service=endpoint.service, address=endpoint.address)
            failures += 1
            wait = retry.wait_before_retry(error, failures, repeatable=True)
            if wait is None or time.monotonic() + wait >= deadline:
                raise error from raised
        time.sleep(wait)


def _settle(total: Any, reply: Any, window: _Window) -> None:
    """Add what a window was refused, by the places in the import, and its token."""
    errors = list(window.refused)
    for error in reply.errors:
        error.index = window.places[error.index]
        errors.append(error)
    errors.sort(key=lambda error: error.index)
    total.errors.extend(errors[: MAX_ERRORS - len(total.errors)])
    total.rejected_count += reply.rejected_count + len(window.refused)
    total.consistency_token = reply.consistency_token or total.consistency_token


def _progress(accepted: int, refused: int) -> Progress:
    return Progress(accepted + refused, accepted, refused)
