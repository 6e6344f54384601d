"""Memories without a vector, across users: found by the maintenance role, settled one by one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from hitherto_shared.database.pool import Connection

# Across users.
_FIND = """
SELECT m.tenant_id, m.user_id, m.memory_id, m.version, m.status, m.content,
       coalesce((SELECT left(string_agg(g.content, E'\\n' ORDER BY g.message_no), 4000)
                 FROM memory_sources AS s
                 JOIN messages AS g ON g.tenant_id = s.tenant_id AND g.user_id = s.user_id
                      AND g.conversation_id = s.conversation_id
                      AND md5(g.message_id) = md5(s.message_id) AND g.message_id = s.message_id
                      AND g.sealed IS NULL
                 WHERE s.tenant_id = m.tenant_id AND s.user_id = m.user_id
                   AND s.memory_id = m.memory_id), '')
FROM memories AS m
WHERE m.embedding_state = 'pending' AND NOT m.tenant_id = ANY(%(without)s)
ORDER BY m.created_at
LIMIT %(limit)s
"""

_SETTLE = """
UPDATE memories SET embedding_state = %(state)s
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = %(memory_id)s
  AND version = %(version)s AND embedding_state = 'pending'
  AND EXISTS (SELECT FROM embedding_models WHERE active AND model = %(model)s)
"""


@dataclass(frozen=True, slots=True)
class Pending:
    """A memory that waits for its vector, with the words to embed."""

    tenant_id: str
    user_id: str
    memory_id: UUID
    version: int
    status: str
    content: str
    source_text: str

    @property
    def text_id(self) -> UUID:
        """Names it among what waits."""
        return self.memory_id

    @property
    def texts(self) -> list[str]:
        """What is to be embedded: its content, then the words it came from, if they are held."""
        return [self.content, self.source_text] if self.source_text else [self.content]


async def find(
    connection: Connection, *, limit: int, without: Collection[str] = ()
) -> list[Pending]:
    """The memories that have waited longest, but for those of some tenants."""
    cursor = await connection.execute(_FIND, {"limit": limit, "without": list(without)})
    return [Pending(*row) for row in await cursor.fetchall()]


async def settle(connection: Connection, item: Pending, *, model: str, state: str) -> bool:
    """Mark a memory as `stored` or `refused`.

    Only if it still is the version that was embedded, and `model` still the active one.
    """
    cursor = await connection.execute(
        _SETTLE,
        {
            "tenant_id": item.tenant_id,
            "user_id": item.user_id,
            "memory_id": item.memory_id,
            "version": item.version,
            "model": model,
            "state": state,
        },
    )
    return cursor.rowcount == 1
