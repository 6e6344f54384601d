"""Finds memories for a question among those that pass filters, at present or at another time.

The legs are those of `memory_candidates`. Every memory that passes is compared.
"""

from __future__ import annotations

from collections.abc import Callable

from hitherto_retrieval.storage import memory_candidates
from hitherto_retrieval.storage.candidate import Candidate
from hitherto_retrieval.storage.filters import Filters
from hitherto_retrieval.storage.memory_candidates import Sought
from hitherto_retrieval.storage.moment import PRESENT, Moment
from hitherto_retrieval.storage.statement import Answer, Rows, Statement
from hitherto_shared.database.arrays import Integers
from hitherto_shared.models import Scope

OLD_WORDINGS = 1_000
"""Maximum number of memories with another wording that are read in order to score it.

The nearest by their present vectors come first, then the most important."""

# Memories without a vector come after those with one. Only present wordings have postings: of
# memories that had another wording then, `reworded` are returned with it, to be scored by it.
_FIND = """
WITH passing AS (
    SELECT * FROM filtered_memories(
        %(tenant_id)s, %(user_id)s, %(statuses)s, %(only_current)s, %(types)s, %(tags)s,
        %(sources)s, %(confidences)s, %(conversation_id)s, %(created_after)s, %(created_before)s,
        %(entity_names)s, %(metadata)s, %(sealed_ids)s)
    WHERE NOT %(in_past)s
    UNION ALL
    SELECT * FROM filtered_memories_at(
        %(tenant_id)s, %(user_id)s, %(statuses)s, %(only_current)s, %(types)s, %(tags)s,
        %(sources)s, %(confidences)s, %(conversation_id)s, %(created_after)s, %(created_before)s,
        %(entity_names)s, %(metadata)s, %(sealed_ids)s, %(known_at)s, %(as_of)s)
    WHERE %(in_past)s
), allowed AS MATERIALIZED (
    SELECT m.memory_id, m.version, m.importance, m.created_at, m.valid_from, m.conversation_id,
           m.version < m.text_version AS was_reworded,
           CASE WHEN m.version >= m.text_version THEN m.lexical_no END AS lexical_no,
           CASE WHEN m.version >= m.text_version
                THEN (SELECT %(places)s::int[])[m.lexical_no] END AS place,
           CASE WHEN %(vector)s::halfvec IS NOT NULL THEN
           (SELECT -(e.embedding <#> %(vector)s::halfvec)
            FROM memory_embeddings AS e
            WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
              AND e.memory_id = m.memory_id AND e.model = %(model)s
              AND e.text_version = m.text_version) END AS cosine,
           CASE WHEN m.memory_id IN (
                    SELECT memory_id FROM entity_mentions
                    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
                      AND entity_id = ANY(%(entity_ids)s))
                THEN (SELECT count(*) FROM entity_mentions AS em
                      WHERE em.tenant_id = %(tenant_id)s AND em.user_id = %(user_id)s
                        AND em.memory_id = m.memory_id AND em.entity_id = ANY(%(entity_ids)s))
                ELSE 0 END AS entities
    FROM passing AS m
), pool AS (
    (SELECT * FROM allowed
     ORDER BY cosine DESC NULLS LAST, CASE WHEN cosine IS NULL THEN importance END DESC,
              CASE WHEN cosine IS NULL THEN created_at END DESC, memory_id DESC
     LIMIT %(wanted)s)
    UNION
    (SELECT * FROM allowed WHERE place > 0 ORDER BY place LIMIT %(wanted)s)
    UNION
    (SELECT * FROM allowed WHERE entities > 0
     ORDER BY entities DESC, memory_id DESC
     LIMIT %(wanted)s)
    UNION
    (SELECT * FROM allowed
     WHERE %(since)s::timestamptz IS NOT NULL
       AND valid_from >= %(since)s AND valid_from < %(until)s
     ORDER BY importance DESC, valid_from DESC, memory_id DESC
     LIMIT %(wanted)s)
    UNION
    (SELECT * FROM allowed WHERE %(newest)s > 0
     ORDER BY valid_from DESC, memory_id DESC
     LIMIT %(newest)s)
), reworded AS (
    SELECT * FROM allowed
    WHERE was_reworded
    ORDER BY cosine DESC NULLS LAST, importance DESC, created_at DESC
    LIMIT %(old_wordings)s
)
SELECT m.memory_id, m.importance, m.created_at, m.valid_from, m.conversation_id, m.lexical_no,
       m.cosine,
       CASE WHEN NOT m.was_reworded AND %(with_source)s AND %(vector)s::halfvec IS NOT NULL THEN
       (SELECT -(s.embedding <#> %(vector)s::halfvec)
        FROM memory_source_embeddings AS s
        WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
          AND s.memory_id = m.memory_id AND s.model = %(model)s) END, m.entities,
       coalesce(CASE WHEN m.was_reworded THEN (
           SELECT concat_ws(E'\\n', v.content, array_to_string(v.keywords, E'\\n'))
           FROM memory_versions AS v
           WHERE v.tenant_id = %(tenant_id)s AND v.user_id = %(user_id)s
             AND v.memory_id = m.memory_id AND v.version = m.version) END, ''),
       m.memory_id IN (SELECT memory_id FROM pool)
FROM (SELECT * FROM pool UNION SELECT * FROM reworded) AS m
"""


def find(scope: Scope, sought: Sought, filters: Filters) -> Statement[list[Candidate]]:
    """Candidates among memories that pass `filters`: `wanted` of them, or as many as exist."""
    return find_at(
        scope,
        sought,
        PRESENT,
        filters,
        lambda rows: memory_candidates.candidates_of(
            [row[: memory_candidates.FEATURE_COLUMNS] for row in rows], sought
        ),
    )


def find_at(
    scope: Scope,
    sought: Sought,
    moment: Moment,
    filters: Filters,
    read: Callable[[Rows], Answer],
) -> Statement[Answer]:
    """The memories that pass `filters` at `moment`.

    Two columns follow the features: the words of a memory that had others then, and whether a leg
    found it.
    """
    return Statement(
        _FIND,
        {
            **memory_candidates.parameters(scope, sought),
            **moment.parameters(),
            **filters.parameters(),
            "in_past": not moment.present,
            "places": Integers(sought.bm25.places()),
            "old_wordings": OLD_WORDINGS,
        },
        read,
        planned_anew=not moment.present,
    )
