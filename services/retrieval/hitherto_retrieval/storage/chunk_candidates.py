"""Finds document chunks for a question, with the features that rankings add up.

There are three legs: the nearest by vector, the best by words, and the first chunk of each document
that mentions an entity of the question, because people are named in the header of an email rather
than in its text.
"""

from __future__ import annotations

from hitherto_retrieval.storage.candidate import Candidate, text_rank_of
from hitherto_retrieval.storage.passage_search import PassageSearch
from hitherto_retrieval.storage.statement import Rows
from hitherto_shared.text.bm25 import Scores

# Vectors come from their narrow table; the wide rows of chunks are read only for the few best. A
# plan without statistics, such as right after many documents came in, would compute the pool anew
# for every chunk and read all vectors for each: of 250 chunks in seconds. So the pool is
# materialised, and cosines are looked up by the whole key; the function compares with nothing.
_ALL = """
WITH nearest AS (
    SELECT chunk_id
    FROM document_chunk_embeddings
    WHERE %(vector)s::halfvec IS NOT NULL
      AND tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND model = %(model)s
      AND chunk_id NOT IN (
          SELECT chunk_id FROM @expired_chunks AS e)
    ORDER BY embedding <#> %(vector)s::halfvec, chunk_id DESC
    LIMIT %(wanted)s
), mentions AS (
    SELECT document_id, count(*) AS entities
    FROM document_mentions
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
      AND entity_id = ANY(%(entity_ids)s::uuid[])
    GROUP BY document_id
), pool AS MATERIALIZED (
    SELECT chunk_id FROM nearest
    UNION
    SELECT c.chunk_id
    FROM (SELECT w.lexical_no
          FROM unnest(%(lexical_nos)s::int[]) WITH ORDINALITY AS w (lexical_no, place)
          WHERE w.lexical_no NOT IN (
              SELECT lexical_no FROM @expired_chunks AS e)
          ORDER BY w.place
          LIMIT %(wanted)s) AS l
    JOIN document_chunks AS c ON c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s
         AND c.lexical_no = l.lexical_no
    UNION
    (SELECT c.chunk_id
     FROM mentions
     JOIN documents AS d ON d.tenant_id = %(tenant_id)s AND d.user_id = %(user_id)s
          AND d.document_id = mentions.document_id
          AND (d.expires_at IS NULL OR d.expires_at > now())
     JOIN document_chunks AS c ON c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s
          AND c.document_id = d.document_id AND c.position = 0
     ORDER BY mentions.entities DESC, d.source_created_at DESC, c.chunk_id DESC
     LIMIT %(wanted)s)
)
SELECT c.lexical_no, c.chunk_id, c.document_id, c.source_type, c.source_created_at, c.created_at,
       (SELECT -(e.embedding <#> %(vector)s::halfvec)
        FROM document_chunk_embeddings AS e
        WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
          AND e.chunk_id = p.chunk_id AND e.model = %(model)s),
       c.entities, c.text_rank
FROM pool AS p
JOIN @compared_chunks(NULL::halfvec) AS c ON c.chunk_id = p.chunk_id
"""

_FILTERED = """
WITH allowed AS MATERIALIZED (
    SELECT c.chunk_id, c.document_id, c.position, c.lexical_no, d.source_created_at,
           e.embedding <#> %(vector)s::halfvec AS distance
    FROM @filtered_documents AS d
    JOIN document_chunks AS c ON c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s
         AND c.document_id = d.document_id
    LEFT JOIN document_chunk_embeddings AS e ON e.tenant_id = %(tenant_id)s
         AND e.user_id = %(user_id)s AND e.chunk_id = c.chunk_id AND e.model = %(model)s
), mentions AS (
    SELECT document_id, count(*) AS entities
    FROM document_mentions
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
      AND entity_id = ANY(%(entity_ids)s::uuid[])
    GROUP BY document_id
), pool AS MATERIALIZED (
    (SELECT chunk_id FROM allowed
     WHERE distance IS NOT NULL
     ORDER BY distance, chunk_id DESC
     LIMIT %(wanted)s)
    UNION
    (SELECT a.chunk_id
     FROM unnest(%(lexical_nos)s::int[]) WITH ORDINALITY AS l (lexical_no, place)
     JOIN allowed AS a ON a.lexical_no = l.lexical_no
     ORDER BY l.place
     LIMIT %(wanted)s)
    UNION
    (SELECT a.chunk_id
     FROM mentions
     JOIN allowed AS a ON a.document_id = mentions.document_id AND a.position = 0
     ORDER BY mentions.entities DESC, a.source_created_at DESC, a.chunk_id DESC
     LIMIT %(wanted)s)
)
SELECT c.*
FROM pool AS p
JOIN @compared_chunks(%(vector)s::halfvec) AS c ON c.chunk_id = p.chunk_id
"""

# The first chunk of the newest documents of each source type (D5): of those that pass.
# A document without chunks cannot be shown, and displaces no document with chunks. The pool is
# materialised: a database without statistics would compute it for every chunk. For the same reason
# OFFSET 0 has each chunk read by itself.
_NEWEST = """
WITH pool AS MATERIALIZED (
    SELECT chunk_id
    FROM (SELECT c.chunk_id, row_number() OVER (PARTITION BY d.source_type
                 ORDER BY least(d.source_created_at, d.updated_at) DESC, d.document_id DESC)
                     AS place
          FROM @filtered_documents AS d
          JOIN document_chunks AS c ON c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s
               AND c.document_id = d.document_id AND c.position = 0) AS placed
    WHERE place <= %(limit)s
)
SELECT c.*
FROM pool AS p
CROSS JOIN LATERAL (
    SELECT * FROM @compared_chunks(%(vector)s::halfvec) AS c
    WHERE c.chunk_id = p.chunk_id
    OFFSET 0) AS c
ORDER BY c.source_created_at DESC, c.document_id DESC
"""


def candidates(rows: Rows, bm25: Scores, *, most_recent: bool = False) -> list[Candidate]:
    """Converts rows with the columns of `_ALL`."""
    return [
        Candidate(
            kind="document",
            key=chunk_id,
            happened_at=times[0],
            created_at=times[1],
            source_type=source,
            document_id=document_id,
            bm25=score,
            cosine=cosine,
            text_rank=text_rank_of(rank),
            entities=entities,
            most_recent=most_recent,
        )
        for score, (_, chunk_id, document_id, source, *times, cosine, entities, rank) in zip(
            bm25.of_each([row[0] for row in rows]), rows, strict=True
        )
    ]


SEARCH = PassageSearch(
    _ALL, _FILTERED, _NEWEST, lambda filters: filters.all_documents, candidates, expire=True
)
