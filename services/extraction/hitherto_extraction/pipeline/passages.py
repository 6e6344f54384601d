"""Adds messages to the keyword and vector indexes, and removes them.

Each function runs in the transaction of a caller that holds the user's row.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from hitherto_extraction.storage import message_passages, passages
from hitherto_extraction.storage.conversations import StoredMessage
from hitherto_extraction.storage.message_passages import (
    IndexedMessage,
    MessageKey,
    NumberedMessage,
)
from hitherto_shared.database.pool import Connection
from hitherto_shared.embeddings.protocol import Vector
from hitherto_shared.models import Scope
from hitherto_shared.text.passages import MAX_EMBEDDED, message_text
from hitherto_shared.text.terms import every_term

_ROLES = ("user", "assistant")


@dataclass(frozen=True, slots=True)
class PassageVectors:
    """The vectors of a job's messages and of the summary, under the embedder's name.

    Attributes:
        model: The embedder's name.
        wanted: The numbers of the messages that are to have a vector.
        messages: Vectors by message number; a wanted one that is missing is back-filled.
        summary: The vector of a summary, by its words.
    """

    model: str = ""
    wanted: Collection[int] = ()
    messages: Mapping[int, Vector] = field(default_factory=dict)
    summary: Mapping[str, Vector] = field(default_factory=dict)


def is_passage(message: StoredMessage) -> bool:
    """Whether a message belongs in the indexes and is not there yet."""
    return message.role in _ROLES and not (message.indexed or message.sealed)


def embedded_text(message: StoredMessage) -> str:
    """The text that the vector of a message is computed from."""
    return message_text(message.name, message.content)[:MAX_EMBEDDED]


def message_vectors(
    scope: Scope, conversation_id: str, messages: Sequence[StoredMessage], vectors: PassageVectors
) -> dict[tuple[str, str, str, int], Vector]:
    """The vectors of these messages, in the form that storage takes."""
    return {
        (scope.tenant_id, scope.user_id, conversation_id, message.message_no): vector
        for message in messages
        if (vector := vectors.messages.get(message.message_no)) is not None
    }


async def number_messages(
    connection: Connection,
    scope: Scope,
    conversation_id: str,
    messages: Sequence[tuple[StoredMessage, int, Counter[str]]],
    vectors: PassageVectors,
) -> None:
    """Assign messages of a conversation the numbers under which their terms are now indexed.

    A message that was indexed elsewhere since it was read keeps its number and leaves this one
    unused.
    """
    numbered = [
        NumberedMessage(
            (conversation_id, message.message_no),
            number,
            terms.total(),
            _state(message.message_no, vectors),
        )
        for message, number, terms in messages
    ]
    done = await message_passages.number(connection, scope, numbered, model=vectors.model)
    late = [
        (number, terms)
        for message, number, terms in messages
        if (conversation_id, message.message_no) not in done
    ]
    await passages.remove(
        connection,
        scope,
        passages.MESSAGES,
        {number: terms.total() for number, terms in late},
        {term for _, terms in late for term in terms},
    )


async def drop_messages(connection: Connection, scope: Scope, keys: Collection[MessageKey]) -> None:
    """Remove messages from the indexes, with every word of them. The role is hitherto_removal."""
    held = await message_passages.lock_indexed(connection, scope, keys)
    # Recomputed to find the postings; long messages take a while.
    terms = await asyncio.to_thread(_terms_of, held)
    lengths = {message.lexical_no: message.lexical_length for message in held}
    await passages.remove(connection, scope, passages.MESSAGES, lengths, terms)
    await message_passages.delete_vectors(connection, scope, keys)


def _state(message_no: int, vectors: PassageVectors) -> str:
    if message_no in vectors.messages:
        return "stored"
    return "pending" if message_no in vectors.wanted else "none"


def _terms_of(messages: Sequence[IndexedMessage]) -> set[str]:
    return {
        term
        for message in messages
        for term in every_term(message_text(message.name, message.content))
    }
