"""Cuts transcripts and imports into requests and windows that the services accept.

Only a window of an import is held, and one that breaks off is sent again with the idempotency keys
it had: what was taken already answers as it did the first time.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc

from hitherto.v1 import conversation_pb2, item_error_pb2
from hitherto.v1 import extraction_service_pb2 as extraction_pb2
from hitherto.v1 import memory_service_pb2 as memory_pb2
from hitherto_client.calls import with_idempotency_key
from hitherto_client.transcripts import FileTranscript, TranscriptError

Item = TypeVar("Item")

MAX_TRANSCRIPTS = 100
"""How many transcripts one request may hold."""
MAX_MESSAGES = 2_000
"""How many messages one transcript may hold."""
MAX_BYTES = 4 * 1024 * 1024 - 64 * 1024
"""Size of a request: the service's 4 MiB less some room for keys and framing."""

_ELEMENT_BYTES = 8
"""The tag and length in front of each transcript or message, at their longest."""
_ID_BYTES = 40
"""Room for the id of a message, `msg_` and 32 digits."""


def batches(
    transcripts: Iterable[FileTranscript], at_most: int = MAX_TRANSCRIPTS
) -> Iterator[list[FileTranscript]]:
    """Groups of at most `at_most` transcripts, in their order, each small enough for one request.

    A transcript that is too large by itself becomes several parts of the same conversation.

    Raises:
        TranscriptError: One message alone is larger than a request.
    """
    found = (part for transcript in transcripts for part in parts(transcript))
    return groups(found, lambda part: part.transcript.ByteSize() + _ELEMENT_BYTES, at_most)


def groups(
    items: Iterable[Item], size_of: Callable[[Item], int], at_most: int
) -> Iterator[list[Item]]:
    """Groups of at most `at_most` items, in their order, each small enough for one request."""
    group: list[Item] = []
    size = 0
    for item in items:
        item_size = size_of(item)
        if group and (len(group) >= at_most or size + item_size > MAX_BYTES):
            yield group
            group, size = [], 0
        group.append(item)
        size += item_size
    if group:
        yield group


def parts(item: FileTranscript) -> list[FileTranscript]:
    """The transcript, or parts of the same conversation if it is too large for one request.

    Raises:
        TranscriptError: One message alone is larger than a request.
    """
    whole = item.transcript
    if len(whole.messages) <= MAX_MESSAGES and whole.ByteSize() <= MAX_BYTES - _ELEMENT_BYTES:
        return [item]
    found: list[conversation_pb2.Transcript] = []
    size = MAX_BYTES
    equals, in_earlier_parts = Counter[bytes](), Counter[bytes]()
    for index, message in enumerate(whole.messages):
        message_size = message.ByteSize() + _ELEMENT_BYTES + _ID_BYTES
        if message_size > MAX_BYTES // 2:
            problem = f"messages[{index}] is too large: a message may have 64 KiB"
            raise TranscriptError(item.source, item.line, problem)
        if size + message_size > MAX_BYTES or len(found[-1].messages) >= MAX_MESSAGES:
            found.append(
                conversation_pb2.Transcript(
                    user_id=whole.user_id,
                    conversation_id=whole.conversation_id,
                    time_zone=whole.time_zone,
                )
            )
            size = found[-1].ByteSize() + _ELEMENT_BYTES
            in_earlier_parts = equals.copy()
        found[-1].messages.append(message)
        size += message_size
        if not message.id:
            identity = _identity(whole.conversation_id, message)
            equal = hashlib.sha256(identity.encode()).digest()
            equals[equal] += 1
            # The service tells equal messages apart within one request only.
            if in_earlier_parts[equal]:
                digest = hashlib.sha256(f"{equals[equal]} {identity}".encode()).hexdigest()
                found[-1].messages[-1].id = f"msg_{digest[:32]}"
    found[-1].ended = whole.ended
    return [FileTranscript(part, item.source, item.line) for part in found]


def _identity(conversation_id: str, message: conversation_pb2.Message) -> str:
    """What the service derives an id from: parts get the ids that the whole would get."""
    at = message.created_at
    stamp = [at.seconds, at.nanos] if message.HasField("created_at") else None
    conversation_id, name, content = (
        unicodedata.normalize("NFC", text)
        for text in (conversation_id, message.name, message.content)
    )
    return json.dumps([conversation_id, message.role, name, stamp, content])


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
    """The place of each request in the import, or of what it comes from."""
    refused: list[item_error_pb2.ItemError]
    """Items that no service would take, so that they are not sent."""


def windows(requests: Iterable[tuple[int, Request]]) -> Iterator[ImportWindow]:
    """The requests, each with its place, in windows; without those that no service would take."""
    window = ImportWindow([], [], [])
    size = 0
    for place, request in requests:
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


def streamed_transcript(
    transcript: conversation_pb2.Transcript,
) -> extraction_pb2.StreamTranscriptsRequest:
    """A transcript as a request of an import."""
    key = uuid.uuid4().hex
    return extraction_pb2.StreamTranscriptsRequest(transcript=transcript, idempotency_key=key)


def streamed_memory(item: memory_pb2.SaveMemoryRequest) -> memory_pb2.StreamMemoriesRequest:
    """A memory as a request of an import."""
    return memory_pb2.StreamMemoriesRequest(item=with_idempotency_key(item))


def _too_large(place: int, size: int) -> item_error_pb2.ItemError:
    return item_error_pb2.ItemError(
        index=place,
        code=grpc.StatusCode.RESOURCE_EXHAUSTED.value[0],
        reason="REQUEST_TOO_LARGE",
        message=f"the item has {size} bytes, and {_MAX_ITEM_BYTES} are the most: split it",
    )


def settle(total: Any, reply: Any, window: ImportWindow) -> Progress:
    """Add the reply to a window: counts, ids, the token, and errors by the window's places."""
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
