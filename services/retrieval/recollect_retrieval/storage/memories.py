"""Reading memories: by id, by rank of use, in pages, and the candidates of a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
from pgvector import HalfVector
from psycopg.types.json import Jsonb

from recollect_shared.database.pool import Connection
from recollect_shared.embeddings.protocol import Vector
from recollect_shared.models import CURRENT_STATUSES, Memory, Scope, SourceRef

# Whole memories by id, with what stands about them in other tables.
_BY_IDS = """
SELECT m.memory_id, m.user_id, m.type, m.content, m.importance, m.confidence, m.source, m.origin,
       m.status, m.valid_from, m.created_at, m.updated_at, m.detail, m.tags, m.keywords,
       m.context, m.metadata, m.sensitive, m.conversation_id, m.valid_to, m.expires_at,
       m.superseded_by, m.supersedes, m.version, m.job_id,
       coalesce(a.access_count, 0), a.last_accessed_at,
       ARRAY(SELECT ARRAY[s.conversation_id, s.message_id]
             FROM memory_sources AS s
             WHERE s.tenant_id = m.tenant_id AND s.user_id = m.user_id
               AND s.memory_id = m.memory_id
             ORDER BY s.conversation_id, s.message_id),
       ARRAY(SELECT e.name
             FROM entity_mentions AS em
             JOIN entities AS e ON e.tenant_id = em.tenant_id AND e.user_id = em.user_id
                  AND e.entity_id = em.entity_id
             WHERE em.tenant_id = m.tenant_id AND em.user_id = m.user_id
               AND em.memory_id = m.memory_id
             ORDER BY e.name)
FROM memories AS m
LEFT JOIN memory_access AS a ON a.tenant_id = m.tenant_id AND a.user_id = m.user_id
     AND a.memory_id = m.memory_id
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
  AND m.memory_id = ANY(%(memory_ids)s)
"""

_EXISTS = """
SELECT EXISTS (
    SELECT FROM memories
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = %(memory_id)s)
"""

# The newest `fresh` memories of the last seven days have a place, so that what was just learnt is
# seen; the other places go to the most important, then to those told last. One order for all.
_TOP = """
WITH known AS (
    SELECT m.memory_id, m.importance, m.created_at,
           coalesce(a.last_accessed_at, m.created_at) AS used_at
    FROM memories AS m
    LEFT JOIN memory_access AS a ON a.tenant_id = m.tenant_id AND a.user_id = m.user_id
         AND a.memory_id = m.memory_id
    WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
      AND m.status IN ('active', 'achieved')
      AND (m.expires_at IS NULL OR m.expires_at > now())
), fresh AS (
    SELECT memory_id FROM known
    WHERE created_at > now() - interval '7 days'
    ORDER BY created_at DESC, memory_id DESC
    LIMIT %(fresh)s
), placed AS (
    SELECT * FROM known
    ORDER BY memory_id IN (SELECT memory_id FROM fresh) DESC,
             importance DESC, used_at DESC, memory_id DESC
    LIMIT %(limit)s
)
SELECT memory_id FROM placed
ORDER BY importance DESC, used_at DESC, memory_id DESC
"""

_NEWEST = """
SELECT memory_id
FROM memories
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND status IN ('active', 'achieved') AND (expires_at IS NULL OR expires_at > now())
ORDER BY created_at DESC, memory_id DESC
LIMIT %(limit)s
"""

# What the filters of a search and of a list let through.
_LET_THROUGH = """
    WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
      AND m.status = ANY(%(statuses)s)
      AND (m.expires_at IS NULL OR m.expires_at > now() OR NOT %(only_current)s)
      AND (%(types)s::text[] IS NULL OR m.type = ANY(%(types)s))
      AND (%(tags)s::text[] IS NULL OR m.tags && %(tags)s)
      AND (%(sources)s::text[] IS NULL OR m.source = ANY(%(sources)s))
      AND (%(confidences)s::text[] IS NULL OR m.confidence = ANY(%(confidences)s))
      AND (%(created_after)s::timestamptz IS NULL OR m.created_at >= %(created_after)s)
      AND (%(created_before)s::timestamptz IS NULL OR m.created_at < %(created_before)s)
      AND (%(conversation_id)s::text IS NULL OR m.conversation_id = %(conversation_id)s
           OR EXISTS (SELECT FROM memory_sources AS ms
                      WHERE ms.tenant_id = m.tenant_id AND ms.user_id = m.user_id
                        AND ms.memory_id = m.memory_id
                        AND ms.conversation_id = %(conversation_id)s))
      AND (%(metadata)s::jsonb IS NULL OR NOT EXISTS (
            SELECT FROM jsonb_each(%(metadata)s) AS wanted
            WHERE m.metadata -> wanted.key IS DISTINCT FROM wanted.value))
      AND (%(entity_key)s::text IS NULL OR EXISTS (
            SELECT FROM entity_mentions AS em
            JOIN entities AS en ON en.tenant_id = em.tenant_id AND en.user_id = em.user_id
                 AND en.entity_id = em.entity_id
            WHERE em.tenant_id = m.tenant_id AND em.user_id = m.user_id
              AND em.memory_id = m.memory_id AND en.name_key = %(entity_key)s))
"""

# The candidates of a search: the `wanted` nearest to the query among everything the filters let
# through, and the `wanted` best of those that hold a word of it, each with all features the
# ranking adds up. Memories that have no vector yet come after those that have.
_CANDIDATES = (
    """
WITH lexical AS (
    SELECT * FROM unnest(%(lexical_nos)s::int[], %(bm25)s::real[]) AS l (lexical_no, bm25)
), allowed AS (
    SELECT m.memory_id, m.importance, m.created_at, m.valid_from, m.conversation_id,
           coalesce(l.bm25, 0) AS bm25,
           CASE WHEN %(vector)s::halfvec IS NULL THEN NULL
                ELSE -(e.embedding <#> %(vector)s::halfvec) END AS cosine
    FROM memories AS m
    LEFT JOIN memory_embeddings AS e ON e.tenant_id = m.tenant_id AND e.user_id = m.user_id
         AND e.memory_id = m.memory_id AND e.model = %(model)s
         AND e.text_version = m.text_version
    LEFT JOIN lexical AS l ON l.lexical_no = m.lexical_no
"""
    + _LET_THROUGH
    + """
), nearest AS (
    SELECT memory_id FROM allowed
    ORDER BY cosine DESC NULLS LAST, importance DESC, created_at DESC
    LIMIT %(wanted)s
), wordiest AS (
    SELECT memory_id FROM allowed WHERE bm25 > 0
    ORDER BY bm25 DESC, importance DESC, created_at DESC
    LIMIT %(wanted)s
)
SELECT c.memory_id, c.importance, c.created_at, c.valid_from, c.conversation_id, c.bm25, c.cosine,
       CASE WHEN %(vector)s::halfvec IS NULL THEN NULL
            ELSE -(s.embedding <#> %(vector)s::halfvec) END AS source_cosine,
       (SELECT count(*) FROM allowed) AS total
FROM allowed AS c
LEFT JOIN memory_source_embeddings AS s ON s.tenant_id = %(tenant_id)s
     AND s.user_id = %(user_id)s AND s.memory_id = c.memory_id AND s.model = %(model)s
WHERE c.memory_id IN (SELECT memory_id FROM nearest UNION SELECT memory_id FROM wordiest)
"""
)

# A page of memories in one of four orders (`usefulness` is importance, then recency of use);
# `after` is the last row of the page before. The key is text that sorts as its value does, so that
# one cursor fits every order.
_PAGE = (
    """
WITH listed AS MATERIALIZED (
    SELECT m.memory_id,
           (CASE %(order_by)s
                WHEN 'importance' THEN to_char(m.importance, 'FM0.0000000000')
                WHEN 'usefulness' THEN to_char(m.importance, 'FM0.0000000000') || to_char(
                     coalesce(a.last_accessed_at, m.created_at) AT TIME ZONE 'UTC',
                     'YYYY-MM-DD"T"HH24:MI:SS.US')
                WHEN 'last_accessed_at' THEN to_char(
                     coalesce(a.last_accessed_at, m.created_at) AT TIME ZONE 'UTC',
                     'YYYY-MM-DD"T"HH24:MI:SS.US')
                ELSE to_char(m.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US')
            END) COLLATE "C" AS sort_key
    FROM memories AS m
    LEFT JOIN memory_access AS a ON a.tenant_id = m.tenant_id AND a.user_id = m.user_id
         AND a.memory_id = m.memory_id
"""
    + _LET_THROUGH
    + """
)
SELECT memory_id, sort_key, (SELECT count(*) FROM listed)
FROM listed
WHERE %(after_key)s::text IS NULL OR (sort_key, memory_id) < (%(after_key)s, %(after_id)s::uuid)
ORDER BY sort_key DESC, memory_id DESC
LIMIT %(limit)s
"""
)


@dataclass(frozen=True, slots=True)
class Filters:
    """Which memories count; None lets everything through."""

    statuses: Sequence[str] = CURRENT_STATUSES
    only_current: bool = True
    types: Sequence[str] | None = None
    tags: Sequence[str] | None = None
    sources: Sequence[str] | None = None
    confidences: Sequence[str] | None = None
    conversation_id: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    entity_key: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def parameters(self) -> dict[str, Any]:
        """The filters as statement parameters."""
        return {
            "statuses": list(self.statuses),
            "only_current": self.only_current,
            "types": list(self.types) if self.types else None,
            "tags": list(self.tags) if self.tags else None,
            "sources": list(self.sources) if self.sources else None,
            "confidences": list(self.confidences) if self.confidences else None,
            "conversation_id": self.conversation_id,
            "created_after": self.created_after,
            "created_before": self.created_before,
            "entity_key": self.entity_key,
            "metadata": Jsonb(dict(self.metadata)) if self.metadata else None,
        }


@dataclass(frozen=True, slots=True)
class Candidate:
    """A memory that may be an answer, with the features a ranking adds up.

    `cosine` and `source_cosine` lie in -1..1 and are None where there is no vector; `bm25` is 0
    where no word of the query stands in the memory.
    """

    memory_id: UUID
    importance: float
    created_at: datetime
    valid_from: datetime
    conversation_id: str | None
    bm25: float
    cosine: float | None
    source_cosine: float | None


async def exists(connection: Connection, scope: Scope, memory_id: UUID) -> bool:
    """Whether the user has this memory, in whatever status."""
    cursor = await connection.execute(
        _EXISTS,
        {"tenant_id": scope.tenant_id, "user_id": scope.user_id, "memory_id": memory_id},
    )
    row = await cursor.fetchone()
    return bool(row and row[0])


async def read_by_ids(
    connection: Connection, scope: Scope, memory_ids: Sequence[UUID]
) -> list[Memory]:
    """Whole memories in the order of their ids; ids that are not the user's are left out."""
    if not memory_ids:
        return []
    cursor = await connection.execute(_BY_IDS, {**_of(scope), "memory_ids": list(memory_ids)})
    found = {row[0]: _memory(row) for row in await cursor.fetchall()}
    return [found[memory_id] for memory_id in memory_ids if memory_id in found]


async def top_ids(connection: Connection, scope: Scope, *, limit: int, fresh: int) -> list[UUID]:
    """The ids of D1's top list."""
    cursor = await connection.execute(_TOP, {**_of(scope), "limit": limit, "fresh": fresh})
    return [row[0] for row in await cursor.fetchall()]


async def newest_ids(connection: Connection, scope: Scope, *, limit: int) -> list[UUID]:
    """The ids of the newest current memories."""
    cursor = await connection.execute(_NEWEST, {**_of(scope), "limit": limit})
    return [row[0] for row in await cursor.fetchall()]


async def find_candidates(
    connection: Connection,
    scope: Scope,
    filters: Filters,
    *,
    vector: Vector | None,
    model: str,
    bm25: Mapping[int, float],
    wanted: int,
) -> tuple[list[Candidate], int]:
    """Candidates for a ranking, and how many memories the filters let through in all."""
    cursor = await connection.execute(
        _CANDIDATES,
        {
            **_of(scope),
            **filters.parameters(),
            "vector": None if vector is None else HalfVector(np.asarray(vector)),
            "model": model,
            "lexical_nos": list(bm25.keys()),
            "bm25": list(bm25.values()),
            "wanted": wanted,
        },
    )
    rows = await cursor.fetchall()
    return [Candidate(*row[:-1]) for row in rows], int(rows[0][-1]) if rows else 0


async def list_page(
    connection: Connection,
    scope: Scope,
    filters: Filters,
    *,
    order_by: str,
    after: tuple[str, str] | None,
    limit: int,
) -> tuple[list[Memory], tuple[str, str] | None, int]:
    """A page of memories, where the next one starts, and how many there are in all."""
    cursor = await connection.execute(
        _PAGE,
        {
            **_of(scope),
            **filters.parameters(),
            "order_by": order_by,
            "after_key": after[0] if after else None,
            "after_id": after[1] if after else None,
            "limit": limit + 1,
        },
    )
    rows = await cursor.fetchall()
    memories = await read_by_ids(connection, scope, [row[0] for row in rows[:limit]])
    last = rows[limit - 1] if len(rows) > limit else None
    return (
        memories,
        (last[1], str(last[0])) if last else None,
        int(rows[0][2]) if rows else 0,
    )


def _memory(row: tuple[Any, ...]) -> Memory:
    return Memory(
        memory_id=row[0],
        user_id=row[1],
        type=row[2],
        content=row[3],
        importance=row[4],
        confidence=row[5],
        source=row[6],
        origin=row[7],
        status=row[8],
        valid_from=row[9],
        created_at=row[10],
        updated_at=row[11],
        detail=row[12],
        tags=row[13],
        keywords=row[14],
        context=row[15],
        metadata=row[16],
        sensitive=row[17],
        conversation_id=row[18],
        valid_to=row[19],
        expires_at=row[20],
        superseded_by=row[21],
        supersedes=row[22],
        version=row[23],
        job_id=row[24],
        access_count=row[25],
        last_accessed_at=row[26],
        sources=[SourceRef(*pair) for pair in row[27]],
        entities=row[28],
    )


def _of(scope: Scope) -> dict[str, Any]:
    return {"tenant_id": scope.tenant_id, "user_id": scope.user_id}
