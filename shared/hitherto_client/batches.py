"""Splits transcripts into requests that the service accepts."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from hitherto.v1 import conversation_pb2
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
    for index, message in enumerate(_with_ids(whole)):
        message_size = message.ByteSize() + _ELEMENT_BYTES
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
        found[-1].messages.append(message)
        size += message_size
    found[-1].ended = whole.ended
    return [FileTranscript(part, item.source, item.line) for part in found]


def _with_ids(whole: conversation_pb2.Transcript) -> Iterator[conversation_pb2.Message]:
    """The messages, each with an id.

    The ids that the service derives tell equal messages apart within one request only; those that
    fall into different parts would count as one.
    """
    seen: Counter[bytes] = Counter()
    for message in whole.messages:
        if message.id:
            yield message
            continue
        keyed = conversation_pb2.Message()
        keyed.CopyFrom(message)
        words = [str(message.role), message.name, message.content]
        words.append(message.created_at.ToJsonString() if message.HasField("created_at") else "")
        digest = hashlib.sha256("\0".join(words).encode()).digest()
        keyed.id = f"{digest.hex()[:32]}-{seen[digest]}"
        seen[digest] += 1
        yield keyed
