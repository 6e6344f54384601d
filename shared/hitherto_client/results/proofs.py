"""Why something is remembered: the words that it rests on."""

from __future__ import annotations

from dataclasses import dataclass

from hitherto_client.results.conversations import Message
from hitherto_client.results.memories import Memory


@dataclass(frozen=True, slots=True)
class SourceQuote:
    """A message that a memory was learnt from, with its neighbours."""

    conversation_id: str
    title: str
    message_id: str
    before: Message | None
    message: Message | None
    """None if it cannot be read, is no longer stored, or is far back in a long conversation."""
    after: Message | None


@dataclass(frozen=True, slots=True)
class Proof:
    """A memory, and the words that it rests on."""

    memory: Memory
    quotes: tuple[SourceQuote, ...]
    """In the order in which they were learnt from; empty for what was saved by hand."""
