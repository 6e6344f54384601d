"""Document chunks, their keyword index numbers and their vectors.

Writers hold the user's row. The role is hitherto_write or hitherto_removal; chunks that wait for a
vector are found across users with hitherto_maintenance.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from pgvector import HalfVector

from hitherto_shared.database.arrays import Integers, Texts, Uuids
from hitherto_shared.database.pool import Connection
from hitherto_shared.embeddings.protocol import Vector
from hitherto_shared.models import Scope

_VECTORS_AT_ONCE = 256

_READ = """
SELECT chunk_id, content, position, lexical_no, lexical_length
FROM document_chunks
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND document_id = %(document_id)s
ORDER BY position
"""

_INSERT = """
INSERT INTO document_chunks (tenant_id, user_id, document_id, chunk_id, position, content,
                             lexical_no, lexical_length)
SELECT %(tenant_id)s, %(user_id)s, %(document_id)s, new.*
FROM unnest(%(chunk_ids)s::uuid[], %(positions)s::int[], %(contents)s::text[],
            %(lexical_nos)s::int[], %(lexical_lengths)s::int[]) AS new
"""

_MOVE = """
UPDATE document_chunks AS c SET position = moved.position
FROM unnest(%(chunk_ids)s::uuid[], %(positions)s::int[]) AS moved (chunk_id, position)
WHERE c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s AND c.chunk_id = moved.chunk_id
  AND c.position <> moved.position
"""

_DELETE_VECTORS = """
DELETE FROM document_chunk_embeddings
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND chunk_id = ANY(%(chunk_ids)s)
"""

_DELETE = """
DELETE FROM document_chunks
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND chunk_id = ANY(%(chunk_ids)s)
"""

_WRITE_VECTORS = """
INSERT INTO document_chunk_embeddings (tenant_id, user_id, chunk_id, model, dimensions, embedding)
SELECT %(tenant_id)s, %(user_id)s, new.chunk_id, %(model)s, %(dimensions)s, new.embedding
FROM unnest(%(chunk_ids)s::uuid[], %(vectors)s::halfvec[]) AS new (chunk_id, embedding)
"""

# Run after the vectors are inserted: their foreign key locks the model's row, so that no change of
# the active model comes in between, and an earlier one is seen here.
_SETTLE = """
UPDATE document_chunks SET embedding_state = 'stored'
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND chunk_id = ANY(%(chunk_ids)s)
  AND EXISTS (SELECT FROM embedding_models WHERE active AND model = %(model)s)
"""

_REFUSE = """
UPDATE document_chunks SET embedding_state = 'refused'
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND chunk_id = %(chunk_id)s
  AND embedding_state = 'pending'
"""

# Across users.
_FIND_PENDING = """
SELECT c.tenant_id, c.user_id, c.chunk_id,
       concat_ws(E'\\n', nullif(d.ingested_heading, ''), c.content)
FROM document_chunks AS c
JOIN documents AS d ON d.tenant_id = c.tenant_id AND d.user_id = c.user_id
     AND d.document_id = c.document_id
WHERE c.embedding_state = 'pending'
  AND NOT c.tenant_id = ANY(%(without)s)
ORDER BY c.chunk_id
LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True)
class IndexedChunk:
    """A chunk, its position in the document, and its number and number of terms in the index."""

    chunk_id: UUID
    content: str
    position: int
    lexical_no: int
    lexical_length: int


@dataclass(frozen=True, slots=True)
class PendingChunk:
    """A chunk that waits for its vector, with the text to embed, its document's heading first."""

    tenant_id: str
    user_id: str
    chunk_id: UUID
    text: str

    @property
    def text_id(self) -> UUID:
        """Identifies it among waiting texts."""
        return self.chunk_id

    @property
    def texts(self) -> list[str]:
        """The texts to embed."""
        return [self.text]


async def read(connection: Connection, scope: Scope, document_id: UUID) -> list[IndexedChunk]:
    """The chunks of a document, in order."""
    cursor = await connection.execute(_READ, {**scope.parameters, "document_id": document_id})
    return [IndexedChunk(*row) for row in await cursor.fetchall()]


async def insert(
    connection: Connection, scope: Scope, document_id: UUID, chunks: Sequence[IndexedChunk]
) -> None:
    """Store new chunks, which wait for their vectors."""
    if not chunks:
        return
    await connection.execute(
        _INSERT,
        {
            **scope.parameters,
            "document_id": document_id,
            "chunk_ids": Uuids(chunk.chunk_id for chunk in chunks),
            "positions": Integers(chunk.position for chunk in chunks),
            "contents": Texts(chunk.content for chunk in chunks),
            "lexical_nos": Integers(chunk.lexical_no for chunk in chunks),
            "lexical_lengths": Integers(chunk.lexical_length for chunk in chunks),
        },
    )


async def move(connection: Connection, scope: Scope, positions: Mapping[UUID, int]) -> None:
    """Move remaining chunks to their new positions, all at once."""
    if positions:
        await connection.execute(
            _MOVE,
            {
                **scope.parameters,
                "chunk_ids": Uuids(positions),
                "positions": Integers(positions.values()),
            },
        )


async def delete(
    connection: Connection, scope: Scope, chunk_ids: Sequence[UUID]
) -> tuple[int, int]:
    """Delete chunks with their vectors, but not their words.

    Returns the numbers of chunks and vectors.
    """
    values = {**scope.parameters, "chunk_ids": list(chunk_ids)}
    vectors = (await connection.execute(_DELETE_VECTORS, values)).rowcount
    return (await connection.execute(_DELETE, values)).rowcount, vectors


async def write_vectors(
    connection: Connection, scope: Scope, model: str, vectors: Mapping[UUID, Vector]
) -> None:
    """Store the vectors of new chunks.

    If another model is active by now, the chunks wait for its vectors.
    """
    chunk_ids = list(vectors)
    for start in range(0, len(chunk_ids), _VECTORS_AT_ONCE):
        some = chunk_ids[start : start + _VECTORS_AT_ONCE]
        await connection.execute(
            _WRITE_VECTORS,
            {
                **scope.parameters,
                "chunk_ids": some,
                "model": model,
                "dimensions": len(vectors[some[0]]),
                "vectors": [HalfVector(vectors[chunk_id]) for chunk_id in some],
            },
        )
    if chunk_ids:
        await connection.execute(
            _SETTLE, {**scope.parameters, "chunk_ids": chunk_ids, "model": model}
        )


async def settle_refused(connection: Connection, item: PendingChunk) -> None:
    """Mark a chunk that cannot have a vector: it is found by its words only."""
    await connection.execute(
        _REFUSE,
        {"tenant_id": item.tenant_id, "user_id": item.user_id, "chunk_id": item.chunk_id},
    )


async def find_pending_chunks(
    connection: Connection, *, limit: int, without: Collection[str] = ()
) -> list[PendingChunk]:
    """Chunks that wait for a vector, the oldest first. The role is hitherto_maintenance."""
    cursor = await connection.execute(_FIND_PENDING, {"limit": limit, "without": list(without)})
    return [PendingChunk(*row) for row in await cursor.fetchall()]
