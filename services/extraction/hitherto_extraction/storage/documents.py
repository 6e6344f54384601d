"""Documents as submitted, unique by user, source and the source's id, and their chunks.

Writers of chunks hold the user's row, with the role hitherto_write or hitherto_removal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from hitherto_extraction.storage.corpora import index
from hitherto_extraction.storage.corpora.documents import DOCUMENTS
from hitherto_shared.database.arrays import Integers, Uuids, fields_of, records
from hitherto_shared.database.pool import Connection
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.errors import not_found
from hitherto_shared.models import Scope

_FIND = """
SELECT wanted.place, d.document_id, d.content_hash, d.ingested_hash, d.job_id
FROM unnest(%(source_types)s::text[], %(source_ids)s::text[]) WITH ORDINALITY
    AS wanted (source_type, source_id, place)
JOIN documents AS d ON d.tenant_id = %(tenant_id)s AND d.user_id = %(user_id)s
     AND d.source_type = wanted.source_type AND md5(d.source_id) = md5(wanted.source_id)
     AND d.source_id = wanted.source_id
"""

# Documents whose present content no job has read.
_LAGGING = """
SELECT document_id, content_hash, ingested_hash, job_id
FROM documents
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND ingested_hash IS DISTINCT FROM content_hash
ORDER BY document_id
"""

# The time at the source stays unless a new one is given.
_STORE = """
INSERT INTO documents (tenant_id, user_id, document_id, source_type, source_id, content_type, title,
                       summary, content, author, metadata, source_created_at, content_hash,
                       expires_at, updated_at)
VALUES (%(tenant_id)s, %(user_id)s, %(document_id)s, %(source_type)s, %(source_id)s,
        %(content_type)s, %(title)s, %(summary)s, %(content)s, %(author)s, %(metadata)s,
        coalesce(%(created_at)s, statement_timestamp()), %(content_hash)s, %(expires_at)s,
        statement_timestamp())
ON CONFLICT (tenant_id, user_id, document_id) DO UPDATE
SET content_type = EXCLUDED.content_type, title = EXCLUDED.title, summary = EXCLUDED.summary,
    content = EXCLUDED.content, author = EXCLUDED.author, metadata = EXCLUDED.metadata,
    source_created_at = coalesce(%(created_at)s, documents.source_created_at),
    content_hash = EXCLUDED.content_hash, expires_at = EXCLUDED.expires_at,
    updated_at = EXCLUDED.updated_at
"""

_SET_EXPIRY = """
UPDATE documents SET expires_at = %(expires_at)s
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND document_id = %(document_id)s
  AND expires_at IS DISTINCT FROM %(expires_at)s
"""

# Never shorter, so that a slow reader does not undo what another one has postponed further.
_POSTPONE = """
UPDATE documents AS d SET expires_at = w.expires_at
FROM unnest(%(document_ids)s::uuid[], %(ends)s::timestamptz[]) AS w (document_id, expires_at)
WHERE d.tenant_id = %(tenant_id)s AND d.user_id = %(user_id)s AND d.document_id = w.document_id
  AND d.expires_at > now() AND d.expires_at < w.expires_at
RETURNING d.document_id
"""

# Across users, on the role hitherto_maintenance.
_EXPIRED = """
SELECT tenant_id, user_id, document_id
FROM documents
WHERE expires_at <= now()
ORDER BY expires_at
LIMIT %(limit)s
"""

_ASSIGN = """
UPDATE documents SET job_id = %(job_id)s
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND document_id = ANY(%(document_ids)s)
"""

_READ = """
SELECT document_id, source_type, content_type, title, summary, content, author, metadata,
       content_hash, ingested_hash, ingested_heading
FROM documents
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND document_id = %(document_id)s
"""

_STATE = """
SELECT content_hash, ingested_hash, ingested_heading AS heading,
       coalesce(expires_at <= now(), false)
FROM documents
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND document_id = %(document_id)s
"""

_INGESTED = """
UPDATE documents SET ingested_hash = content_hash, ingested_heading = %(heading)s
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND document_id = %(document_id)s
"""

_DELETE = """
DELETE FROM documents
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND document_id = %(document_id)s
"""

_READ_CHUNKS = """
SELECT chunk_id, content, position, lexical_no, lexical_length
FROM document_chunks
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND document_id = %(document_id)s
ORDER BY position
"""

_INSERT_CHUNKS = """
INSERT INTO document_chunks (tenant_id, user_id, document_id, chunk_id, position, content,
                             lexical_no, lexical_length)
SELECT u.tenant_id, u.user_id, %(document_id)s, new.chunk_id, new.position, new.content,
       new.lexical_no, new.lexical_length
FROM @its_user AS u
CROSS JOIN json_populate_recordset(NULL::document_chunks, %(rows)s) AS new
"""

_MOVE_CHUNKS = """
UPDATE document_chunks AS c SET position = moved.position
FROM unnest(%(chunk_ids)s::uuid[], %(positions)s::int[]) AS moved (chunk_id, position)
WHERE c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s AND c.chunk_id = moved.chunk_id
  AND c.position <> moved.position
"""

_DELETE_CHUNKS = """
DELETE FROM document_chunks
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND chunk_id = ANY(%(chunk_ids)s)
"""


@dataclass(frozen=True, slots=True)
class IncomingDocument:
    """A document as submitted; `content_hash` covers everything in it but `expires_at`."""

    source_type: str
    source_id: str
    content_type: str
    title: str
    summary: str
    content: str
    author: str
    created_at: datetime | None
    metadata: Mapping[str, Any]
    content_hash: bytes
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class ExistingDocument:
    """A stored document: its content's hash, and the hash of the content that was indexed.

    `job_id` is the job that reads, or has read, the present content.
    """

    document_id: UUID
    content_hash: bytes
    ingested_hash: bytes | None
    job_id: UUID | None

    @property
    def lags(self) -> bool:
        """Whether no job has read its present content yet."""
        return self.ingested_hash != self.content_hash


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """The fields of a document that a job reads."""

    document_id: UUID
    source_type: str
    content_type: str
    title: str
    summary: str
    content: str
    author: str
    metadata: Mapping[str, Any]
    content_hash: bytes
    ingested_hash: bytes | None
    ingested_heading: str


@dataclass(frozen=True, slots=True)
class State:
    """The hash of a document's content, of the indexed content, its heading, and its end."""

    content_hash: bytes
    ingested_hash: bytes | None
    heading: str
    expired: bool


@dataclass(frozen=True, slots=True)
class IndexedChunk:
    """A chunk, its position in the document, and its number and number of terms in the index."""

    chunk_id: UUID
    content: str
    position: int
    lexical_no: int
    lexical_length: int


async def find(user: UserRows, sources: Sequence[tuple[str, str]]) -> dict[int, ExistingDocument]:
    """The known documents among these (source_type, source_id), by position in the list."""
    rows = await user.fetch_rows(
        _FIND,
        source_types=[source_type for source_type, _ in sources],
        source_ids=[source_id for _, source_id in sources],
    )
    return {int(row[0]) - 1: ExistingDocument(*row[1:]) for row in rows}


async def find_lagging(user: UserRows) -> list[ExistingDocument]:
    """The documents whose present content no job has read yet."""
    return await user.fetch(ExistingDocument, _LAGGING)


async def store(user: UserRows, documents: Mapping[UUID, IncomingDocument]) -> None:
    """Store documents under their ids: new ones, and those with different content."""
    await user.later_for_each(
        _STORE,
        [
            fields_of(document) | {"document_id": document_id, "metadata": Jsonb(document.metadata)}
            for document_id, document in documents.items()
        ],
    )


async def set_expiry(user: UserRows, unchanged: Mapping[UUID, IncomingDocument]) -> None:
    """Set the expiry of documents with the same content."""
    await user.later_for_each(
        _SET_EXPIRY,
        [
            {"document_id": document_id, "expires_at": document.expires_at}
            for document_id, document in unchanged.items()
        ],
    )


async def postpone_expiry(user: UserRows, ends: Mapping[UUID, datetime]) -> list[UUID]:
    """Postpone the expiry of current documents that have an earlier one; returns which."""
    return await user.fetch_values(_POSTPONE, document_ids=list(ends), ends=list(ends.values()))


async def find_expired(connection: Connection, *, limit: int) -> list[tuple[Scope, UUID]]:
    """Documents of all users that have expired, the longest expired first."""
    rows = await connection.fetch_rows(_EXPIRED, {"limit": limit})
    return [(Scope(*owner), document_id) for *owner, document_id in rows]


async def assign(user: UserRows, document_ids: Sequence[UUID], job_id: UUID) -> None:
    """Record which job reads the present content of these documents."""
    await user.execute(_ASSIGN, document_ids=list(document_ids), job_id=job_id)


async def read(user: UserRows, document_id: UUID) -> StoredDocument | None:
    """The whole document, or None if it is gone."""
    return await user.fetch_one(StoredDocument, _READ, document_id=document_id)


async def read_state(user: UserRows, document_id: UUID) -> State | None:
    """The fields that a job compares before it writes; None if the document is gone."""
    return await user.fetch_one(State, _STATE, document_id=document_id)


async def require(user: UserRows, document_id: UUID) -> None:
    """Check that the user has a document.

    Raises:
        NotFound: The user has no such document.
    """
    if await read_state(user, document_id) is None:
        raise not_found("document", document_id)


async def mark_ingested(user: UserRows, document_id: UUID, *, heading: str) -> None:
    """Record that chunks and mentions are those of the present content."""
    await user.execute(_INGESTED, document_id=document_id, heading=heading)


async def delete(user: UserRows, document_id: UUID) -> int:
    """Delete the document itself, after everything else of it; returns how many there were."""
    return (await user.execute(_DELETE, document_id=document_id)).rowcount


async def read_chunks(user: UserRows, document_id: UUID) -> list[IndexedChunk]:
    """The chunks of a document, in order."""
    return await user.fetch(IndexedChunk, _READ_CHUNKS, document_id=document_id)


async def insert_chunks(user: UserRows, document_id: UUID, chunks: Sequence[IndexedChunk]) -> None:
    """Store new chunks, which wait for their vectors."""
    if chunks:
        rows = records([fields_of(chunk) for chunk in chunks])
        await user.execute(_INSERT_CHUNKS, document_id=document_id, rows=rows)


async def move_chunks(user: UserRows, positions: Mapping[UUID, int]) -> None:
    """Move remaining chunks to their new positions, all at once."""
    if positions:
        await user.execute(
            _MOVE_CHUNKS, chunk_ids=Uuids(positions), positions=Integers(positions.values())
        )


async def delete_chunks(user: UserRows, chunk_ids: Sequence[UUID]) -> tuple[int, int]:
    """Delete chunks with their words and vectors; returns the numbers of chunks and vectors."""
    keys = [(str(chunk_id), 0) for chunk_id in chunk_ids]
    vectors = await index.drop(user, DOCUMENTS, keys)
    cursor = await user.execute(_DELETE_CHUNKS, chunk_ids=Uuids(chunk_ids))
    return cursor.rowcount, vectors
