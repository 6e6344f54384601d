# Generated from ../_async/proofs.py by tools/unasync.py. Do not edit.
"""Why something is remembered."""

from __future__ import annotations

import grpc

from hitherto_client._sync.conversations import Conversations
from hitherto_client._sync.reads import Retrieval
from hitherto_client.errors import HithertoCallError
from hitherto_client.results.conversations import Message, Proof, SourceQuote

_MOST_SOURCES = 6
_MOST_MESSAGES = 1_000


class Proofs(Retrieval, Conversations):
    """What a memory rests on."""

    def why(self, user: str, memory_id: str, *, timeout: float | None = None) -> Proof | None:
        """A memory with the words that it was learnt from; None if there is no such memory.

        Of each of the first six messages behind it, the proof has what was said just before and
        after.

        Args:
            user: Whose memory.
            memory_id: Which one.
            timeout: Seconds for each of the calls, retries included. Unset: 10.

        Raises:
            HithertoCallError: A call failed.
        """
        memory = self.get_memory(user, memory_id, timeout=timeout)
        if memory is None:
            return None
        wanted: dict[str, list[str]] = {}
        for source in memory.sources[:_MOST_SOURCES]:
            wanted.setdefault(source.conversation_id, []).append(source.message_id)
        quotes: list[SourceQuote] = []
        for conversation_id, message_ids in wanted.items():
            quotes += self._quotes(user, conversation_id, message_ids, timeout)
        return Proof(memory, tuple(quotes))

    def _quotes(
        self, user: str, conversation_id: str, message_ids: list[str], timeout: float | None
    ) -> list[SourceQuote]:
        title, messages = "", list[Message]()
        try:
            found = self.get_conversation(user, conversation_id, message_limit=1, timeout=timeout)
            title = found.summary.title if found else ""
            messages = self._messages_down_to(user, conversation_id, set(message_ids), timeout)
        except HithertoCallError as error:
            # Sealed, and its key is away: the memory itself can be shown all the same.
            if error.code is not grpc.StatusCode.FAILED_PRECONDITION:
                raise
        places = {message.id: place for place, message in enumerate(messages)}
        quotes = []
        for message_id in message_ids:
            place = places.get(message_id)
            around: list[Message | None] = [None, *messages, None]
            before, message, after = around[place : place + 3] if place is not None else [None] * 3
            quotes.append(SourceQuote(conversation_id, title, message_id, before, message, after))
        return quotes

    def _messages_down_to(
        self, user: str, conversation_id: str, wanted: set[str], timeout: float | None
    ) -> list[Message]:
        """The last messages of a conversation back to the one before those wanted, in order."""
        messages: list[Message] = []
        for message in self.messages(user, conversation_id, timeout=timeout):
            messages.append(message)
            if not wanted or len(messages) >= _MOST_MESSAGES:
                break
            wanted.discard(message.id)
        return messages[::-1]
