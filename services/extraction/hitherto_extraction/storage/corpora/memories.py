"""The statements about the vectors of memories, of any user.

A memory has a vector of its content, and one of the words that it came from, if it came from any.
Sealed memories have sealed vectors only (see `sealed_memories`).
"""

from __future__ import annotations

from hitherto_extraction.storage.corpora.corpus import EmbeddedCorpus

# Across users.
_PENDING = """
SELECT m.tenant_id, m.user_id, m.memory_id::text, m.text_version, m.content,
       @said_behind(m, m.tenant_id, m.user_id)
FROM memories AS m
WHERE m.embedding_state = 'pending' AND NOT m.tenant_id = ANY(%(without)s)
ORDER BY m.created_at
LIMIT %(limit)s
"""

# Across users.
_WITHOUT = """
SELECT m.tenant_id, m.user_id, m.memory_id::text, m.text_version, m.content,
       @said_behind(m, m.tenant_id, m.user_id)
FROM memories AS m
WHERE (m.tenant_id, m.user_id, m.memory_id)
      > (%(tenant_id)s::text, %(user_id)s::text, %(id)s::uuid)
  AND m.sealed IS NULL
  AND NOT @memory_has_vector(m)
ORDER BY m.tenant_id, m.user_id, m.memory_id
LIMIT %(limit)s
"""

_WRITE = """
INSERT INTO memory_embeddings (tenant_id, user_id, memory_id, model, dimensions, status, embedding,
                               text_version)
SELECT m.tenant_id, m.user_id, m.memory_id, %(model)s, %(dimensions)s, m.status, new.embedding,
       m.text_version
FROM unnest(%(ids)s::uuid[], %(numbers)s::int[], %(vectors)b::halfvec[])
    AS new (memory_id, text_version, embedding)
JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
     AND m.memory_id = new.memory_id AND m.text_version = new.text_version
WHERE m.sealed IS NULL
ORDER BY m.tenant_id, m.user_id, m.memory_id
FOR KEY SHARE OF m
ON CONFLICT (tenant_id, user_id, memory_id, model) DO UPDATE
SET embedding = EXCLUDED.embedding, status = EXCLUDED.status, text_version = EXCLUDED.text_version
"""

# Only if the source words are still those that were embedded. Those of a user with
# encryption on are sealed and have no vector in clear.
_WRITE_SOURCES = """
INSERT INTO memory_source_embeddings (tenant_id, user_id, memory_id, model, dimensions, embedding)
SELECT m.tenant_id, m.user_id, m.memory_id, %(model)s, %(dimensions)s, new.embedding
FROM unnest(%(ids)s::uuid[], %(sources)s::text[], %(vectors)b::halfvec[])
    AS new (memory_id, said, embedding)
JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
     AND m.memory_id = new.memory_id
WHERE m.sealed IS NULL
  AND new.said = @said_behind(m, %(tenant_id)s, %(user_id)s)
  AND NOT EXISTS (
      SELECT FROM users AS u
      WHERE u.tenant_id = %(tenant_id)s AND u.user_id = %(user_id)s AND u.encrypt_sensitive)
ORDER BY m.tenant_id, m.user_id, m.memory_id
FOR KEY SHARE OF m
ON CONFLICT (tenant_id, user_id, memory_id, model) DO UPDATE SET embedding = EXCLUDED.embedding
"""

# The source words may have been sealed, deleted or rolled back since they were read.
_SETTLE = """
UPDATE memories AS m SET embedding_state = %(state)s
FROM unnest(%(ids)s::uuid[], %(numbers)s::int[], %(sources)s::text[])
    AS done (memory_id, text_version, said)
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.memory_id = done.memory_id
  AND m.text_version = done.text_version AND m.embedding_state = 'pending'
  AND done.said = @said_behind(m, %(tenant_id)s, %(user_id)s)
  AND EXISTS (SELECT FROM embedding_models WHERE active AND model = %(model)s)
"""

# Across users.
_EXPECT = """
UPDATE memories AS m
SET embedding_state = CASE WHEN m.embedding_state = 'stored' THEN 'pending' ELSE 'stored' END
WHERE m.sealed IS NULL
  AND (m.embedding_state = 'stored') IS DISTINCT FROM @memory_has_vector(m)
"""

MEMORIES = EmbeddedCorpus(
    name="memories",
    contents=lambda content, said: (content, said) if said else (content,),
    first_id="00000000-0000-0000-0000-000000000000",
    pending=_PENDING,
    without=_WITHOUT,
    write=_WRITE,
    settle=_SETTLE,
    expect=_EXPECT,
    write_sources=_WRITE_SOURCES,
)
