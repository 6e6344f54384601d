"""Finds memories for a question among those that pass filters, at present or at another time.

The legs are those of `memory_candidates`. Every memory that passes is compared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hitherto_retrieval.storage.candidate import Candidate
from hitherto_retrieval.storage.filters import Filters
from hitherto_retrieval.storage.item_query import ItemQuery
from hitherto_retrieval.storage.memory_candidates import FEATURE_COLUMNS, candidates_of
from hitherto_retrieval.storage.moment import PRESENT, Moment
from hitherto_retrieval.storage.statement import Rows, Statement
from hitherto_shared.database.arrays import Integers

OLD_WORDINGS = 1_000
"""Maximum number of memories with another wording that are read in order to score it.

The nearest by their present vectors come first, then the most important."""

# Memories without a vector come after those with one. Only present wordings have postings: of
# memories that had another wording then, `reworded` are returned with it, to be scored by it.
_FIND = """
WITH passing AS (
    SELECT * FROM @filtered_memories AS m
    WHERE NOT %(in_past)s
    UNION ALL
    SELECT * FROM @filtered_memories_at AS m
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
    WHERE %(doubtful)s OR m.memory_id NOT IN (
        SELECT d.memory_id
        FROM @in_doubt_at AS d)
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
     ORDER BY least(valid_from, created_at) DESC, memory_id DESC
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
_OLD_WORDS, _CHOSEN = FEATURE_COLUMNS, FEATURE_COLUMNS + 1
"""The columns after the features: the words of a memory that had others then, and whether a leg
found it."""


@dataclass(frozen=True, slots=True)
class PastCandidate:
    """A candidate as of a moment.

    Attributes:
        candidate: The candidate, with keyword score 0 if its words have changed since.
        old_words: Its words then, with its keywords; empty if they are unchanged.
        chosen: Whether a leg found it; if not, it is returned for its earlier words only.
    """

    candidate: Candidate
    old_words: str
    chosen: bool


def find(sought: ItemQuery, filters: Filters) -> Statement[list[Candidate]]:
    """Candidates among memories that pass `filters`: `wanted` of them, or as many as exist."""
    return Statement(
        _FIND,
        _parameters(sought, PRESENT, filters),
        lambda rows: candidates_of([row[:FEATURE_COLUMNS] for row in rows], sought),
    )


def find_at(sought: ItemQuery, moment: Moment, filters: Filters) -> Statement[list[PastCandidate]]:
    """Candidates that pass `filters` at `moment`, whose earlier words are still to be scored.

    Memories count by their state at the moment, but by the entities that they mention now. Only
    present wordings have vectors and postings: a memory with another wording at the moment has the
    vector of its present one, which is close for most rewordings but not exact.
    """

    def read(rows: Rows) -> list[PastCandidate]:
        chosen = [row for row in rows if row[_CHOSEN]]
        others = [row for row in rows if not row[_CHOSEN]]
        return [
            PastCandidate(candidate, row[_OLD_WORDS], row[_CHOSEN])
            for found, leg in ((chosen, sought), (others, replace(sought, newest=0)))
            for row, candidate in zip(
                found, candidates_of([row[:FEATURE_COLUMNS] for row in found], leg), strict=True
            )
        ]

    return Statement(_FIND, _parameters(sought, moment, filters), read, planned_anew=True)


def _parameters(sought: ItemQuery, moment: Moment, filters: Filters) -> dict[str, Any]:
    return {
        **sought.parameters(),
        **moment.parameters(),
        **filters.parameters(),
        "in_past": not moment.present,
        "places": Integers(sought.bm25.places()),
        "old_wordings": OLD_WORDINGS,
    }
