"""The statements about chunks of documents as a corpus. A chunk's words never change."""

from __future__ import annotations

from hitherto_extraction.storage.corpora.corpus import PassageCorpus, beginning

# Across users. A chunk is embedded with the heading of its document.
_PENDING = """
SELECT c.tenant_id, c.user_id, c.chunk_id::text, 0, d.ingested_heading, c.content
FROM document_chunks AS c
JOIN documents AS d ON d.tenant_id = c.tenant_id AND d.user_id = c.user_id
     AND d.document_id = c.document_id
WHERE c.embedding_state = 'pending' AND NOT c.tenant_id = ANY(%(without)s)
ORDER BY c.chunk_id
LIMIT %(limit)s
"""

# Across users.
_WITHOUT = """
SELECT c.tenant_id, c.user_id, c.chunk_id::text, 0, d.ingested_heading, c.content
FROM document_chunks AS c
JOIN documents AS d ON d.tenant_id = c.tenant_id AND d.user_id = c.user_id
     AND d.document_id = c.document_id
WHERE (c.tenant_id, c.user_id, c.chunk_id)
      > (%(tenant_id)s::text, %(user_id)s::text, %(id)s::uuid)
  AND NOT @chunk_has_vector(c)
ORDER BY c.tenant_id, c.user_id, c.chunk_id
LIMIT %(limit)s
"""

_WRITE = """
INSERT INTO document_chunk_embeddings (tenant_id, user_id, chunk_id, model, dimensions, embedding)
SELECT c.tenant_id, c.user_id, c.chunk_id, %(model)s, %(dimensions)s, new.embedding
FROM unnest(%(ids)s::uuid[], %(vectors)b::halfvec[]) AS new (chunk_id, embedding)
JOIN document_chunks AS c ON c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s
     AND c.chunk_id = new.chunk_id
ORDER BY c.tenant_id, c.user_id, c.chunk_id
FOR KEY SHARE OF c
ON CONFLICT (tenant_id, user_id, chunk_id, model) DO UPDATE SET embedding = EXCLUDED.embedding
"""

_SETTLE = """
UPDATE document_chunks AS c SET embedding_state = %(state)s
FROM unnest(%(ids)s::uuid[]) AS done (chunk_id)
WHERE c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s AND c.chunk_id = done.chunk_id
  AND c.embedding_state = 'pending'
  AND EXISTS (SELECT FROM embedding_models WHERE active AND model = %(model)s)
"""

# Across users.
_EXPECT = """
UPDATE document_chunks AS c
SET embedding_state = CASE WHEN c.embedding_state = 'stored' THEN 'pending' ELSE 'stored' END
WHERE (c.embedding_state = 'stored') IS DISTINCT FROM @chunk_has_vector(c)
"""

_INDEXED = """
SELECT c.lexical_no, c.lexical_length, d.ingested_heading, c.content
FROM document_chunks AS c
JOIN documents AS d ON d.tenant_id = %(tenant_id)s AND d.user_id = %(user_id)s
     AND d.document_id = c.document_id
WHERE c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s AND c.chunk_id = ANY(%(ids)s::uuid[])
ORDER BY c.chunk_id
FOR UPDATE OF c
"""

_DELETE_VECTORS = """
DELETE FROM document_chunk_embeddings
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND chunk_id = ANY(%(ids)s::uuid[])
"""


def indexed_text(heading: str, content: str) -> str:
    """The text of a chunk that is indexed and embedded: its document's heading comes first."""
    return f"{heading}\n{content}" if heading else content


DOCUMENTS = PassageCorpus(
    name="documents",
    text=indexed_text,
    contents=beginning(indexed_text),
    first_id="00000000-0000-0000-0000-000000000000",
    pending=_PENDING,
    without=_WITHOUT,
    write=_WRITE,
    settle=_SETTLE,
    expect=_EXPECT,
    indexed=_INDEXED,
    delete_vectors=_DELETE_VECTORS,
)
