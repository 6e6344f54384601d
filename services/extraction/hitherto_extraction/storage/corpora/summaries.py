"""The statements about summaries of conversations as a corpus."""

from __future__ import annotations

from hitherto_extraction.storage.corpora.corpus import SpokenCorpus, beginning
from hitherto_shared.text.passages import summary_text

# Across users.
_PENDING = """
SELECT tenant_id, user_id, conversation_id, text_version, title, summary, key_topics,
       technical_topics
FROM conversation_summaries
WHERE embedding_state = 'pending' AND NOT tenant_id = ANY(%(without)s)
ORDER BY updated_at
LIMIT %(limit)s
"""

# Across users.
_WITHOUT = """
SELECT s.tenant_id, s.user_id, s.conversation_id, s.text_version, s.title, s.summary, s.key_topics,
       s.technical_topics
FROM conversation_summaries AS s
WHERE (s.tenant_id, s.user_id, s.conversation_id)
      > (%(tenant_id)s::text, %(user_id)s::text, %(id)s::text)
  AND s.embedding_state <> 'none' AND NOT @summary_has_vector(s)
ORDER BY s.tenant_id, s.user_id, s.conversation_id
LIMIT %(limit)s
"""

_WRITE = """
INSERT INTO summary_embeddings (tenant_id, user_id, conversation_id, model, dimensions,
                                text_version, embedding)
SELECT s.tenant_id, s.user_id, s.conversation_id, %(model)s, %(dimensions)s, s.text_version,
       new.embedding
FROM unnest(%(ids)s::text[], %(numbers)s::int[], %(vectors)b::halfvec[])
    AS new (conversation_id, text_version, embedding)
JOIN conversation_summaries AS s ON s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
     AND s.conversation_id = new.conversation_id AND s.text_version = new.text_version
WHERE s.sealed IS NULL
ORDER BY s.tenant_id, s.user_id, s.conversation_id
FOR KEY SHARE OF s
ON CONFLICT (tenant_id, user_id, conversation_id, model) DO UPDATE
SET embedding = EXCLUDED.embedding, text_version = EXCLUDED.text_version
"""

_SETTLE = """
UPDATE conversation_summaries AS s SET embedding_state = %(state)s
FROM unnest(%(ids)s::text[], %(numbers)s::int[]) AS done (conversation_id, text_version)
WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
  AND s.conversation_id = done.conversation_id AND s.text_version = done.text_version
  AND s.embedding_state = 'pending'
  AND EXISTS (SELECT FROM embedding_models WHERE active AND model = %(model)s)
"""

# Across users.
_EXPECT = """
UPDATE conversation_summaries AS s
SET embedding_state = CASE WHEN s.embedding_state = 'stored' THEN 'pending' ELSE 'stored' END
WHERE s.embedding_state <> 'none'
  AND (s.embedding_state = 'stored') IS DISTINCT FROM @summary_has_vector(s)
"""

# Across users: summaries from before the index existed.
_LEFT = """
SELECT s.tenant_id, s.user_id, s.conversation_id, s.text_version
FROM conversation_summaries AS s
JOIN users AS u ON u.tenant_id = s.tenant_id AND u.user_id = s.user_id AND u.erased_at IS NULL
WHERE s.lexical_no IS NULL AND s.sealed IS NULL
  AND (s.tenant_id, s.user_id)
      NOT IN (SELECT * FROM unnest(%(tenants)s::text[], %(users)s::text[]))
ORDER BY s.updated_at
LIMIT %(limit)s
"""

_UNINDEXED = """
SELECT conversation_id, text_version, true, title, summary, key_topics, technical_topics
FROM conversation_summaries
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND conversation_id = ANY(%(ids)s) AND lexical_no IS NULL AND sealed IS NULL
"""

_NUMBER = """
UPDATE conversation_summaries AS s
SET lexical_no = new.lexical_no, lexical_length = new.lexical_length, embedding_state = new.state
FROM unnest(%(ids)s::text[], %(numbers)s::int[], %(lexical_nos)s::int[], %(lengths)s::int[],
            %(states)s::text[])
    AS new (conversation_id, text_version, lexical_no, lexical_length, state)
WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
  AND s.conversation_id = new.conversation_id AND s.text_version = new.text_version
  AND s.lexical_no IS NULL AND s.sealed IS NULL
RETURNING s.conversation_id, s.text_version
"""

_INDEXED = """
SELECT lexical_no, lexical_length, title, summary, key_topics, technical_topics
FROM conversation_summaries
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND conversation_id = ANY(%(ids)s) AND lexical_no IS NOT NULL
ORDER BY conversation_id
FOR UPDATE
"""

_DELETE_VECTORS = """
DELETE FROM summary_embeddings
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND conversation_id = ANY(%(ids)s)
"""

SUMMARIES = SpokenCorpus(
    name="summaries",
    contents=beginning(summary_text),
    pending=_PENDING,
    without=_WITHOUT,
    write=_WRITE,
    settle=_SETTLE,
    expect=_EXPECT,
    left=_LEFT,
    text=summary_text,
    unindexed=_UNINDEXED,
    number=_NUMBER,
    indexed=_INDEXED,
    delete_vectors=_DELETE_VECTORS,
)
