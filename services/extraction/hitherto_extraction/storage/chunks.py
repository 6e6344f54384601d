"""Document chunks as rows, with their numbers in the keyword index.

Writers hold the user's row. The role is hitherto_write or hitherto_removal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from hitherto_extraction.storage.corpora import index
from hitherto_extraction.storage.corpora.documents import DOCUMENTS
from hitherto_shared.database.arrays import Integers, Texts, Uuids
from hitherto_shared.database.pool import Connection
from hitherto_shared.models import Scope

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

_DELETE = """
DELETE FROM document_chunks
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND chunk_id = ANY(%(chunk_ids)s)
"""


@dataclass(frozen=True, slots=True)
class IndexedChunk:
    """A chunk, its position in the document, and its number and number of terms in the index."""

    chunk_id: UUID
    content: str
    position: int
    lexical_no: int
    lexical_length: int


async def read(connection: Connection, scope: Scope, document_id: UUID) -> list[IndexedChunk]:
    """The chunks of a document, in order."""
    return await connection.fetch(IndexedChunk, _READ, scope.bind(document_id=document_id))


async def insert(
    connection: Connection, scope: Scope, document_id: UUID, chunks: Sequence[IndexedChunk]
) -> None:
    """Store new chunks, which wait for their vectors."""
    if not chunks:
        return
    await connection.execute(
        _INSERT,
        scope.bind(
            document_id=document_id,
            chunk_ids=Uuids(chunk.chunk_id for chunk in chunks),
            positions=Integers(chunk.position for chunk in chunks),
            contents=Texts(chunk.content for chunk in chunks),
            lexical_nos=Integers(chunk.lexical_no for chunk in chunks),
            lexical_lengths=Integers(chunk.lexical_length for chunk in chunks),
        ),
    )


async def move(connection: Connection, scope: Scope, positions: Mapping[UUID, int]) -> None:
    """Move remaining chunks to their new positions, all at once."""
    if positions:
        await connection.execute(
            _MOVE, scope.bind(chunk_ids=Uuids(positions), positions=Integers(positions.values()))
        )


async def delete(
    connection: Connection, scope: Scope, chunk_ids: Sequence[UUID]
) -> tuple[int, int]:
    """Delete chunks with their words and vectors; returns the numbers of chunks and vectors."""
    keys = [(str(chunk_id), 0) for chunk_id in chunk_ids]
    vectors = await index.drop(connection, scope, DOCUMENTS, keys)
    cursor = await connection.execute(_DELETE, scope.bind(chunk_ids=Uuids(chunk_ids)))
    return cursor.rowcount, vectors
