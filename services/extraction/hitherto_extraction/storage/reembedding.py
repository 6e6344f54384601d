"""Embedding models, across users: known models, missing vectors, the active model.

The role is hitherto_maintenance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pgvector import HalfVector

from hitherto_extraction.storage import passage_vectors
from hitherto_shared.database.pool import Connection
from hitherto_shared.embeddings.protocol import Vector

_MODELS = """
SELECT model, dimensions, active, target, previous
FROM embedding_models
WHERE active OR target OR previous
ORDER BY model
FOR UPDATE
"""

_LOOK = """
SELECT model, dimensions, active, target, previous
FROM embedding_models
WHERE active OR target OR previous
"""

_REGISTER = """
INSERT INTO embedding_models (model, dimensions)
VALUES (%(model)s, %(dimensions)s)
ON CONFLICT (model) DO NOTHING
"""

_DIMENSIONS = "SELECT dimensions FROM embedding_models WHERE model = %(model)s"

_CLEAR_TARGET = "UPDATE embedding_models SET target = false WHERE target"

# The target reverts to its role before a roll-back; the previous model stays what it is.
_SET_TARGET = """
UPDATE embedding_models SET target = true, previous = false WHERE model = %(model)s
"""

_CLEAR_PREVIOUS = "UPDATE embedding_models SET previous = false WHERE previous"

_RETIRE = """
UPDATE embedding_models SET active = false, previous = %(previous)s WHERE active
"""

_ACTIVATE = """
UPDATE embedding_models
SET active = true, target = false, previous = false, activated_at = clock_timestamp()
WHERE model = %(model)s
"""

# Across users: memories and passages without a vector of their present words wait for one.
_AWAIT_MEMORIES = """
UPDATE memories AS m
SET embedding_state = CASE m.embedding_state WHEN 'stored' THEN 'pending' ELSE 'stored' END
WHERE m.sealed IS NULL AND (m.embedding_state = 'stored') IS DISTINCT FROM EXISTS (
        SELECT FROM memory_embeddings AS e
        WHERE e.tenant_id = m.tenant_id AND e.user_id = m.user_id AND e.memory_id = m.memory_id
          AND e.model = %(model)s AND e.text_version = m.text_version)
"""

_AWAIT_CHUNKS = """
UPDATE document_chunks AS c
SET embedding_state = CASE c.embedding_state WHEN 'stored' THEN 'pending' ELSE 'stored' END
WHERE (c.embedding_state = 'stored') IS DISTINCT FROM EXISTS (
        SELECT FROM document_chunk_embeddings AS e
        WHERE e.tenant_id = c.tenant_id AND e.user_id = c.user_id AND e.chunk_id = c.chunk_id
          AND e.model = %(model)s)
"""

# Across users: what was written with the old model during the change.
_AWAIT_RECENT = """
UPDATE memories AS m SET embedding_state = 'pending'
FROM embedding_models AS a
WHERE a.active AND a.activated_at > now() - interval '10 minutes'
  AND m.embedding_state = 'stored' AND m.updated_at > a.activated_at - interval '2 minutes'
  AND NOT EXISTS (
      SELECT FROM memory_embeddings AS e
      WHERE e.tenant_id = m.tenant_id AND e.user_id = m.user_id AND e.memory_id = m.memory_id
        AND e.model = a.model AND e.text_version = m.text_version)
"""

# Across users.
_COUNT = """
SELECT count(*) FILTER (WHERE has), count(*) FILTER (WHERE NOT has)
FROM (
    SELECT EXISTS (
        SELECT FROM memory_embeddings AS e
        WHERE e.tenant_id = m.tenant_id AND e.user_id = m.user_id AND e.memory_id = m.memory_id
          AND e.model = %(model)s AND e.text_version = m.text_version) AS has
    FROM memories AS m
    WHERE m.sealed IS NULL
    UNION ALL
    SELECT EXISTS (
        SELECT FROM document_chunk_embeddings AS e
        WHERE e.tenant_id = c.tenant_id AND e.user_id = c.user_id AND e.chunk_id = c.chunk_id
          AND e.model = %(model)s)
    FROM document_chunks AS c
) AS texts
"""

# Across users, in the order of the key, so that a long back-fill reads the table once.
_MEMORIES_WITHOUT = """
SELECT m.tenant_id, m.user_id, m.memory_id, m.text_version, m.content,
       coalesce((SELECT w.said FROM source_words AS w
                 WHERE w.tenant_id = m.tenant_id AND w.user_id = m.user_id
                   AND w.memory_id = m.memory_id), '')
FROM memories AS m
WHERE (m.tenant_id, m.user_id, m.memory_id)
      > (%(tenant_id)s::text, %(user_id)s::text, %(text_id)s::uuid)
  AND m.sealed IS NULL
  AND NOT EXISTS (
      SELECT FROM memory_embeddings AS e
      WHERE e.tenant_id = m.tenant_id AND e.user_id = m.user_id AND e.memory_id = m.memory_id
        AND e.model = %(model)s AND e.text_version = m.text_version)
ORDER BY m.tenant_id, m.user_id, m.memory_id
LIMIT %(limit)s
"""

# Across users. A chunk is embedded with the heading of its document.
_CHUNKS_WITHOUT = """
SELECT c.tenant_id, c.user_id, c.chunk_id, 0,
       concat_ws(E'\\n', nullif(d.ingested_heading, ''), c.content), ''
FROM document_chunks AS c
JOIN documents AS d ON d.tenant_id = c.tenant_id AND d.user_id = c.user_id
     AND d.document_id = c.document_id
WHERE (c.tenant_id, c.user_id, c.chunk_id)
      > (%(tenant_id)s::text, %(user_id)s::text, %(text_id)s::uuid)
  AND NOT EXISTS (
      SELECT FROM document_chunk_embeddings AS e
      WHERE e.tenant_id = c.tenant_id AND e.user_id = c.user_id AND e.chunk_id = c.chunk_id
        AND e.model = %(model)s)
ORDER BY c.tenant_id, c.user_id, c.chunk_id
LIMIT %(limit)s
"""

# Only if the memory still has the words that were embedded.
_WRITE_MEMORY = """
INSERT INTO memory_embeddings (tenant_id, user_id, memory_id, model, dimensions, status, embedding,
                               text_version)
SELECT m.tenant_id, m.user_id, m.memory_id, %(model)s, %(dimensions)s, m.status, %(vector)s,
       m.text_version
FROM memories AS m
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.memory_id = %(text_id)s
  AND m.text_version = %(text_version)s AND m.sealed IS NULL
FOR KEY SHARE
ON CONFLICT (tenant_id, user_id, memory_id, model) DO UPDATE
SET embedding = EXCLUDED.embedding, status = EXCLUDED.status,
    text_version = EXCLUDED.text_version
"""

# Only if the source words are still those that were embedded. For a user with encryption on they
# are sealed and have no vector in clear.
_WRITE_SOURCE = """
INSERT INTO memory_source_embeddings (tenant_id, user_id, memory_id, model, dimensions, embedding)
SELECT m.tenant_id, m.user_id, m.memory_id, %(model)s, %(dimensions)s, %(vector)s
FROM memories AS m
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.memory_id = %(text_id)s
  AND m.sealed IS NULL
  AND %(source_text)s = coalesce((
      SELECT w.said FROM source_words AS w
      WHERE w.tenant_id = %(tenant_id)s AND w.user_id = %(user_id)s
        AND w.memory_id = %(text_id)s), '')
  AND NOT EXISTS (
      SELECT FROM users AS u
      WHERE u.tenant_id = m.tenant_id AND u.user_id = m.user_id AND u.encrypt_sensitive)
FOR KEY SHARE OF m
ON CONFLICT (tenant_id, user_id, memory_id, model) DO UPDATE SET embedding = EXCLUDED.embedding
"""

_WRITE_CHUNK = """
INSERT INTO document_chunk_embeddings (tenant_id, user_id, chunk_id, model, dimensions, embedding)
SELECT c.tenant_id, c.user_id, c.chunk_id, %(model)s, %(dimensions)s, %(vector)s
FROM document_chunks AS c
WHERE c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s AND c.chunk_id = %(text_id)s
ON CONFLICT (tenant_id, user_id, chunk_id, model) DO UPDATE SET embedding = EXCLUDED.embedding
"""

START = ("", "", UUID(int=0))
"""Before the first text in the order of the keys."""


@dataclass(frozen=True, slots=True)
class EmbeddingModel:
    """A model and its role."""

    name: str
    dimensions: int
    active: bool
    target: bool
    previous: bool


@dataclass(frozen=True, slots=True)
class TextToEmbed:
    """A memory or passage without a vector; `source_text` are the words a memory came from."""

    tenant_id: str
    user_id: str
    text_id: UUID
    text_version: int
    content: str
    source_text: str

    @property
    def key(self) -> tuple[str, str, UUID]:
        """Its position in the order of the keys."""
        return self.tenant_id, self.user_id, self.text_id


async def models(connection: Connection, *, lock: bool = False) -> list[EmbeddingModel]:
    """The models with a role; locked until the transaction ends if requested."""
    cursor = await connection.execute(_MODELS if lock else _LOOK)
    return [EmbeddingModel(*row) for row in await cursor.fetchall()]


async def register(connection: Connection, model: str, dimensions: int) -> int:
    """Register a model; returns its registered dimensions."""
    values = {"model": model, "dimensions": dimensions}
    await connection.execute(_REGISTER, values)
    cursor = await connection.execute(_DIMENSIONS, values)
    row = await cursor.fetchone()
    assert row is not None
    return int(row[0])


async def set_target(connection: Connection, model: str) -> None:
    """Make a model the target of the back-fill."""
    await connection.execute(_CLEAR_TARGET)
    await connection.execute(_SET_TARGET, {"model": model})


async def activate(connection: Connection, model: str, *, keep_previous: bool) -> None:
    """Make a model active and, if requested, keep the one before it for a roll-back.

    Items that lack its vector wait for one from now on, and are found by their words meanwhile.
    """
    await connection.execute(_CLEAR_PREVIOUS)
    await connection.execute(_RETIRE, {"previous": keep_previous})
    await connection.execute(_ACTIVATE, {"model": model})
    await connection.execute(_AWAIT_MEMORIES, {"model": model})
    await connection.execute(_AWAIT_CHUNKS, {"model": model})
    await passage_vectors.activate(connection, model)


async def await_recent(connection: Connection) -> int:
    """Let items embedded with the old model during a change wait for a new vector."""
    return (await connection.execute(_AWAIT_RECENT)).rowcount


async def count(connection: Connection, model: str) -> tuple[int, int]:
    """How many texts have a vector of the model, and how many do not."""
    cursor = await connection.execute(_COUNT, {"model": model})
    row = await cursor.fetchone()
    assert row is not None
    has, lacks = await passage_vectors.count(connection, model)
    return int(row[0]) + has, int(row[1]) + lacks


async def memories_without(
    connection: Connection, model: str, *, after: tuple[str, str, UUID], limit: int
) -> list[TextToEmbed]:
    """The next memories without a vector of their present words."""
    return await _without(connection, _MEMORIES_WITHOUT, model, after, limit)


async def chunks_without(
    connection: Connection, model: str, *, after: tuple[str, str, UUID], limit: int
) -> list[TextToEmbed]:
    """The next document chunks without a vector."""
    return await _without(connection, _CHUNKS_WITHOUT, model, after, limit)


async def write_memory(
    connection: Connection, text: TextToEmbed, model: str, vector: Vector
) -> None:
    """Store a memory's vector, if the memory still has the words it was computed from."""
    await connection.execute(_WRITE_MEMORY, _values(text, model, vector))


async def write_source(
    connection: Connection, text: TextToEmbed, model: str, vector: Vector
) -> None:
    """Store the vector of a memory's source words, if these are unchanged."""
    await connection.execute(_WRITE_SOURCE, _values(text, model, vector))


async def write_chunk(
    connection: Connection, text: TextToEmbed, model: str, vector: Vector
) -> None:
    """Store the vector of a chunk."""
    await connection.execute(_WRITE_CHUNK, _values(text, model, vector))


async def _without(
    connection: Connection,
    statement: str,
    model: str,
    after: tuple[str, str, UUID],
    limit: int,
) -> list[TextToEmbed]:
    cursor = await connection.execute(
        statement,
        {
            "tenant_id": after[0],
            "user_id": after[1],
            "text_id": after[2],
            "model": model,
            "limit": limit,
        },
    )
    return [TextToEmbed(*row) for row in await cursor.fetchall()]


def _values(text: TextToEmbed, model: str, vector: Vector) -> dict[str, Any]:
    return {
        "tenant_id": text.tenant_id,
        "user_id": text.user_id,
        "text_id": text.text_id,
        "text_version": text.text_version,
        "source_text": text.source_text,
        "model": model,
        "dimensions": len(vector),
        "vector": HalfVector(vector),
    }
