"""Finds memories for a question, each with all features that rankings add up.

There are five legs: the nearest by vector, the best by words, those that mention an entity of the
question, those of the period it names, and the newest if it asks for the most recent. Every
candidate gets every feature, whichever leg found it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from hitherto_retrieval.storage.candidate import Candidate, text_rank_of
from hitherto_retrieval.storage.item_query import ItemQuery
from hitherto_retrieval.storage.statement import Rows, Statement
from hitherto_shared.database.arrays import Integers, Uuids
from hitherto_shared.models import Scope

CODES_ABOVE = 1_000
"""Number of a user's memories above which a first pass over the sign bits of their vectors pays
off."""
_RANKED_AGAIN = 4
"""The factor by which the first pass finds more than wanted, to be ranked by the vectors
themselves."""
_LEAST_RANKED_AGAIN = 200

# The pool where nothing is filtered: current memories only.
#
# `nearest` reads every vector of the user; if `coded`, it reads the signs of all, then the vectors
# of the nearest by signs. The signs of the question stand in a sub-select, or a generic plan
# computes them anew for every row. A leg that is not asked for, or the other way to `nearest`,
# costs nothing: its condition names parameters only and is checked once. Equals have one order in
# every leg: which of them come in is no accident of a plan.
#
# Of what is in the pool come all features, those of the nearest as they were found. A vector of an
# older wording counts as none. Cosines stand in sub-selects of their own: one row by its whole key,
# however many the planner expects; a join may read all vectors of the user for each memory.
#
# The last columns: whether a memory is one of the nearest with these words, how many nearest there
# are, and how many texts with a word of the question are current. Where there are fewer than could
# be, others were pushed out.
_SEARCH = """
WITH coarse AS MATERIALIZED (
    SELECT memory_id
    FROM memory_embeddings
    WHERE %(coded)s AND tenant_id = %(tenant_id)s AND user_id = %(user_id)s
      AND model = %(model)s AND status IN ('active', 'achieved')
    ORDER BY code <~> (SELECT binary_quantize(%(vector)s::halfvec)), memory_id DESC
    LIMIT %(ranked_again)s
), nearest AS (
    (SELECT memory_id, text_version, -(embedding <#> %(vector)s::halfvec) AS cosine
     FROM memory_embeddings
     WHERE NOT %(coded)s AND tenant_id = %(tenant_id)s AND user_id = %(user_id)s
       AND model = %(model)s AND status IN ('active', 'achieved')
     ORDER BY embedding <#> %(vector)s::halfvec, memory_id DESC
     LIMIT %(wanted)s)
    UNION ALL
    (SELECT e.memory_id, e.text_version, -(e.embedding <#> %(vector)s::halfvec)
     FROM coarse AS c
     JOIN memory_embeddings AS e ON e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
          AND e.memory_id = c.memory_id AND e.model = %(model)s
     ORDER BY e.embedding <#> %(vector)s::halfvec, e.memory_id DESC
     LIMIT %(wanted)s)
),
worded AS (
    SELECT m.memory_id
    FROM unnest(%(lexical_nos)s::int[]) WITH ORDINALITY AS l (lexical_no, place)
    JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
         AND m.lexical_no = l.lexical_no
    WHERE m.status IN ('active', 'achieved') AND (m.expires_at IS NULL OR m.expires_at > now())
    ORDER BY l.place
    LIMIT %(wanted)s
), mentions AS (
    SELECT em.memory_id, count(*) AS entities
    FROM entity_mentions AS em
    JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
         AND m.memory_id = em.memory_id
    WHERE em.tenant_id = %(tenant_id)s AND em.user_id = %(user_id)s
      AND em.entity_id = ANY(%(entity_ids)s)
      AND m.status IN ('active', 'achieved') AND (m.expires_at IS NULL OR m.expires_at > now())
    GROUP BY em.memory_id
), brought AS (
    SELECT memory_id, cosine, text_version FROM nearest
    UNION ALL
    SELECT memory_id, NULL, NULL FROM worded
    UNION ALL
    (SELECT memory_id, NULL, NULL FROM mentions
     ORDER BY entities DESC, memory_id DESC LIMIT %(wanted)s)
    UNION ALL
    (SELECT memory_id, NULL, NULL FROM memories
     WHERE %(since)s::timestamptz IS NOT NULL
       AND tenant_id = %(tenant_id)s AND user_id = %(user_id)s
       AND status IN ('active', 'achieved') AND (expires_at IS NULL OR expires_at > now())
       AND valid_from >= %(since)s AND valid_from < %(until)s
     ORDER BY importance DESC, valid_from DESC, memory_id DESC
     LIMIT %(wanted)s)
    UNION ALL
    (SELECT memory_id, NULL, NULL FROM memories
     WHERE %(newest)s > 0 AND tenant_id = %(tenant_id)s AND user_id = %(user_id)s
       AND status IN ('active', 'achieved') AND (expires_at IS NULL OR expires_at > now())
     ORDER BY least(valid_from, created_at) DESC, memory_id DESC
     LIMIT %(newest)s)
), pool AS (
    SELECT memory_id, max(cosine) AS cosine, max(text_version) AS found_version
    FROM brought
    GROUP BY memory_id
), current AS (
    SELECT m.memory_id, m.importance, m.created_at, m.valid_from, m.conversation_id, m.lexical_no,
           m.text_version, p.cosine, p.found_version
    FROM pool AS p
    JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
         AND m.memory_id = p.memory_id
    WHERE m.status IN ('active', 'achieved') AND (m.expires_at IS NULL OR m.expires_at > now())
)
SELECT m.memory_id, m.importance, m.created_at, m.valid_from, m.conversation_id, m.lexical_no,
       CASE WHEN m.found_version IS NULL THEN
           CASE WHEN %(vector)s::halfvec IS NOT NULL THEN
           (SELECT -(e.embedding <#> %(vector)s::halfvec)
            FROM memory_embeddings AS e
            WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
              AND e.memory_id = m.memory_id AND e.model = %(model)s
              AND e.text_version = m.text_version) END
            WHEN m.found_version = m.text_version THEN m.cosine END,
       CASE WHEN %(with_source)s AND %(vector)s::halfvec IS NOT NULL THEN
       (SELECT -(s.embedding <#> %(vector)s::halfvec)
        FROM memory_source_embeddings AS s
        WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
          AND s.memory_id = m.memory_id AND s.model = %(model)s) END,
       coalesce(mentions.entities, 0),
       coalesce(m.found_version = m.text_version, false),
       (SELECT count(*) FROM nearest),
       (SELECT count(*) FROM worded)
FROM current AS m
LEFT JOIN mentions ON mentions.memory_id = m.memory_id
"""
FEATURE_COLUMNS = 9

# How well the words of a memory and of its sources match a query, by Postgres' full-text search.
_TEXT_RANKS = """
SELECT m.memory_id, ts_rank(to_tsvector('simple', m.content), (SELECT websearch_to_tsquery('simple',
       %(query)s)))
FROM memories AS m
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
  AND m.memory_id = ANY(%(memory_ids)s::uuid[])
"""


@dataclass(frozen=True, slots=True)
class QuickResult:
    """The result of a quick search.

    Attributes:
        whole: Whether `filtered_candidates.find` could find nothing better, because no leg returned
            memories that are no longer current.
    """

    candidates: list[Candidate]
    whole: bool


def ranked_again(wanted: int) -> int:
    """How many the first pass over the signs finds, to be ranked by the vectors themselves."""
    return max(_LEAST_RANKED_AGAIN, _RANKED_AGAIN * wanted)


def among_all(sought: ItemQuery, *, memories: int) -> Statement[QuickResult]:
    """Candidates among all current memories; `sought.vector` is not None.

    The legs read vectors and postings without their memories, some of which may have expired, been
    forgotten or changed. If these displaced others, the answer says so.

    Args:
        sought: The parameters of the legs.
        memories: Approximate number of the user's memories.
    """
    several = ranked_again(sought.wanted)
    numbers = sought.bm25.best(several)
    all_numbers = len(numbers) == len(sought.bm25)

    def read(rows: Rows) -> QuickResult:
        found = candidates_of([row[:FEATURE_COLUMNS] for row in rows], sought)
        nearest, worded = rows[0][FEATURE_COLUMNS + 1 :] if rows else (0, 0)
        lost = nearest - sum(row[FEATURE_COLUMNS] for row in rows)
        # If there are too few with a vector, the most important without one follow.
        enough = nearest - lost >= sought.wanted
        return QuickResult(found, enough and not lost and (all_numbers or worded >= sought.wanted))

    return Statement(
        _SEARCH,
        {
            **sought.parameters(),
            "lexical_nos": Integers(numbers),
            "coded": memories > CODES_ABOVE,
            "ranked_again": several,
        },
        read,
    )


def text_ranks(
    scope: Scope, query: str, memory_ids: Sequence[UUID]
) -> Statement[dict[UUID, float]]:
    """ts_rank of memories for a query."""
    return Statement(
        _TEXT_RANKS,
        {
            **scope.parameters,
            "query": query,
            "memory_ids": Uuids(memory_ids),
        },
        lambda rows: {row[0]: text_rank_of(row[1]) for row in rows},
    )


def candidates_of(rows: Rows, sought: ItemQuery) -> list[Candidate]:
    """Converts rows of memories with their features, in the order of the columns.

    A memory that had other words at another time has no number in the index of present words.
    """
    newest: set[UUID] = set()
    if sought.newest:
        by_time = sorted(rows, key=lambda row: (min(row[3], row[2]), row[0]), reverse=True)
        newest = {row[0] for row in by_time[: sought.newest]}
    bm25 = sought.bm25.of_each([-1 if row[5] is None else row[5] for row in rows])
    return [
        Candidate(
            "memory",
            memory_id,
            valid_from,
            created_at,
            conversation_id,
            words,
            cosine,
            "",
            "",
            importance,
            source_cosine,
            entities,
            bool(newest) and memory_id in newest,
        )
        for (
            memory_id,
            importance,
            created_at,
            valid_from,
            conversation_id,
            _,
            cosine,
            source_cosine,
            entities,
        ), words in zip(rows, bm25, strict=True)
    ]
