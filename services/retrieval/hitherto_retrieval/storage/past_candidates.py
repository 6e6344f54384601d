"""Finds memories for a question about another time.

The legs are those of a search of the present (`memory_candidates.among_filtered`), over the state
of the memories at a `Moment`. Only present wordings have vectors and postings. A memory with
another wording at the moment has the vector of its present one, which is close for most rewordings
but not exact; its earlier words are returned for the ranking to score (`search.past`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from hitherto_retrieval.storage.candidate import Candidate
from hitherto_retrieval.storage.filters import Filters
from hitherto_retrieval.storage.memory_candidates import Sought, parameters
from hitherto_retrieval.storage.moment import Moment
from hitherto_retrieval.storage.statement import Rows, Statement
from hitherto_shared.database.arrays import Integers
from hitherto_shared.models import Scope

OLD_WORDINGS = 1_000
"""Maximum number of memories with another wording that are read in order to score it.

The nearest by their present vectors come first, then the most important."""

_CANDIDATES = """
WITH allowed AS MATERIALIZED (
    SELECT m.memory_id, m.version, m.importance, m.created_at, m.valid_from, m.conversation_id,
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
    FROM filtered_memories_at(
        %(tenant_id)s, %(user_id)s, %(statuses)s, %(only_current)s, %(types)s, %(tags)s,
        %(sources)s, %(confidences)s, %(conversation_id)s, %(created_after)s, %(created_before)s,
        %(entity_names)s, %(metadata)s, %(sealed_ids)s, %(known_at)s, %(as_of)s) AS m
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
    WHERE lexical_no IS NULL
    ORDER BY cosine DESC NULLS LAST, importance DESC, created_at DESC
    LIMIT %(old_wordings)s
)
SELECT m.memory_id, m.importance, m.created_at, m.valid_from, m.conversation_id, m.lexical_no,
       m.cosine, CASE WHEN m.lexical_no IS NOT NULL THEN
       CASE WHEN %(with_source)s AND %(vector)s::halfvec IS NOT NULL THEN
       (SELECT -(s.embedding <#> %(vector)s::halfvec)
        FROM memory_source_embeddings AS s
        WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
          AND s.memory_id = m.memory_id AND s.model = %(model)s) END END,
       m.entities, concat_ws(E'\\n', v.content, v.keywords),
       m.memory_id IN (SELECT memory_id FROM pool)
FROM (SELECT * FROM pool UNION SELECT * FROM reworded) AS m
LEFT JOIN LATERAL (
    SELECT r.content, array_to_string(r.keywords, E'\\n') AS keywords
    FROM memory_versions AS r
    WHERE m.lexical_no IS NULL AND r.tenant_id = %(tenant_id)s AND r.user_id = %(user_id)s
      AND r.memory_id = m.memory_id AND r.version = m.version
    LIMIT 1
) AS v ON true
"""


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


def candidates(
    scope: Scope, sought: Sought, moment: Moment, filters: Filters
) -> Statement[list[PastCandidate]]:
    """Candidates that pass `filters` at `moment`; `search.past` completes them.

    Args:
        scope: The user.
        sought: The parameters of the legs; entities are those that the memories mention now.
        moment: The time.
        filters: Which memories count, by their state at the moment.
    """
    return Statement(
        _CANDIDATES,
        {
            **parameters(scope, sought),
            **moment.parameters(),
            **filters.parameters(),
            "places": Integers(sought.bm25.places()),
            "old_wordings": OLD_WORDINGS,
        },
        lambda rows: _candidates(rows, sought),
    )


def _candidates(rows: Rows, sought: Sought) -> list[PastCandidate]:
    newest: set[UUID] = set()
    if sought.newest:
        by_time = sorted((row for row in rows if row[10]), key=_time_and_key, reverse=True)
        newest = {row[0] for row in by_time[: sought.newest]}
    bm25 = sought.bm25.of_each([-1 if row[5] is None else row[5] for row in rows])
    return [
        PastCandidate(
            Candidate(
                kind="memory",
                key=row[0],
                importance=row[1],
                created_at=row[2],
                happened_at=row[3],
                conversation_id=row[4],
                bm25=words,
                cosine=row[6],
                source_cosine=row[7],
                entities=row[8],
                most_recent=row[0] in newest,
            ),
            old_words=row[9],
            chosen=row[10],
        )
        for row, words in zip(rows, bm25, strict=True)
    ]


def _time_and_key(row: tuple[Any, ...]) -> tuple[Any, UUID]:
    return row[3], row[0]
