"""Reads the results of a rehearsed extraction before it is rolled back."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from hitherto_shared.database.pool import Connection
from hitherto_shared.models import Entity, Scope

_ENTITIES = """
SELECT entity_id, name, type, mention_count, aliases, metadata, created_at >= now()
FROM entities AS e
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND EXISTS (
      SELECT FROM entity_mentions AS em
      WHERE em.tenant_id = e.tenant_id AND em.user_id = e.user_id
        AND em.entity_id = e.entity_id AND em.memory_id = ANY(%(memory_ids)s))
ORDER BY mention_count DESC, name
"""

_COUNT_MESSAGES = """
SELECT count(*)
FROM messages
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND conversation_id = %(conversation_id)s
"""


async def entities_of(
    connection: Connection, scope: Scope, memory_ids: Sequence[UUID]
) -> list[tuple[Entity, bool]]:
    """The entities these memories mention, and whether this transaction created them."""
    cursor = await connection.execute(_ENTITIES, scope.bind(memory_ids=list(memory_ids)))
    return [(Entity(*row[:6]), row[6]) for row in await cursor.fetchall()]


async def count_messages(connection: Connection, scope: Scope, conversation_id: str) -> int:
    """The number of stored messages of a conversation."""
    return int(
        await connection.fetch_value(_COUNT_MESSAGES, scope.bind(conversation_id=conversation_id))
        or 0
    )
