"""Memories without a vector: found across users with the maintenance role, settled one by one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from hitherto_shared.database.pool import Connection

# Across users.
_FIND = """
SELECT m.tenant_id, m.user_id, m.memory_id, m.version, m.status, m.content,
       coalesce((SELECT w.said FROM source_words AS w
                 WHERE w.tenant_id = m.tenant_id AND w.user_id = m.user_id
                   AND w.memory_id = m.memory_id), '')
FROM memories AS m
WHERE m.embedding_state = 'pending' AND NOT m.tenant_id = ANY(%(without)s)
ORDER BY m.created_at
LIMIT %(limit)s
"""

# The source words may have been sealed, deleted or rolled back since they were read.
_SETTLE = """
UPDATE memories AS m SET embedding_state = %(state)s
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.memory_id = %(memory_id)s
  AND m.version = %(version)s AND m.embedding_state = 'pending'
  AND %(source_text)s = coalesce((
      SELECT w.said FROM source_words AS w
      WHERE w.tenant_id = %(tenant_id)s AND w.user_id = %(user_id)s
        AND w.memory_id = %(memory_id)s), '')
  AND EXISTS (SELECT FROM embedding_models WHERE active AND model = %(model)s)
"""


@dataclass(frozen=True, slots=True)
class Pending:
    """A memory that waits for its vector, with the text to embed."""

    tenant_id: str
    user_id: str
    memory_id: UUID
    version: int
    status: str
    content: str
    source_text: str

    @property
    def text_id(self) -> UUID:
        """Identifies it among waiting texts."""
        return self.memory_id

    @property
    def texts(self) -> list[str]:
        """The texts to embed: its content, then its source words, if they exist."""
        return [self.content, self.source_text] if self.source_text else [self.content]


async def find(
    connection: Connection, *, limit: int, without: Collection[str] = ()
) -> list[Pending]:
    """The memories that have waited longest, except those of some tenants."""
    cursor = await connection.execute(_FIND, {"limit": limit, "without": list(without)})
    return [Pending(*row) for row in await cursor.fetchall()]


async def settle(connection: Connection, item: Pending, *, model: str, state: str) -> bool:
    """Mark a memory as `stored` or `refused`.

    Only if it is still the version that was embedded and came from the same words, and `model` is
    still active.
    """
    cursor = await connection.execute(
        _SETTLE,
        {
            "tenant_id": item.tenant_id,
            "user_id": item.user_id,
            "memory_id": item.memory_id,
            "version": item.version,
            "source_text": item.source_text,
            "model": model,
            "state": state,
        },
    )
    return cursor.rowcount == 1
