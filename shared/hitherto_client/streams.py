"""Bulk imports: any number of items in bounded memory, with retries that duplicate nothing.

An import is cut into windows of a few items, each a stream of its own. Only a window is held, and
one that breaks off is sent again with the idempotency keys it had: what was taken already answers
as it did the first time.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc

from hitherto.v1 import conversation_pb2, item_error_pb2
from hitherto.v1 import extraction_service_pb2 as extraction_pb2
from hitherto.v1 import memory_service_pb2 as memory_pb2
from hitherto_client.calls import with_idempotency_key

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


@dataclass(slots=True)
class ImportWindow:
    """Some items of an import, sent as one stream."""

    requests: list[Any]
    places: list[int]
    """The place of each request in the import."""
    refused: list[item_error_pb2.ItemError]
    """Items that no service would take, so that they are not sent."""


def windows(requests: Iterator[Request]) -> Iterator[ImportWindow]:
    """The requests in windows; those that no service would take are not among them."""
    window = ImportWindow([], [], [])
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
            window, size = ImportWindow([], [], []), 0
    if window.requests or window.refused:
        yield window


def transcript_requests(
    transcripts: Iterable[conversation_pb2.Transcript],
) -> Iterator[extraction_pb2.StreamTranscriptsRequest]:
    """Each transcript as a request."""
    for transcript in transcripts:
        key = uuid.uuid4().hex
        yield extraction_pb2.StreamTranscriptsRequest(transcript=transcript, idempotency_key=key)


def memory_requests(
    items: Iterable[memory_pb2.SaveMemoryRequest],
) -> Iterator[memory_pb2.StreamMemoriesRequest]:
    """Each memory as a request."""
    for item in items:
        yield memory_pb2.StreamMemoriesRequest(item=with_idempotency_key(item))


def _too_large(place: int, size: int) -> item_error_pb2.ItemError:
    return item_error_pb2.ItemError(
        index=place,
        code=grpc.StatusCode.RESOURCE_EXHAUSTED.value[0],
        reason="REQUEST_TOO_LARGE",
        message=f"the item has {size} bytes, and {_MAX_ITEM_BYTES} are the most: split it",
    )


def settle(total: Any, reply: Any, window: ImportWindow) -> Progress:
    """Add the reply to a window: counts, ids, the token, and errors by the places in the import."""
    errors = list(window.refused)
    for error in reply.errors:
        error.index = window.places[error.index]
        errors.append(error)
    errors.sort(key=lambda error: error.index)
    total.errors.extend(errors[: MAX_ERRORS - len(total.errors)])
    total.rejected_count += len(window.refused)
    total.consistency_token = reply.consistency_token or total.consistency_token
    for field in reply.DESCRIPTOR.fields:
        if field.name.endswith("_count"):
            setattr(total, field.name, getattr(total, field.name) + getattr(reply, field.name))
        elif field.name.endswith("_ids"):
            ids = getattr(total, field.name)
            ids.extend(getattr(reply, field.name)[: MAX_IDS - len(ids)])
    accepted = getattr(total, "accepted_count", 0) + getattr(total, "saved_count", 0)
    return Progress(accepted + total.rejected_count, accepted, total.rejected_count)
