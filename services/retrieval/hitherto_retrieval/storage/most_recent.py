"""The newest items of each source, for questions such as "my last email" (D5).

For memories, `MemoryQuery.newest` does this.
"""

from __future__ import annotations

from hitherto_retrieval.storage import (
    chunk_candidates,
    message_candidates,
    summary_candidates,
)
from hitherto_retrieval.storage.candidate import Candidate
from hitherto_retrieval.storage.passage_filters import PassageFilters
from hitherto_retrieval.storage.passage_search import PassageQuery
from hitherto_retrieval.storage.statement import Statement

# A document without chunks cannot be shown, and displaces no document with chunks. The pool is
# materialised: a database without statistics would compute it for every chunk. For the same reason
# OFFSET 0 has each chunk read by itself.
_DOCUMENTS = """
WITH pool AS MATERIALIZED (
    SELECT chunk_id
    FROM (SELECT c.chunk_id, row_number() OVER (PARTITION BY d.source_type
                 ORDER BY least(d.source_created_at, d.updated_at) DESC, d.document_id DESC)
                     AS place
          FROM filtered_documents(
              %(tenant_id)s, %(user_id)s, %(conversation_id)s, %(created_after)s,
              %(created_before)s, %(stored_by)s, %(entity_names)s, %(metadata)s,
              %(source_types)s, %(content_types)s) AS d
          JOIN document_chunks AS c ON c.tenant_id = d.tenant_id AND c.user_id = d.user_id
               AND c.document_id = d.document_id AND c.position = 0) AS placed
    WHERE place <= %(limit)s
)
SELECT c.*
FROM pool AS p
CROSS JOIN LATERAL (
    SELECT * FROM compared_chunks(
        %(tenant_id)s, %(user_id)s, %(model)s, %(vector)s::halfvec, %(named)s::uuid[],
        %(text_query)s) AS c
    WHERE c.chunk_id = p.chunk_id
    OFFSET 0) AS c
ORDER BY c.source_created_at DESC, c.document_id DESC
"""

_MESSAGES = """
WITH pool AS (
    SELECT m.conversation_id, m.message_no
    FROM filtered_messages(
        %(tenant_id)s, %(user_id)s, %(conversation_id)s, %(created_after)s, %(created_before)s,
        %(stored_by)s, %(entity_names)s, %(metadata)s) AS m
    WHERE m.role = 'user'
    ORDER BY least(m.said_at, m.accepted_at) DESC, m.conversation_id DESC, m.message_no DESC
    LIMIT %(limit)s
)
SELECT m.*
FROM pool AS p
JOIN compared_messages(
    %(tenant_id)s, %(user_id)s, %(model)s, %(vector)s::halfvec, %(with_words)s) AS m
    ON m.conversation_id = p.conversation_id AND m.message_no = p.message_no
ORDER BY least(m.said_at, m.accepted_at) DESC, m.conversation_id DESC, m.message_no DESC
"""


_SUMMARIES = """
WITH pool AS (
    SELECT s.conversation_id
    FROM filtered_summaries(
        %(tenant_id)s, %(user_id)s, %(conversation_id)s, %(created_after)s, %(created_before)s,
        %(stored_by)s, %(entity_names)s, %(metadata)s) AS s
    ORDER BY s.happened_at DESC, s.conversation_id DESC
    LIMIT %(limit)s
)
SELECT s.*
FROM pool AS p
JOIN compared_summaries(
    %(tenant_id)s, %(user_id)s, %(model)s, %(vector)s::halfvec, %(with_words)s) AS s
    ON s.conversation_id = p.conversation_id
ORDER BY s.happened_at DESC, s.conversation_id DESC
"""


def documents(
    query: PassageQuery, filters: PassageFilters, *, per_source: int
) -> Statement[list[Candidate]]:
    """The first chunk of the newest documents of each source type, newest first.

    At most `per_source` of each type: of those in `filters.source_types`, by default of all that
    the user has.
    """
    return Statement(
        _DOCUMENTS,
        {**query.parameters(), **filters.parameters(), "limit": per_source},
        lambda rows: chunk_candidates.candidates(rows, query.bm25, most_recent=True),
        planned_anew=True,
    )


def messages(
    query: PassageQuery, filters: PassageFilters, *, limit: int
) -> Statement[list[Candidate]]:
    """The user's latest messages, newest first."""
    return Statement(
        _MESSAGES,
        {**query.parameters(), **filters.parameters(), "limit": limit},
        lambda rows: message_candidates.candidates(rows, query.bm25, most_recent=True),
        planned_anew=True,
    )


def summaries(
    query: PassageQuery, filters: PassageFilters, *, limit: int
) -> Statement[list[Candidate]]:
    """The summaries of the latest conversations, newest first."""
    return Statement(
        _SUMMARIES,
        {**query.parameters(), **filters.parameters(), "limit": limit},
        lambda rows: summary_candidates.candidates(rows, query.bm25, most_recent=True),
        planned_anew=True,
    )
