"""Finds messages for a question, each with all features that rankings add up.

There are two legs, the nearest by vector and the best by words. Only messages of users and
assistants are found. A message without a vector is found by its words.
"""

from __future__ import annotations

from datetime import datetime

from hitherto_retrieval.storage.candidate import Candidate
from hitherto_retrieval.storage.passage_search import PassageSearch
from hitherto_retrieval.storage.statement import Rows
from hitherto_shared.text.bm25 import Scores

# Vectors come from their narrow table; the wide rows of messages are read only for the few best.
_ALL = """
WITH nearest AS (
    SELECT conversation_id, message_no
    FROM message_embeddings
    WHERE %(vector)s::halfvec IS NOT NULL
      AND tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND model = %(model)s
    ORDER BY embedding <#> %(vector)s::halfvec, conversation_id DESC, message_no DESC
    LIMIT %(wanted)s
), pool AS (
    SELECT conversation_id, message_no FROM nearest
    UNION
    SELECT m.conversation_id, m.message_no
    FROM unnest(%(lexical_nos)s::int[]) AS l (lexical_no)
    JOIN messages AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
         AND m.lexical_no = l.lexical_no AND m.lexical_no IS NOT NULL
)
SELECT m.*
FROM pool AS p
JOIN @compared_messages AS m
    ON m.conversation_id = p.conversation_id AND m.message_no = p.message_no
"""

_FILTERED = """
WITH allowed AS MATERIALIZED (
    SELECT m.conversation_id, m.message_no, m.lexical_no,
           e.embedding <#> %(vector)s::halfvec AS distance
    FROM @filtered_messages AS m
    LEFT JOIN message_embeddings AS e ON e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
         AND e.conversation_id = m.conversation_id AND e.message_no = m.message_no
         AND e.model = %(model)s
), pool AS (
    (SELECT conversation_id, message_no FROM allowed
     WHERE distance IS NOT NULL
     ORDER BY distance, conversation_id DESC, message_no DESC
     LIMIT %(wanted)s)
    UNION
    (SELECT a.conversation_id, a.message_no
     FROM unnest(%(lexical_nos)s::int[]) WITH ORDINALITY AS l (lexical_no, place)
     JOIN allowed AS a ON a.lexical_no = l.lexical_no
     ORDER BY l.place
     LIMIT %(wanted)s)
)
SELECT m.*
FROM pool AS p
JOIN @compared_messages AS m
    ON m.conversation_id = p.conversation_id AND m.message_no = p.message_no
"""

# What the user said last, for questions such as "what did I just ask?".
_NEWEST = """
WITH pool AS (
    SELECT m.conversation_id, m.message_no
    FROM @filtered_messages AS m
    WHERE m.role = 'user'
    ORDER BY least(m.said_at, m.accepted_at) DESC, m.conversation_id DESC, m.message_no DESC
    LIMIT %(limit)s
)
SELECT m.*
FROM pool AS p
JOIN @compared_messages AS m
    ON m.conversation_id = p.conversation_id AND m.message_no = p.message_no
ORDER BY least(m.said_at, m.accepted_at) DESC, m.conversation_id DESC, m.message_no DESC
"""


def said_by_then(said_at: datetime, accepted_at: datetime) -> datetime:
    """When a message counts as said: no later than it arrived, whatever its sender's clock.

    Statements write it `least(said_at, accepted_at)`.
    """
    return min(said_at, accepted_at)


def candidates(rows: Rows, bm25: Scores, *, most_recent: bool = False) -> list[Candidate]:
    """Converts rows with the columns of `_ALL`."""
    return [
        Candidate(
            kind="message",
            key=(conversation_id, number),
            happened_at=said_by_then(said, accepted),
            created_at=accepted,
            conversation_id=conversation_id,
            speaker=name,
            role=role,
            bm25=score,
            cosine=cosine,
            most_recent=most_recent,
            words=words,
        )
        for score, (_, conversation_id, number, said, accepted, name, role, cosine, words) in zip(
            bm25.of_each([row[0] for row in rows]), rows, strict=True
        )
    ]


SEARCH = PassageSearch(
    _ALL, _FILTERED, _NEWEST, lambda filters: filters.all_that_was_said, candidates
)
