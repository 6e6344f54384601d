"""Writes memories: the current rows, their versions, sources and vectors."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from pgvector import HalfVector

from hitherto_extraction.storage.sealed_rows import stored_memory
from hitherto_shared.database.lean import later
from hitherto_shared.database.pool import Connection
from hitherto_shared.embeddings.protocol import Vector
from hitherto_shared.models import Scope, SourceRef

_INSERT = """
INSERT INTO memories (tenant_id, user_id, memory_id, type, content, detail, importance, confidence,
    source, origin, status, tags, keywords, context, conversation_id, valid_from, valid_to, said_at,
    superseded_by, supersedes, challenges, created_at, updated_at, job_id, lexical_no,
    lexical_length, embedding_state, metadata, expires_at, sensitive, questions, sealed)
VALUES (%(tenant_id)s, %(user_id)s, %(memory_id)s, %(type)s, %(content)s, %(detail)s,
    %(importance)s, %(confidence)s, %(source)s, %(origin)s, %(status)s, %(tags)s, %(keywords)s,
    %(context)s, %(conversation_id)s, %(valid_from)s, %(valid_to)s, %(said_at)s, %(superseded_by)s,
    %(supersedes)s, %(challenges)s, %(at)s, %(at)s, %(job_id)s, %(lexical_no)s, %(lexical_length)s,
    %(embedding_state)s, %(metadata)s, %(expires_at)s, %(sensitive)s, %(questions)s, %(sealed)s)
"""

# The version that is about to be replaced, stored with the period in which it was current.
_KEEP_VERSION = """
INSERT INTO memory_versions (tenant_id, user_id, memory_id, version, type, content, detail,
    importance, confidence, origin, status, tags, keywords, context, metadata, valid_from,
    valid_to, expires_at, superseded_by, sensitive, said_at, supersedes, job_id, sealed, known_from,
    known_to)
SELECT tenant_id, user_id, memory_id, version, type, content, detail, importance, confidence,
       origin, status, tags, keywords, context, metadata, valid_from, valid_to, expires_at,
       superseded_by, sensitive, said_at, supersedes, job_id, sealed, updated_at,
       greatest(updated_at, %(at)s)
FROM memories
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = %(memory_id)s
RETURNING version
"""

_REWRITE = """
UPDATE memories
SET version = version + 1,
    text_version = CASE WHEN content = %(content)s THEN text_version ELSE version + 1 END,
    content = %(content)s, detail = %(detail)s,
    importance = %(importance)s, confidence = %(confidence)s, origin = %(origin)s,
    tags = %(tags)s, keywords = %(keywords)s, questions = %(questions)s, status = %(status)s,
    said_at = %(said_at)s,
    challenges = CASE WHEN %(status)s = 'quarantined' THEN challenges ELSE '{}' END,
    lexical_no = coalesce(%(lexical_no)s, lexical_no),
    lexical_length = coalesce(%(lexical_length)s, lexical_length),
    embedding_state = coalesce(%(embedding_state)s, embedding_state),
    updated_at = greatest(updated_at, %(at)s), job_id = %(job_id)s
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = %(memory_id)s
"""

# More evidence for the same words: no new version.
_CONFIRM = """
UPDATE memories SET said_at = greatest(said_at, %(said_at)s)
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = %(memory_id)s
"""

_CLOSE = """
UPDATE memories
SET version = version + 1, status = %(status)s, importance = %(importance)s,
    valid_to = greatest(valid_from, %(valid_to)s), superseded_by = %(superseded_by)s,
    updated_at = greatest(updated_at, %(at)s), job_id = %(job_id)s
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = %(memory_id)s
"""

_MIRROR_STATUS = """
UPDATE memory_embeddings SET status = %(status)s
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = %(memory_id)s
"""

_ADD_SUPERSEDES = """
UPDATE memories SET supersedes = supersedes || %(memory_id)s
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = %(by)s
  AND NOT %(memory_id)s = ANY(supersedes)
"""

_REMOVE_SUPERSEDES = """
UPDATE memories SET supersedes = array_remove(supersedes, %(memory_id)s)
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = %(by)s
"""

_ADD_CHALLENGE = """
UPDATE memories SET challenges = challenges || %(challenged)s
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = %(memory_id)s
  AND NOT %(challenged)s = ANY(challenges)
"""

_ADD_SOURCE = """
INSERT INTO memory_sources (tenant_id, user_id, memory_id, conversation_id, message_id)
VALUES (%(tenant_id)s, %(user_id)s, %(memory_id)s, %(conversation_id)s, %(message_id)s)
ON CONFLICT DO NOTHING
"""

_WRITE_VECTOR = """
INSERT INTO memory_embeddings (tenant_id, user_id, memory_id, model, dimensions, status, embedding,
                               text_version)
SELECT m.tenant_id, m.user_id, m.memory_id, %(model)s, %(dimensions)s, %(status)s, %(vector)s,
       m.text_version
FROM memories AS m
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.memory_id = %(memory_id)s
  AND m.sealed IS NULL
ON CONFLICT (tenant_id, user_id, memory_id, model) DO UPDATE
SET embedding = EXCLUDED.embedding, status = EXCLUDED.status,
    text_version = EXCLUDED.text_version
"""

# For a user with encryption on, messages are sealed and have no vector in clear.
_WRITE_SOURCE_VECTOR = """
INSERT INTO memory_source_embeddings (tenant_id, user_id, memory_id, model, dimensions, embedding)
SELECT m.tenant_id, m.user_id, m.memory_id, %(model)s, %(dimensions)s, %(vector)s
FROM memories AS m
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.memory_id = %(memory_id)s
  AND m.sealed IS NULL
  AND NOT EXISTS (
      SELECT FROM users AS u
      WHERE u.tenant_id = m.tenant_id AND u.user_id = m.user_id AND u.encrypt_sensitive)
FOR KEY SHARE OF m
ON CONFLICT (tenant_id, user_id, memory_id, model) DO UPDATE SET embedding = EXCLUDED.embedding
"""


async def insert(
    connection: Connection,
    scope: Scope,
    rows: Sequence[Mapping[str, Any]],
    *,
    sealed: Collection[UUID] = (),
) -> None:
    """Store new memories, those with ids in `sealed` sealed.

    A row holds the columns in clear; `at` is the time of writing.
    """
    async with connection.cursor() as cursor:
        await cursor.executemany(
            _INSERT,
            [
                {
                    **scope.parameters,
                    **row,
                    **stored_memory(
                        scope, {**row, "version": 1}, sealed=row["memory_id"] in sealed
                    ),
                }
                for row in rows
            ],
        )


async def rewrite(connection: Connection, scope: Scope, fields: Mapping[str, Any]) -> None:
    """Write the next version of a memory that is not sealed, and keep the previous one.

    `lexical_no`, `lexical_length` and `embedding_state` None leave them unchanged.
    """
    values = {**scope.parameters, **fields}
    await keep_version(connection, values)
    await later(connection, _REWRITE, values)
    await mirror_status(connection, values)


async def keep_version(connection: Connection, values: Mapping[str, Any]) -> int:
    """Store the version that a change is about to replace, and return its number.

    `values` name the memory and `at`. The number is 0 if there is no such memory.
    """
    cursor = await connection.execute(_KEEP_VERSION, values)
    row = await cursor.fetchone()
    return int(row[0]) if row else 0


async def mirror_status(connection: Connection, values: Mapping[str, Any]) -> None:
    """Update the copy of a memory's status beside its vector."""
    await later(connection, _MIRROR_STATUS, values)


async def confirm(connection: Connection, scope: Scope, memory_id: UUID, said_at: datetime) -> None:
    """Record when a memory was last repeated in the same words."""
    await later(
        connection, _CONFIRM, {**scope.parameters, "memory_id": memory_id, "said_at": said_at}
    )


async def close(connection: Connection, scope: Scope, fields: Mapping[str, Any]) -> None:
    """Write the version with which a memory ends, and keep the previous one."""
    values = {**scope.parameters, **fields}
    await keep_version(connection, values)
    await later(connection, _CLOSE, values)
    await mirror_status(connection, values)
    if fields["superseded_by"] is not None:
        await add_superseded(connection, scope, fields["memory_id"], by=fields["superseded_by"])


async def add_superseded(
    connection: Connection, scope: Scope, memory_id: UUID, *, by: UUID
) -> None:
    """Let the newer of two memories name the older one, as the older names the newer."""
    await later(connection, _ADD_SUPERSEDES, {**scope.parameters, "memory_id": memory_id, "by": by})


async def remove_superseded(
    connection: Connection, scope: Scope, memory_id: UUID, *, by: UUID
) -> None:
    """Let the newer of two memories no longer name the older one."""
    await later(
        connection, _REMOVE_SUPERSEDES, {**scope.parameters, "memory_id": memory_id, "by": by}
    )


async def add_challenge(
    connection: Connection, scope: Scope, memory_id: UUID, challenged: UUID
) -> None:
    """Let a quarantined memory name one more that it would contradict."""
    await later(
        connection,
        _ADD_CHALLENGE,
        {**scope.parameters, "memory_id": memory_id, "challenged": challenged},
    )


async def add_sources(
    connection: Connection, scope: Scope, sources: Sequence[tuple[UUID, SourceRef]]
) -> None:
    """Record the messages that memories came from; known ones stay."""
    async with connection.cursor() as cursor:
        await cursor.executemany(
            _ADD_SOURCE,
            [
                {
                    **scope.parameters,
                    "memory_id": memory_id,
                    "conversation_id": source.conversation_id,
                    "message_id": source.message_id,
                }
                for memory_id, source in sources
            ],
        )


async def write_vectors(
    connection: Connection,
    scope: Scope,
    vectors: Sequence[tuple[UUID, str, Vector]],
    *,
    model: str,
) -> None:
    """Store the vectors of memories' present contents: (memory, status, vector)."""
    async with connection.cursor() as cursor:
        await cursor.executemany(
            _WRITE_VECTOR,
            [
                {
                    **scope.parameters,
                    "memory_id": memory_id,
                    "model": model,
                    "dimensions": len(vector),
                    "status": status,
                    "vector": HalfVector(vector),
                }
                for memory_id, status, vector in vectors
            ],
        )


async def write_source_vectors(
    connection: Connection, scope: Scope, vectors: Sequence[tuple[UUID, Vector]], *, model: str
) -> None:
    """Store the vectors of memories' source words."""
    async with connection.cursor() as cursor:
        await cursor.executemany(
            _WRITE_SOURCE_VECTOR,
            [
                {
                    **scope.parameters,
                    "memory_id": memory_id,
                    "model": model,
                    "dimensions": len(vector),
                    "vector": HalfVector(vector),
                }
                for memory_id, vector in vectors
            ],
        )
