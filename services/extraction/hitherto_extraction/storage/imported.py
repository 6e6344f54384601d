"""Reads and prepares what an import finds: the user, and the rows that others refer to.

The caller holds the user's row. The role is hitherto_write.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from hitherto_shared.database.pool import Connection
from hitherto_shared.models import Scope

_READ_USER = """
SELECT created_at, memory_enabled
FROM users
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""

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

# What the user chose here already stays.
_ADOPT = """
UPDATE users
SET created_at = r.created_at,
    memory_enabled = coalesce(users.memory_enabled, r.memory_enabled),
    learning_enabled = coalesce(users.learning_enabled, r.learning_enabled),
    retention_days = coalesce(users.retention_days, r.retention_days),
    message_retention_days = coalesce(users.message_retention_days, r.message_retention_days),
    encrypt_sensitive = coalesce(users.encrypt_sensitive, r.encrypt_sensitive),
    time_zone = coalesce(users.time_zone, r.time_zone)
FROM jsonb_populate_record(NULL::users, %(row)s::jsonb) AS r
WHERE users.tenant_id = %(tenant_id)s AND users.user_id = %(user_id)s
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


@dataclass(frozen=True, slots=True)
class KnownUser:
    """The user's row; None: the user has not chosen whether memory is on."""

    created_at: datetime
    memory_enabled: bool | None


async def read_user(connection: Connection, scope: Scope) -> KnownUser | None:
    """The user's row, if there is one."""
    return await connection.fetch_one(KnownUser, _READ_USER, scope.parameters)


async def holds_something(connection: Connection, scope: Scope) -> bool:
    """Whether anything is stored about the user besides settings."""
    return bool(await connection.fetch_value(_HOLDS, scope.parameters))


async def adopt(connection: Connection, scope: Scope, row: Mapping[str, Any]) -> None:
    """Make the user's row that of an export, with the settings that the user has not chosen."""
    await connection.execute(_ADOPT, scope.bind(row=json.dumps(row)))


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
