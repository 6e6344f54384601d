"""Finds summaries for a question, with the features that rankings add up.

There are two legs, the nearest by vector and the best by words. A vector of an earlier wording does
not count.
"""

from __future__ import annotations

from hitherto_retrieval.storage.candidate import Candidate
from hitherto_retrieval.storage.passage_search import PassageSearch
from hitherto_retrieval.storage.statement import Rows
from hitherto_shared.text.bm25 import Scores

# Vectors of earlier wordings are left out before the nearest are taken, because they would displace
# others.
_ALL = """
WITH nearest AS (
    SELECT e.conversation_id
    FROM summary_embeddings AS e
    JOIN conversation_summaries AS s ON s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
         AND s.conversation_id = e.conversation_id AND s.text_version = e.text_version
    WHERE %(vector)s::halfvec IS NOT NULL
      AND e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s AND e.model = %(model)s
    ORDER BY e.embedding <#> %(vector)s::halfvec, e.conversation_id DESC
    LIMIT %(wanted)s
), pool AS (
    SELECT conversation_id FROM nearest
    UNION
    SELECT s.conversation_id
    FROM unnest(%(lexical_nos)s::int[]) AS l (lexical_no)
    JOIN conversation_summaries AS s ON s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
         AND s.lexical_no = l.lexical_no AND s.lexical_no IS NOT NULL
)
SELECT s.*
FROM pool AS p
JOIN @compared_summaries AS s
    ON s.conversation_id = p.conversation_id
"""

_FILTERED = """
WITH allowed AS MATERIALIZED (
    SELECT s.conversation_id, s.lexical_no, e.embedding <#> %(vector)s::halfvec AS distance
    FROM @filtered_summaries AS s
    LEFT JOIN summary_embeddings AS e ON e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
         AND e.conversation_id = s.conversation_id AND e.model = %(model)s
         AND e.text_version = s.text_version
), pool AS (
    (SELECT conversation_id FROM allowed
     WHERE distance IS NOT NULL
     ORDER BY distance, conversation_id DESC
     LIMIT %(wanted)s)
    UNION
    (SELECT a.conversation_id
     FROM unnest(%(lexical_nos)s::int[]) WITH ORDINALITY AS l (lexical_no, place)
     JOIN allowed AS a ON a.lexical_no = l.lexical_no
     ORDER BY l.place
     LIMIT %(wanted)s)
)
SELECT s.*
FROM pool AS p
JOIN @compared_summaries AS s
    ON s.conversation_id = p.conversation_id
"""

# Those of the latest conversations.
_NEWEST = """
WITH pool AS (
    SELECT s.conversation_id
    FROM @filtered_summaries AS s
    ORDER BY s.happened_at DESC, s.conversation_id DESC
    LIMIT %(limit)s
)
SELECT s.*
FROM pool AS p
JOIN @compared_summaries AS s
    ON s.conversation_id = p.conversation_id
ORDER BY s.happened_at DESC, s.conversation_id DESC
"""


def candidates(rows: Rows, bm25: Scores, *, most_recent: bool = False) -> list[Candidate]:
    """Converts rows with the columns of `_ALL`."""
    return [
        Candidate(
            kind="summary",
            key=conversation_id,
            happened_at=happened_at,
            created_at=created_at,
            conversation_id=conversation_id,
            bm25=score,
            cosine=cosine,
            words=words,
            most_recent=most_recent,
        )
        for score, (_, conversation_id, happened_at, created_at, cosine, words) in zip(
            bm25.of_each([row[0] for row in rows]), rows, strict=True
        )
    ]


SEARCH = PassageSearch(
    _ALL, _FILTERED, _NEWEST, lambda filters: filters.all_that_was_said, candidates
)
