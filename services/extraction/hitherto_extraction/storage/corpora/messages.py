"""The statements about messages as a corpus: what users and assistants said."""

from __future__ import annotations

from hitherto_extraction.storage.corpora.corpus import SpokenCorpus, beginning
from hitherto_shared.text.passages import message_text

# Across users.
_PENDING = """
SELECT tenant_id, user_id, conversation_id, message_no, name, left(content, %(characters)s)
FROM messages
WHERE embedding_state = 'pending' AND NOT tenant_id = ANY(%(without)s)
ORDER BY accepted_at
LIMIT %(limit)s
"""

# Across users, in the order of the key, so that a long back-fill reads the table once.
_WITHOUT = """
SELECT g.tenant_id, g.user_id, g.conversation_id, g.message_no, g.name,
       left(g.content, %(characters)s)
FROM messages AS g
WHERE (g.tenant_id, g.user_id, g.conversation_id, g.message_no)
      > (%(tenant_id)s::text, %(user_id)s::text, %(id)s::text, %(number)s::int)
  AND g.embedding_state <> 'none' AND NOT @message_has_vector(g)
ORDER BY g.tenant_id, g.user_id, g.conversation_id, g.message_no
LIMIT %(limit)s
"""

_WRITE = """
INSERT INTO message_embeddings (tenant_id, user_id, conversation_id, message_no, model, dimensions,
                                embedding)
SELECT g.tenant_id, g.user_id, g.conversation_id, g.message_no, %(model)s, %(dimensions)s,
       new.embedding
FROM unnest(%(ids)s::text[], %(numbers)s::int[], %(vectors)b::halfvec[])
    AS new (conversation_id, message_no, embedding)
JOIN messages AS g ON g.tenant_id = %(tenant_id)s AND g.user_id = %(user_id)s
     AND g.conversation_id = new.conversation_id AND g.message_no = new.message_no
WHERE g.sealed IS NULL
ORDER BY g.tenant_id, g.user_id, g.conversation_id, g.message_no
FOR KEY SHARE OF g
ON CONFLICT (tenant_id, user_id, conversation_id, message_no, model) DO UPDATE
SET embedding = EXCLUDED.embedding
"""

_SETTLE = """
UPDATE messages AS g SET embedding_state = %(state)s
FROM unnest(%(ids)s::text[], %(numbers)s::int[]) AS done (conversation_id, message_no)
WHERE g.tenant_id = %(tenant_id)s AND g.user_id = %(user_id)s
  AND g.conversation_id = done.conversation_id AND g.message_no = done.message_no
  AND g.embedding_state = 'pending'
  AND EXISTS (SELECT FROM embedding_models WHERE active AND model = %(model)s)
"""

# Across users.
_EXPECT = """
UPDATE messages AS g
SET embedding_state = CASE WHEN g.embedding_state = 'stored' THEN 'pending' ELSE 'stored' END
WHERE g.embedding_state <> 'none'
  AND (g.embedding_state = 'stored') IS DISTINCT FROM @message_has_vector(g)
"""

# Across users. By the time of arrival: a message whose job is still expected is a recent one.
_LEFT = """
SELECT g.tenant_id, g.user_id, g.conversation_id, g.message_no
FROM messages AS g
JOIN users AS u ON u.tenant_id = g.tenant_id AND u.user_id = g.user_id AND u.erased_at IS NULL
WHERE g.lexical_no IS NULL AND g.role IN ('user', 'assistant') AND g.sealed IS NULL
  AND g.accepted_at < now() - make_interval(secs => %(seconds)s)
  AND (g.tenant_id, g.user_id)
      NOT IN (SELECT * FROM unnest(%(tenants)s::text[], %(users)s::text[]))
ORDER BY g.accepted_at
LIMIT %(limit)s
"""

_UNINDEXED = """
SELECT g.conversation_id, g.message_no, char_length(g.content) >= %(shortest)s, g.name, g.content
FROM unnest(%(ids)s::text[], %(numbers)s::int[]) AS wanted (conversation_id, message_no)
JOIN messages AS g ON g.tenant_id = %(tenant_id)s AND g.user_id = %(user_id)s
     AND g.conversation_id = wanted.conversation_id AND g.message_no = wanted.message_no
WHERE g.lexical_no IS NULL AND g.role IN ('user', 'assistant') AND g.sealed IS NULL
"""

# A vector counts as stored only if its model is active: see `settle`.
_NUMBER = """
UPDATE messages AS g
SET lexical_no = new.lexical_no, lexical_length = new.lexical_length,
    embedding_state = CASE
        WHEN new.state = 'stored' AND NOT EXISTS (
            SELECT FROM embedding_models WHERE active AND model = %(model)s) THEN 'pending'
        ELSE new.state END
FROM unnest(%(ids)s::text[], %(numbers)s::int[], %(lexical_nos)s::int[], %(lengths)s::int[],
            %(states)s::text[])
    AS new (conversation_id, message_no, lexical_no, lexical_length, state)
WHERE g.tenant_id = %(tenant_id)s AND g.user_id = %(user_id)s
  AND g.conversation_id = new.conversation_id AND g.message_no = new.message_no
  AND g.lexical_no IS NULL AND g.sealed IS NULL
RETURNING g.conversation_id, g.message_no
"""

_INDEXED = """
SELECT g.lexical_no, g.lexical_length, g.name, g.content
FROM unnest(%(ids)s::text[], %(numbers)s::int[]) AS gone (conversation_id, message_no)
JOIN messages AS g ON g.tenant_id = %(tenant_id)s AND g.user_id = %(user_id)s
     AND g.conversation_id = gone.conversation_id AND g.message_no = gone.message_no
WHERE g.lexical_no IS NOT NULL
ORDER BY g.tenant_id, g.user_id, g.conversation_id, g.message_no
FOR UPDATE OF g
"""

_DELETE_VECTORS = """
DELETE FROM message_embeddings AS e
USING unnest(%(ids)s::text[], %(numbers)s::int[]) AS gone (conversation_id, message_no)
WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
  AND e.conversation_id = gone.conversation_id AND e.message_no = gone.message_no
"""

MESSAGES = SpokenCorpus(
    name="messages",
    contents=beginning(message_text),
    pending=_PENDING,
    without=_WITHOUT,
    write=_WRITE,
    settle=_SETTLE,
    expect=_EXPECT,
    left=_LEFT,
    text=message_text,
    unindexed=_UNINDEXED,
    number=_NUMBER,
    indexed=_INDEXED,
    delete_vectors=_DELETE_VECTORS,
)
