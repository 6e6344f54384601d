"""Seals a user's messages, summaries and unusable replies from before encryption was turned on.

The role is hitherto_removal, in a transaction that holds the user's row. Each function that finds
rows takes a bounded number of them, and finds nothing once everything is sealed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from hitherto_shared.database.pool import Connection
from hitherto_shared.encryption.places import message_place, summary_place
from hitherto_shared.encryption.sealed import UserKey
from hitherto_shared.models import Scope

# Locked so that no vector is stored for one; in the order in which vectors are stored.
_CLEAR_MESSAGES = """
SELECT conversation_id, message_no, message_id, name, content, context_items, metadata
FROM messages
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND sealed IS NULL
ORDER BY tenant_id, user_id, conversation_id, message_no
LIMIT %(limit)s
FOR UPDATE
"""

_SEAL_MESSAGE = """
UPDATE messages
SET name = '', content = '', context_items = '[]', metadata = '{}', sealed = %(sealed)s,
    lexical_no = NULL, lexical_length = 0, embedding_state = 'none'
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND conversation_id = %(conversation_id)s AND message_no = %(message_no)s
"""

# Locked, so that any transaction that stores a vector of their sources has finished.
_LEARNT_FROM = """
SELECT m.memory_id
FROM memories AS m
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.sealed IS NULL
  AND m.memory_id IN (
      SELECT s.memory_id
      FROM unnest(%(conversations)s::text[], %(message_ids)s::text[])
          AS gone (conversation_id, message_id)
      JOIN memory_sources AS s ON s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
           AND md5(s.conversation_id) = md5(gone.conversation_id)
           AND s.conversation_id = gone.conversation_id AND s.message_id = gone.message_id)
ORDER BY m.memory_id
FOR UPDATE OF m
"""

_DELETE_SOURCE_VECTORS = """
DELETE FROM memory_source_embeddings
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND (%(all)s OR memory_id = ANY(%(memory_ids)s))
"""

_CLEAR_SUMMARIES = """
SELECT conversation_id, sealed_version, title, summary, key_topics, technical_topics,
       followup_suggestions
FROM conversation_summaries
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND sealed IS NULL
ORDER BY conversation_id
LIMIT %(limit)s
FOR UPDATE
"""

_SEAL_SUMMARY = """
UPDATE conversation_summaries
SET title = '', summary = '', key_topics = '{}', technical_topics = '{}',
    followup_suggestions = '{}', sealed = %(sealed)s, sealed_version = %(sealed_version)s,
    lexical_no = NULL, lexical_length = 0, embedding_state = 'none'
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND conversation_id = %(conversation_id)s
"""

# Of a summary that was sealed with a role that may not delete.
_DELETE_SUMMARY_VECTORS = """
DELETE FROM summary_embeddings AS e
USING conversation_summaries AS s
WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s AND s.tenant_id = e.tenant_id
  AND s.user_id = e.user_id AND s.conversation_id = e.conversation_id AND s.sealed IS NOT NULL
"""

_CLEAR_REPLIES = """
SELECT job_id, claim_no, sealed_reply
FROM unusable_replies
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND NOT of_user_key
ORDER BY job_id, claim_no
LIMIT %(limit)s
"""

_SEAL_REPLY = """
UPDATE unusable_replies SET sealed_reply = %(sealed)s, of_user_key = true
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND job_id = %(job_id)s AND claim_no = %(claim_no)s
"""

_DROP_REPLY = """
DELETE FROM unusable_replies
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND job_id = %(job_id)s AND claim_no = %(claim_no)s
"""


@dataclass(frozen=True, slots=True)
class ClearMessage:
    """A message in clear, and its fields to seal."""

    conversation_id: str
    message_no: int
    message_id: str
    words: Mapping[str, Any]

    @property
    def key(self) -> tuple[str, int]:
        """Its key among the user's messages."""
        return self.conversation_id, self.message_no


@dataclass(frozen=True, slots=True)
class ClearSummary:
    """A summary in clear, its fields to seal, and the number of its last sealing."""

    conversation_id: str
    sealed_version: int
    words: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ClearReply:
    """An unusable reply sealed with the installation's secret."""

    job_id: UUID
    claim_no: int
    sealed: str


async def clear_messages(connection: Connection, scope: Scope, *, limit: int) -> list[ClearMessage]:
    """Messages in clear, locked."""
    cursor = await connection.execute(_CLEAR_MESSAGES, {**scope.parameters, "limit": limit})
    names = ("name", "content", "context_items", "metadata")
    return [
        ClearMessage(row[0], row[1], row[2], dict(zip(names, row[3:], strict=True)))
        for row in await cursor.fetchall()
    ]


async def seal_messages(
    connection: Connection, scope: Scope, key: UserKey, messages: Sequence[ClearMessage]
) -> None:
    """Seal messages in place. The caller has removed them from the indexes."""
    async with connection.cursor() as many:
        await many.executemany(
            _SEAL_MESSAGE,
            [
                {
                    **scope.parameters,
                    "conversation_id": each.conversation_id,
                    "message_no": each.message_no,
                    "sealed": key.seal(
                        each.words, message_place(each.conversation_id, each.message_id)
                    ),
                }
                for each in messages
            ],
        )


async def learnt_from(
    connection: Connection, scope: Scope, messages: Sequence[ClearMessage]
) -> list[UUID]:
    """The memories in clear that were learnt from messages, locked."""
    cursor = await connection.execute(
        _LEARNT_FROM,
        {
            **scope.parameters,
            "conversations": [each.conversation_id for each in messages],
            "message_ids": [each.message_id for each in messages],
        },
    )
    return [row[0] for row in await cursor.fetchall()]


async def delete_source_vectors(
    connection: Connection, scope: Scope, memory_ids: Collection[UUID] | None
) -> int:
    """Delete the vectors of memories' source words, all with None; returns their number."""
    cursor = await connection.execute(
        _DELETE_SOURCE_VECTORS,
        {**scope.parameters, "all": memory_ids is None, "memory_ids": list(memory_ids or ())},
    )
    return cursor.rowcount


async def clear_summaries(
    connection: Connection, scope: Scope, *, limit: int
) -> list[ClearSummary]:
    """Summaries in clear, locked."""
    cursor = await connection.execute(_CLEAR_SUMMARIES, {**scope.parameters, "limit": limit})
    names = ("title", "summary", "key_topics", "technical_topics", "followup_suggestions")
    return [
        ClearSummary(conversation_id, version, dict(zip(names, words, strict=True)))
        for conversation_id, version, *words in await cursor.fetchall()
    ]


async def seal_summaries(
    connection: Connection,
    scope: Scope,
    key: UserKey,
    summaries: Sequence[ClearSummary],
) -> None:
    """Seal summaries in place. The caller has removed them from the indexes."""
    async with connection.cursor() as many:
        await many.executemany(
            _SEAL_SUMMARY,
            [
                {
                    **scope.parameters,
                    "conversation_id": each.conversation_id,
                    "sealed": key.seal(
                        each.words,
                        summary_place(each.conversation_id),
                        version=each.sealed_version + 1,
                    ),
                    "sealed_version": each.sealed_version + 1,
                }
                for each in summaries
            ],
        )


async def delete_summary_vectors(connection: Connection, scope: Scope) -> int:
    """Remove the vectors of summaries that are sealed; how many."""
    return (await connection.execute(_DELETE_SUMMARY_VECTORS, scope.parameters)).rowcount


async def clear_replies(connection: Connection, scope: Scope, *, limit: int) -> list[ClearReply]:
    """Unusable replies sealed with the installation's secret."""
    cursor = await connection.execute(_CLEAR_REPLIES, {**scope.parameters, "limit": limit})
    return [ClearReply(*row) for row in await cursor.fetchall()]


async def seal_reply(
    connection: Connection, scope: Scope, reply: ClearReply, sealed: str | None
) -> None:
    """Store a reply sealed with the user's key instead; None: delete it."""
    await connection.execute(
        _DROP_REPLY if sealed is None else _SEAL_REPLY,
        {**scope.parameters, "job_id": reply.job_id, "claim_no": reply.claim_no, "sealed": sealed},
    )
