"""Reads and prepares what an import finds: the user, and the rows that others refer to.

The caller holds the user's row. The role is hitherto_write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from hitherto_extraction.storage import user_settings
from hitherto_shared.database.pool import Connection
from hitherto_shared.models import Scope

# Settings alone are no data.
_HOLDS = """
SELECT EXISTS (SELECT FROM memories
               WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s)
    OR EXISTS (SELECT FROM conversations
               WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s)
    OR EXISTS (SELECT FROM profiles
               WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s)
    OR EXISTS (SELECT FROM documents
               WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s)
    OR EXISTS (SELECT FROM entities
               WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s)
    OR EXISTS (SELECT FROM preferences
               WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s)
    OR EXISTS (SELECT FROM feedback
               WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s)
    OR EXISTS (SELECT FROM history
               WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s)
    OR EXISTS (SELECT FROM session_contexts
               WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s)
    OR EXISTS (SELECT FROM recent_items
               WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s)
    OR EXISTS (SELECT FROM pending_actions
               WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s)
"""

_ADOPT = """
UPDATE users SET created_at = %(created_at)s::timestamptz
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""

_HELD_MEMORIES = """
SELECT memory_id, sealed IS NOT NULL
FROM memories
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = ANY(%(memory_ids)s)
"""

_HELD_CHUNKS = """
SELECT chunk_id
FROM document_chunks
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND chunk_id = ANY(%(chunk_ids)s)
"""

_HEADINGS = """
SELECT document_id, ingested_heading
FROM documents
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND document_id = ANY(%(document_ids)s)
"""

# Memories are inserted in a state in which no vector is computed for them, because their sources
# follow.
_NOT_INDEXED = """
SELECT memory_id
FROM memories
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id > %(after)s
  AND embedding_state = 'refused' AND lexical_length = 0
ORDER BY memory_id
LIMIT %(limit)s
"""

_AWAIT_VECTORS = """
UPDATE memories SET embedding_state = 'pending'
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = ANY(%(memory_ids)s)
  AND embedding_state = 'refused'
"""


async def holds_something(connection: Connection, scope: Scope) -> bool:
    """Whether anything is stored about the user besides settings."""
    return bool(await connection.fetch_value(_HOLDS, scope.parameters))


async def adopt(connection: Connection, scope: Scope, row: Mapping[str, Any]) -> None:
    """Make the user's row that of an export, with the settings that the user has not chosen."""
    await connection.execute(_ADOPT, scope.bind(created_at=row["created_at"]))
    chosen = await user_settings.read(connection, scope)
    settings = {name: row[name] if held is None else held for name, held in chosen.items()}
    await user_settings.write(connection, scope, settings)


async def held_memories(
    connection: Connection, scope: Scope, memory_ids: Sequence[str]
) -> dict[str, bool]:
    """Those of the memories that are stored, and whether they are sealed."""
    values = scope.bind(memory_ids=[UUID(each) for each in memory_ids])
    rows = await connection.fetch_rows(_HELD_MEMORIES, values)
    return {str(memory_id): sealed for memory_id, sealed in rows}


async def held_chunks(connection: Connection, scope: Scope, chunk_ids: Sequence[str]) -> set[str]:
    """Those of the chunks that are stored."""
    values = scope.bind(chunk_ids=[UUID(each) for each in chunk_ids])
    return set(map(str, await connection.fetch_values(_HELD_CHUNKS, values)))


async def headings(
    connection: Connection, scope: Scope, document_ids: Sequence[str]
) -> dict[str, str]:
    """The text that precedes the chunks of each document in the indexes."""
    values = scope.bind(document_ids=[UUID(each) for each in document_ids])
    rows = await connection.fetch_rows(_HEADINGS, values)
    return {str(document_id): heading for document_id, heading in rows}


async def not_indexed(
    connection: Connection, scope: Scope, *, after: UUID, limit: int
) -> list[UUID]:
    """The next inserted memories, by id, that are not in the keyword index yet."""
    return await connection.fetch_values(_NOT_INDEXED, scope.bind(after=after, limit=limit))


async def await_vectors(connection: Connection, scope: Scope, memory_ids: Sequence[UUID]) -> None:
    """Let memories wait for vectors, with those of their source words."""
    await connection.execute(_AWAIT_VECTORS, scope.bind(memory_ids=list(memory_ids)))
