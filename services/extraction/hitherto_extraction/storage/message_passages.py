"""Messages as passages: their numbers in the keyword index, and their vectors.

A message is identified by its conversation and its number there. Code that assigns or removes index
numbers holds the user's row.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pgvector import HalfVector

from hitherto_shared.database.lean import later
from hitherto_shared.database.pool import Connection
from hitherto_shared.embeddings.protocol import Vector
from hitherto_shared.models import Scope
from hitherto_shared.text.passages import MAX_EMBEDDED, message_text

MessageKey = tuple[str, int]
"""A message of one user: its conversation and its number there."""

_UNINDEXED = """
SELECT g.conversation_id, g.message_no
FROM unnest(%(conversations)s::text[], %(message_nos)s::int[])
    AS wanted (conversation_id, message_no)
JOIN messages AS g ON g.tenant_id = %(tenant_id)s AND g.user_id = %(user_id)s
     AND g.conversation_id = wanted.conversation_id AND g.message_no = wanted.message_no
WHERE g.lexical_no IS NULL AND g.role IN ('user', 'assistant') AND g.sealed IS NULL
"""

# A vector counts as stored only if its model is active. Checked after the vectors are inserted,
# whose foreign key locks the model's row, so that no change of the active model comes in between.
_NUMBER = """
UPDATE messages AS g
SET lexical_no = new.lexical_no, lexical_length = new.lexical_length,
    embedding_state = CASE
        WHEN new.state = 'stored' AND NOT EXISTS (
            SELECT FROM embedding_models WHERE active AND model = %(model)s) THEN 'pending'
        ELSE new.state END
FROM unnest(%(conversations)s::text[], %(message_nos)s::int[], %(lexical_nos)s::int[],
            %(lexical_lengths)s::int[], %(states)s::text[])
    AS new (conversation_id, message_no, lexical_no, lexical_length, state)
WHERE g.tenant_id = %(tenant_id)s AND g.user_id = %(user_id)s
  AND g.conversation_id = new.conversation_id AND g.message_no = new.message_no
  AND g.lexical_no IS NULL AND g.sealed IS NULL
RETURNING g.conversation_id, g.message_no
"""

_WRITE_VECTORS = """
INSERT INTO message_embeddings (tenant_id, user_id, conversation_id, message_no, model, dimensions,
                                embedding)
SELECT g.tenant_id, g.user_id, g.conversation_id, g.message_no, %(model)s, %(dimensions)s,
       new.embedding
FROM unnest(%(tenants)s::text[], %(users)s::text[], %(conversations)s::text[],
            %(message_nos)s::int[], %(vectors)b::halfvec[])
    AS new (tenant_id, user_id, conversation_id, message_no, embedding)
JOIN messages AS g ON g.tenant_id = new.tenant_id AND g.user_id = new.user_id
     AND g.conversation_id = new.conversation_id AND g.message_no = new.message_no
JOIN embedding_models AS m ON m.model = %(model)s AND m.dimensions = %(dimensions)s
WHERE g.sealed IS NULL
ORDER BY g.tenant_id, g.user_id, g.conversation_id, g.message_no
FOR KEY SHARE OF g
ON CONFLICT (tenant_id, user_id, conversation_id, message_no, model) DO UPDATE
SET embedding = EXCLUDED.embedding
"""

_SETTLE = """
UPDATE messages AS g SET embedding_state = %(state)s
FROM unnest(%(tenants)s::text[], %(users)s::text[], %(conversations)s::text[],
            %(message_nos)s::int[]) AS done (tenant_id, user_id, conversation_id, message_no)
WHERE g.tenant_id = done.tenant_id AND g.user_id = done.user_id
  AND g.conversation_id = done.conversation_id AND g.message_no = done.message_no
  AND g.embedding_state = 'pending'
  AND EXISTS (SELECT FROM embedding_models WHERE active AND model = %(model)s)
"""

# Across users. By the time of arrival: a message whose job is still expected is a recent one.
_FIND_LEFT = """
SELECT g.tenant_id, g.user_id, g.conversation_id, g.message_no, g.name, g.content
FROM messages AS g
JOIN users AS u ON u.tenant_id = g.tenant_id AND u.user_id = g.user_id AND u.erased_at IS NULL
WHERE g.lexical_no IS NULL AND g.role IN ('user', 'assistant') AND g.sealed IS NULL
  AND g.accepted_at < now() - make_interval(secs => %(seconds)s)
ORDER BY g.accepted_at
LIMIT %(limit)s
"""

# Across users.
_FIND_PENDING = """
SELECT tenant_id, user_id, conversation_id, message_no, name, left(content, %(characters)s)
FROM messages
WHERE embedding_state = 'pending' AND NOT tenant_id = ANY(%(without)s)
ORDER BY accepted_at
LIMIT %(limit)s
"""

# Locked, so that no vector is stored for a message that is about to be deleted; in the order in
# which vectors are stored.
_HELD = """
SELECT g.lexical_no, g.lexical_length, g.name, g.content
FROM unnest(%(conversations)s::text[], %(message_nos)s::int[]) AS gone (conversation_id, message_no)
JOIN messages AS g ON g.tenant_id = %(tenant_id)s AND g.user_id = %(user_id)s
     AND g.conversation_id = gone.conversation_id AND g.message_no = gone.message_no
WHERE g.lexical_no IS NOT NULL
ORDER BY g.tenant_id, g.user_id, g.conversation_id, g.message_no
FOR UPDATE OF g
"""

_DELETE_VECTORS = """
DELETE FROM message_embeddings AS e
USING unnest(%(conversations)s::text[], %(message_nos)s::int[])
    AS gone (conversation_id, message_no)
WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
  AND e.conversation_id = gone.conversation_id AND e.message_no = gone.message_no
"""


@dataclass(frozen=True, slots=True)
class NumberedMessage:
    """A message with its number in the keyword index and the state of its vector.

    `state` is a value of the column embedding_state.
    """

    key: MessageKey
    lexical_no: int
    lexical_length: int
    state: str


@dataclass(frozen=True, slots=True)
class MessageWords:
    """A message of any user with its text."""

    tenant_id: str
    user_id: str
    conversation_id: str
    message_no: int
    name: str
    content: str

    @property
    def text_id(self) -> tuple[str, str, str, int]:
        """Identifies it among waiting texts, and orders it among the keys."""
        return self.tenant_id, self.user_id, self.conversation_id, self.message_no

    @property
    def scope(self) -> Scope:
        """Its user."""
        return Scope(self.tenant_id, self.user_id)

    @property
    def key(self) -> MessageKey:
        """Its key among the user's messages."""
        return self.conversation_id, self.message_no

    @property
    def texts(self) -> list[str]:
        """The texts to embed."""
        return [message_text(self.name, self.content)[:MAX_EMBEDDED]]


@dataclass(frozen=True, slots=True)
class IndexedMessage:
    """A message's number in the keyword index, and its indexed words."""

    lexical_no: int
    lexical_length: int
    name: str
    content: str


async def unindexed(
    connection: Connection, scope: Scope, keys: Collection[MessageKey]
) -> set[MessageKey]:
    """Those of the messages that exist and have no number yet, of the roles that get one."""
    cursor = await connection.execute(_UNINDEXED, {**scope.parameters, **_keys(keys)})
    return {(row[0], row[1]) for row in await cursor.fetchall()}


async def number(
    connection: Connection, scope: Scope, messages: Sequence[NumberedMessage], *, model: str
) -> set[MessageKey]:
    """Assign numbers to messages without one, and record whether they have a vector of `model`.

    Returns which of them had none.
    """
    cursor = await connection.execute(
        _NUMBER,
        {
            **scope.parameters,
            **_keys([message.key for message in messages]),
            "lexical_nos": [message.lexical_no for message in messages],
            "lexical_lengths": [message.lexical_length for message in messages],
            "states": [message.state for message in messages],
            "model": model,
        },
    )
    return {(row[0], row[1]) for row in await cursor.fetchall()}


async def write_vectors(
    connection: Connection,
    vectors: Mapping[tuple[str, str, str, int], Vector],
    *,
    model: str,
) -> None:
    """Store vectors of messages of any user, identified by `MessageWords.text_id`.

    Vectors of a message that is gone, or of an unknown model, are skipped.
    """
    if not vectors:
        return
    await later(
        connection,
        _WRITE_VECTORS,
        {
            **_of_anybody(vectors),
            "model": model,
            "dimensions": len(next(iter(vectors.values()))),
            "vectors": [HalfVector(vector) for vector in vectors.values()],
        },
    )


async def settle(
    connection: Connection,
    messages: Collection[tuple[str, str, str, int]],
    *,
    model: str,
    state: str,
) -> int:
    """Mark waiting messages as `stored` or `refused`, if `model` is still active.

    Returns how many were marked.
    """
    if not messages:
        return 0
    values = {**_of_anybody(messages), "model": model, "state": state}
    return (await connection.execute(_SETTLE, values)).rowcount


async def find_left(connection: Connection, *, seconds: float, limit: int) -> list[MessageWords]:
    """Messages unindexed for this many seconds, oldest first.

    The role is hitherto_maintenance.
    """
    cursor = await connection.execute(_FIND_LEFT, {"seconds": seconds, "limit": limit})
    return [MessageWords(*row) for row in await cursor.fetchall()]


async def find_pending(
    connection: Connection, *, limit: int, without: Collection[str] = ()
) -> list[MessageWords]:
    """Messages that wait for a vector, oldest first, with the text to embed.

    The role is hitherto_maintenance.
    """
    cursor = await connection.execute(
        _FIND_PENDING, {"limit": limit, "without": list(without), "characters": MAX_EMBEDDED}
    )
    return [MessageWords(*row) for row in await cursor.fetchall()]


async def lock_indexed(
    connection: Connection, scope: Scope, keys: Collection[MessageKey]
) -> list[IndexedMessage]:
    """Those of the messages that are in the keyword index, locked.

    The role is hitherto_removal.
    """
    cursor = await connection.execute(_HELD, {**scope.parameters, **_keys(keys)})
    return [IndexedMessage(*row) for row in await cursor.fetchall()]


async def delete_vectors(
    connection: Connection, scope: Scope, keys: Collection[MessageKey]
) -> None:
    """Delete the vectors of messages, of every model. The role is hitherto_removal."""
    await connection.execute(_DELETE_VECTORS, {**scope.parameters, **_keys(keys)})


def _keys(keys: Collection[MessageKey]) -> dict[str, Any]:
    return {
        "conversations": [conversation_id for conversation_id, _ in keys],
        "message_nos": [message_no for _, message_no in keys],
    }


def _of_anybody(messages: Collection[tuple[str, str, str, int]]) -> dict[str, Any]:
    return {
        "tenants": [tenant_id for tenant_id, _, _, _ in messages],
        "users": [user_id for _, user_id, _, _ in messages],
        "conversations": [conversation_id for _, _, conversation_id, _ in messages],
        "message_nos": [message_no for _, _, _, message_no in messages],
    }
