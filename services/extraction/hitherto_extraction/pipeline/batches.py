"""Divides a range of messages into model calls, in order and at message boundaries."""

from __future__ import annotations

from collections.abc import Sequence

from hitherto_extraction.storage.conversations import StoredMessage
from hitherto_shared.model_api import estimate_tokens

_OVERHEAD = 20
"""Estimated tokens of a message's id, role, name and time."""


def split(messages: Sequence[StoredMessage], budget: int) -> list[list[StoredMessage]]:
    """Batches of at most `budget` tokens; a longer message gets a batch of its own."""
    batches: list[list[StoredMessage]] = []
    room = 0
    for message in messages:
        size = estimate_tokens(message.content) + _OVERHEAD
        if not batches or size > room:
            batches.append([])
            room = budget
        batches[-1].append(message)
        room -= size
    return batches


def halves(messages: Sequence[StoredMessage]) -> list[list[StoredMessage]]:
    """A batch in two halves, in order."""
    middle = len(messages) // 2
    return [list(messages[:middle]), list(messages[middle:])]
