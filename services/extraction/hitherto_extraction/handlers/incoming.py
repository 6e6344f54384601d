"""Validates incoming transcripts and messages; reports every violation at once."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hitherto.v1 import conversation_pb2, extraction_service_pb2
from hitherto_extraction.storage.conversations import IncomingMessage
from hitherto_extraction.transcripts import IncomingTranscript
from hitherto_shared.convert import ROLE
from hitherto_shared.metrics import MESSAGES_CUT
from hitherto_shared.text.graphemes import is_border
from hitherto_shared.text.normalise import nfc
from hitherto_shared.validation import Checks

MAX_TRANSCRIPTS = 100
MAX_MESSAGES = 2_000
MAX_MESSAGE_BYTES = 64 * 1024
"""The content of a longer message is stored cut."""
_MARK_BYTES = 64
"""Room for the mark at the end of a text that was cut."""
_MOST_SHRUNK = 12
"""More than the factor between the lengths of a text and its normal form, characters or bytes."""
_MAX_NAME = 256
_WithTranscript = extraction_service_pb2.PreviewExtractionRequest | (
    extraction_service_pb2.StreamTranscriptsRequest
)
_MAX_CONTEXT_ITEMS = 200


def may_be_read(
    checks: Checks,
    field: str,
    what: str,
    items: Sequence[object],
    most: int,
    *,
    rest: str = "send them in several calls",
) -> bool:
    """Whether a list has no more items than `most`; an empty one is a violation too."""
    if not items:
        checks.add(field, f"must hold at least one {what}")
    if len(items) > most:
        checks.add(field, f"must hold at most {most} {what}s, this holds {len(items)}: {rest}")
    return len(items) <= most


def read_transcripts(
    checks: Checks,
    transcripts: Sequence[conversation_pb2.Transcript],
    sent: Sequence[conversation_pb2.Transcript],
) -> list[IncomingTranscript]:
    """The transcripts of a batch, without secrets, and as they were sent."""
    if not may_be_read(checks, "transcripts", "transcript", transcripts, MAX_TRANSCRIPTS):
        return []
    return [
        read_transcript(checks, f"transcripts[{i}]", transcript, sent[i])
        for i, transcript in enumerate(transcripts)
    ]


def read_one_transcript(
    checks: Checks, request: _WithTranscript, sent: _WithTranscript
) -> IncomingTranscript:
    """The required transcript of a request with one; see `read_transcripts`."""
    if not request.HasField("transcript"):
        checks.add("transcript", "is required")
        checks.done()
    return read_transcript(checks, "transcript", request.transcript, sent.transcript)


def read_transcript(
    checks: Checks,
    field: str,
    transcript: conversation_pb2.Transcript,
    sent: conversation_pb2.Transcript,
) -> IncomingTranscript:
    """One transcript, at the path `field`; see `read_transcripts`."""
    conversation_id = checks.identifier(f"{field}.conversation_id", transcript.conversation_id)
    return IncomingTranscript(
        user_id=checks.identifier(f"{field}.user_id", transcript.user_id),
        conversation_id=conversation_id,
        messages=read_messages(
            checks, f"{field}.messages", transcript.messages, conversation_id, sent.messages
        ),
        time_zone=checks.time_zone(f"{field}.time_zone", transcript.time_zone),
        ended=transcript.ended,
    )


def read_messages(
    checks: Checks,
    field: str,
    messages: Sequence[conversation_pb2.Message],
    conversation_id: str,
    sent: Sequence[conversation_pb2.Message],
) -> list[IncomingMessage]:
    """The messages of one conversation; those without an id get a reproducible one.

    `messages` are without secrets, and `sent` are the same as they were sent. Ids follow from what
    is stored, so that none of them tells anything of a secret.
    """
    rest = "send the rest with the same conversation_id afterwards"
    if not may_be_read(checks, field, "message", messages, MAX_MESSAGES, rest=rest):
        return []
    found: list[IncomingMessage] = []
    places: dict[str, int] = {}
    equals: Counter[str] = Counter()
    for i, message in enumerate(messages):
        read = _read_message(checks, f"{field}[{i}]", message, conversation_id, equals)
        if sent[i].content != message.content:
            read = replace(read, unredacted=nfc(_fitting(sent[i].content)))
        if read.message_id in places:
            checks.add(
                f"{field}[{i}].id",
                f"is the id of {field}[{places[read.message_id]}] too: ids are unique within a "
                "conversation",
            )
        places.setdefault(read.message_id, i)
        found.append(read)
    return found


def _read_message(
    checks: Checks,
    field: str,
    message: conversation_pb2.Message,
    conversation_id: str,
    equals: Counter[str],
) -> IncomingMessage:
    role = checks.one_of(f"{field}.role", message.role, ROLE)
    if role is None and message.role == 0:
        checks.add(f"{field}.role", "is required")
    content = checks.text(
        f"{field}.content", _fitting(message.content), max_bytes=MAX_MESSAGE_BYTES, required=True
    )
    name = checks.identifier(f"{field}.name", message.name, required=False)
    message_id = checks.identifier(f"{field}.id", message.id, required=False)
    return IncomingMessage(
        message_id=message_id or _derived_id(conversation_id, message, name, content, equals),
        role=role or "user",
        name=name,
        content=content,
        said_at=checks.moment(f"{field}.created_at", message, "created_at"),
        context_items=_context_items(checks, field, message),
        pending_action_ids=checks.texts(
            f"{field}.pending_action_ids",
            message.pending_action_ids,
            maximum=200,
            max_chars=_MAX_NAME,
        ),
        metadata=checks.struct(f"{field}.metadata", message.metadata),
    )


def _fitting(text: str) -> str:
    """A text, or the beginning of one that is too long and how many characters are left out.

    A pasted file thus does not cost the conversation in which it stands.
    """
    if len(text) <= MAX_MESSAGE_BYTES // _MOST_SHRUNK:
        return text
    normal = nfc(text[: _MOST_SHRUNK * MAX_MESSAGE_BYTES])
    size = len(normal.encode("utf-8", "replace"))
    if size <= MAX_MESSAGE_BYTES and len(text) <= _MOST_SHRUNK * MAX_MESSAGE_BYTES:
        return text
    room = MAX_MESSAGE_BYTES - _MARK_BYTES
    end = len(normal.encode("utf-8", "replace")[:room].decode("utf-8", "ignore"))
    while not is_border(normal, end):
        end -= 1
    MESSAGES_CUT.inc()
    return f"{normal[:end]}… [+{len(text) - end:,}]"


def _context_items(
    checks: Checks, field: str, message: conversation_pb2.Message
) -> list[dict[str, Any]]:
    """The items that an answer used, given with relevance or as bare ids."""
    ids = [item.id for item in message.context_items]
    checks.texts(f"{field}.context_items", ids, maximum=_MAX_CONTEXT_ITEMS, max_chars=_MAX_NAME)
    checks.texts(
        f"{field}.context_item_ids",
        message.context_item_ids,
        maximum=_MAX_CONTEXT_ITEMS,
        max_chars=_MAX_NAME,
    )
    found: dict[str, dict[str, Any]] = {}
    for i, item in enumerate(message.context_items):
        if not 0 <= item.relevance <= 1000:
            checks.add(f"{field}.context_items[{i}].relevance", "must be a number from 0 to 1000")
            continue
        found[item.id] = {"id": item.id, "relevance": item.relevance}
    for item_id in message.context_item_ids:
        found.setdefault(item_id, {"id": item_id})
    return list(found.values())


def _derived_id(
    conversation_id: str,
    message: conversation_pb2.Message,
    name: str,
    content: str,
    equals: Counter[str],
) -> str:
    """An id that the same message gets again when it is sent again.

    `hitherto_client.batches` derives the same where it cuts a conversation into parts.
    """
    stamp = (
        [message.created_at.seconds, message.created_at.nanos]
        if message.HasField("created_at")
        else None
    )
    identity = json.dumps([conversation_id, message.role, name, stamp, content])
    equals[identity] += 1
    digest = hashlib.sha256(f"{equals[identity]} {identity}".encode()).hexdigest()
    return f"msg_{digest[:32]}"
