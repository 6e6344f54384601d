"""Seals a user's unusable replies, and deletes vectors of words that are sealed by now.

The role is hitherto_removal, in a transaction that holds the user's row.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from uuid import UUID

from hitherto_shared.database.pool import Connection
from hitherto_shared.models import Scope

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
class ClearReply:
    """An unusable reply sealed with the installation's secret."""

    job_id: UUID
    claim_no: int
    sealed: str


async def learnt_from(
    connection: Connection, scope: Scope, messages: Sequence[tuple[str, str]]
) -> list[UUID]:
    """The memories in clear that were learnt from messages, by conversation and id; locked."""
    cursor = await connection.execute(
        _LEARNT_FROM,
        {
            **scope.parameters,
            "conversations": [conversation_id for conversation_id, _ in messages],
            "message_ids": [message_id for _, message_id in messages],
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
