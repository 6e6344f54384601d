"""What reconciliation reads of a user's memories, and how it joins their sources."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
from pgvector import HalfVector

from hitherto_shared.database.arrays import Uuids
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.embeddings.protocol import Vector

# For each of these memories the nearest current ones, by the vectors of the active model.
_NEAREST = """
SELECT memory_id, other_id, cosine
FROM (
    SELECT c.memory_id, o.memory_id AS other_id, 1 - (o.embedding <=> c.embedding) AS cosine,
           row_number() OVER (PARTITION BY c.memory_id
                              ORDER BY o.embedding <=> c.embedding, o.memory_id) AS place
    FROM memory_embeddings AS c
    JOIN memory_embeddings AS o ON o.tenant_id = %(tenant_id)s AND o.user_id = %(user_id)s
         AND o.model = c.model AND o.status IN ('active', 'achieved')
         AND o.memory_id <> c.memory_id
    WHERE c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s AND c.model = %(model)s
      AND c.memory_id = ANY(%(memory_ids)s)
) AS ranked
WHERE place <= %(limit)s AND cosine > 0
ORDER BY place, cosine DESC, memory_id
"""

_VECTORS = """
SELECT memory_id, embedding
FROM memory_embeddings
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND model = %(model)s
  AND memory_id = ANY(%(memory_ids)s)
"""

# The same for vectors that no row holds in clear.
_NEAREST_TO_VECTORS = """
SELECT memory_id, other_id, cosine
FROM (
    SELECT c.memory_id, o.memory_id AS other_id, 1 - (o.embedding <=> c.vector) AS cosine,
           row_number() OVER (PARTITION BY c.memory_id
                              ORDER BY o.embedding <=> c.vector, o.memory_id) AS place
    FROM unnest(%(memory_ids)s::uuid[], %(vectors)b::halfvec[]) AS c (memory_id, vector)
    JOIN memory_embeddings AS o ON o.tenant_id = %(tenant_id)s AND o.user_id = %(user_id)s
         AND o.model = %(model)s AND o.status IN ('active', 'achieved')
) AS ranked
WHERE place <= %(limit)s AND cosine > 0
"""

# Current memories that mention the same entities as these, those with most of them first.
_OF_SAME_ENTITIES = """
SELECT m.memory_id
FROM entity_mentions AS named
JOIN entity_mentions AS em ON em.tenant_id = %(tenant_id)s AND em.user_id = %(user_id)s
     AND em.entity_id = named.entity_id
JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
     AND m.memory_id = em.memory_id AND m.status IN ('active', 'achieved')
WHERE named.tenant_id = %(tenant_id)s AND named.user_id = %(user_id)s
  AND named.memory_id = ANY(%(memory_ids)s) AND m.memory_id <> ALL(%(memory_ids)s)
GROUP BY m.memory_id, m.importance, m.created_at
ORDER BY count(*) DESC, m.importance DESC, m.created_at DESC
LIMIT %(limit)s
"""

# Current memories with a tag of these, the most important first.
_OF_SAME_TAGS = """
SELECT m.memory_id
FROM memories AS m
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
  AND m.status IN ('active', 'achieved') AND m.memory_id <> ALL(%(memory_ids)s)
  AND m.tags && (
      SELECT coalesce(array_agg(tag), '{}') FROM memories AS c, unnest(c.tags) AS tag
      WHERE c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s
        AND c.memory_id = ANY(%(memory_ids)s))
ORDER BY m.importance DESC, m.created_at DESC
LIMIT %(limit)s
"""

# How these memories stand to others: which they may replace, and which they have replaced.
_LINKS = """
SELECT memory_id, may_replace, supersedes, doubt
FROM memories
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = ANY(%(memory_ids)s)
"""

# Memories that name one of these as those they may replace.
_UNSETTLED = """
SELECT memory_id
FROM memories
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND may_replace <> '{}'
  AND may_replace && %(memory_ids)s::uuid[]
"""

# Pairs that an earlier reconciliation settled. If both stand again, somebody has undone it.
_SETTLED_BEFORE = """
SELECT memory_id, related_memory_id, action
FROM history
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = ANY(%(memory_ids)s)
  AND actor = 'reconciliation' AND related_memory_id IS NOT NULL
"""

_IN_DOUBT_BECAUSE = """
SELECT memory_id
FROM memories
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND doubt IS NOT NULL
  AND doubt ->> 'because' = ANY(%(memory_ids)s::text[])
ORDER BY memory_id
"""

_IN_DOUBT = """
SELECT memory_id
FROM memories
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND doubt IS NOT NULL
ORDER BY memory_id
"""

# These memories, and what is superseded by one of them, directly or indirectly.
_STANDING_FOR = """
WITH RECURSIVE causes (memory_id) AS (
    SELECT unnest(%(memory_ids)s::uuid[])
    UNION
    SELECT m.memory_id
    FROM causes AS c
    JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
         AND m.superseded_by = c.memory_id AND m.status = 'superseded'
)
SELECT memory_id FROM causes
"""

# Those of these that still say something, by themselves or by what stands for them. Whoever takes a
# merge apart takes the merged words back; it is archived, and stands for nothing any more.
_THAT_STAND = """
WITH RECURSIVE heads (cause, memory_id, status, source, superseded_by, steps) AS (
    SELECT m.memory_id, m.memory_id, m.status, m.source, m.superseded_by, 1
    FROM memories AS m
    WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
      AND m.memory_id = ANY(%(memory_ids)s)
    UNION ALL
    SELECT h.cause, m.memory_id, m.status, m.source, m.superseded_by, h.steps + 1
    FROM heads AS h
    JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
         AND m.memory_id = h.superseded_by
    WHERE h.status = 'superseded' AND h.steps < 64
)
SELECT cause
FROM heads AS h
WHERE h.status NOT IN ('superseded', 'forgotten')
  AND NOT (h.status = 'archived' AND h.source = 'consolidation' AND NOT EXISTS (
      SELECT FROM memories AS m
      WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
        AND m.superseded_by = h.memory_id))
"""

# The doubts of these memories and those because of these causes, and such as have ended: the last
# ones of active memories about which nothing was said since, ended by what the history relates to
# the cause, and cast by no job that was taken back. A doubt that is related to another memory than
# its cause was taken over from that one, and is `parted` from it if that is joined no longer.
_DOUBTS = """
WITH ended AS (
    SELECT v.memory_id, v.version, v.doubt
    FROM memory_versions AS v
    WHERE v.tenant_id = %(tenant_id)s AND v.user_id = %(user_id)s
      AND v.memory_id = ANY(%(memory_ids)s) AND v.doubt IS NOT NULL
    UNION
    SELECT v.memory_id, v.version, v.doubt
    FROM memory_versions AS v
    WHERE cardinality(%(back)s::text[]) > 0
      AND v.tenant_id = %(tenant_id)s AND v.user_id = %(user_id)s
      AND v.doubt ->> 'because' = ANY(%(back)s::text[])
), found AS (
    SELECT m.memory_id, m.doubt, true AS stands
    FROM memories AS m
    WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.doubt IS NOT NULL
      AND (m.memory_id = ANY(%(memory_ids)s)
           OR m.doubt ->> 'because' = ANY(%(causes)s::text[]))
    UNION ALL
    SELECT m.memory_id, e.doubt, false
    FROM ended AS e
    JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
         AND m.memory_id = e.memory_id AND m.status = 'active' AND m.doubt IS NULL
         AND m.said_at < (e.doubt ->> 'since')::timestamptz
    JOIN history AS h ON h.tenant_id = %(tenant_id)s AND h.user_id = %(user_id)s
         AND h.memory_id = e.memory_id AND h.version = e.version + 1 AND h.subject = 'memory'
         AND h.related_memory_id::text = e.doubt ->> 'because'
    WHERE NOT EXISTS (
        SELECT FROM memory_versions AS later
        WHERE later.tenant_id = %(tenant_id)s AND later.user_id = %(user_id)s
          AND later.memory_id = e.memory_id AND later.version > e.version
          AND later.doubt IS NOT NULL)
)
SELECT f.memory_id, f.doubt, f.stands,
       h.related_memory_id::text <> f.doubt ->> 'because' AND NOT EXISTS (
           SELECT FROM memories AS o
           WHERE o.tenant_id = %(tenant_id)s AND o.user_id = %(user_id)s
             AND o.memory_id = h.related_memory_id AND o.superseded_by = f.memory_id) AS parted
FROM found AS f
CROSS JOIN LATERAL (
    SELECT min(v.version) AS version
    FROM (
        SELECT version, doubt FROM memory_versions
        WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = f.memory_id
        UNION ALL
        SELECT version, doubt FROM memories
        WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = f.memory_id
    ) AS v
    WHERE v.doubt ->> 'because' = f.doubt ->> 'because'
      AND v.doubt ->> 'since' = f.doubt ->> 'since'
) AS cast_by
LEFT JOIN history AS h ON h.tenant_id = %(tenant_id)s AND h.user_id = %(user_id)s
     AND h.memory_id = f.memory_id AND h.version = cast_by.version AND h.subject = 'memory'
WHERE f.stands OR NOT EXISTS (
    SELECT FROM statements AS s
    WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
      AND s.memory_id = f.memory_id AND s.version = cast_by.version AND s.action = 'taken')
ORDER BY f.memory_id
"""

_JOIN_SOURCES = """
INSERT INTO memory_sources (tenant_id, user_id, memory_id, conversation_id, message_id, quote,
                            joined_from)
SELECT s.tenant_id, s.user_id, %(into)s, s.conversation_id, s.message_id,
       CASE WHEN %(quotes)s THEN s.quote END, s.memory_id
FROM memory_sources AS s
WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s AND s.memory_id = %(memory_id)s
ON CONFLICT DO NOTHING
"""

_PART_SOURCES = """
DELETE FROM memory_sources
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND joined_from = ANY(%(memory_ids)s)
"""


@dataclass(frozen=True, slots=True)
class MemoryLinks:
    """The memories that one may replace and those that it has replaced; why it is in doubt."""

    memory_id: UUID
    may_replace: Sequence[UUID]
    supersedes: Sequence[UUID]
    doubt: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class FollowedDoubt:
    """A doubt that `stands`, or that ended with its cause and may return.

    It is `parted` if it was taken over from a joined memory that stands for itself again.
    """

    memory_id: UUID
    doubt: dict[str, Any]
    stands: bool
    parted: bool | None

    @property
    def because(self) -> UUID:
        """The cause."""
        return UUID(self.doubt["because"])


async def nearest(
    user: UserRows, memory_ids: Sequence[UUID], *, model: str, limit: int
) -> list[tuple[UUID, UUID, float]]:
    """The nearest memories of each, as (memory, other, cosine): the nearest of all first.

    Sealed ones are left out; see `sealed_memories.nearest`.
    """
    return list(
        await user.fetch_rows(_NEAREST, memory_ids=Uuids(memory_ids), model=model, limit=limit)
    )


async def clear_vectors(
    user: UserRows, memory_ids: Sequence[UUID], *, model: str
) -> dict[UUID, Vector]:
    """The vectors of these memories, as far as they are stored in clear."""
    rows = await user.fetch_rows(_VECTORS, memory_ids=Uuids(memory_ids), model=model)
    return {memory_id: vector.to_numpy().astype(np.float32) for memory_id, vector in rows}


async def nearest_to_vectors(
    user: UserRows, vectors: Mapping[UUID, Vector], *, model: str, limit: int
) -> list[tuple[UUID, UUID, float]]:
    """The nearest memories in clear of sealed ones with these vectors; see `nearest`."""
    if not vectors:
        return []
    return list(
        await user.fetch_rows(
            _NEAREST_TO_VECTORS,
            memory_ids=Uuids(vectors),
            vectors=[HalfVector(each) for each in vectors.values()],
            model=model,
            limit=limit,
        )
    )


async def of_same_entities(user: UserRows, memory_ids: Sequence[UUID], limit: int) -> list[UUID]:
    """Current memories that mention the same entities as these."""
    return await user.fetch_values(_OF_SAME_ENTITIES, memory_ids=list(memory_ids), limit=limit)


async def of_same_tags(user: UserRows, memory_ids: Sequence[UUID], limit: int) -> list[UUID]:
    """Current memories that share a tag with these."""
    return await user.fetch_values(_OF_SAME_TAGS, memory_ids=list(memory_ids), limit=limit)


async def read_links(user: UserRows, memory_ids: Collection[UUID]) -> dict[UUID, MemoryLinks]:
    """How memories stand to others, by id."""
    found = await user.fetch(MemoryLinks, _LINKS, memory_ids=list(memory_ids))
    return {each.memory_id: each for each in found}


async def unsettled_with(user: UserRows, memory_ids: Collection[UUID]) -> list[UUID]:
    """The memories that may replace one of these."""
    return await user.fetch_values(_UNSETTLED, memory_ids=list(memory_ids))


async def settled_before(
    user: UserRows, memory_ids: Collection[UUID]
) -> set[tuple[UUID, UUID, str]]:
    """What reconciliations did with pairs: memory, other, action."""
    rows = await user.fetch_rows(_SETTLED_BEFORE, memory_ids=list(memory_ids))
    return {(memory_id, other, action) for memory_id, other, action in rows}


async def in_doubt_because(user: UserRows, memory_ids: Collection[UUID]) -> list[UUID]:
    """The memories that are in doubt because of these."""
    return await user.fetch_values(_IN_DOUBT_BECAUSE, memory_ids=[str(each) for each in memory_ids])


async def standing_for(user: UserRows, memory_ids: Collection[UUID]) -> list[UUID]:
    """These memories, and all that they stand for: merged into one of them, or joined to it."""
    return await user.fetch_values(_STANDING_FOR, memory_ids=list(memory_ids))


async def in_doubt(user: UserRows) -> list[UUID]:
    """All memories that are in doubt."""
    return await user.fetch_values(_IN_DOUBT)


async def that_stand(user: UserRows, memory_ids: Collection[UUID]) -> set[UUID]:
    """Those of these that still say something, by themselves or by what stands for them."""
    return set(await user.fetch_values(_THAT_STAND, memory_ids=list(memory_ids)))


async def doubts_about(
    user: UserRows,
    memory_ids: Collection[UUID],
    causes: Collection[UUID],
    *,
    back: Collection[UUID],
) -> list[FollowedDoubt]:
    """The doubts of these memories and those because of `causes`, also such as have ended.

    Of the latter those of these memories, and those because of causes that are `back`.
    """
    return await user.fetch(
        FollowedDoubt,
        _DOUBTS,
        memory_ids=list(memory_ids),
        causes=[str(each) for each in causes],
        back=[str(each) for each in back],
    )


async def join_sources(user: UserRows, memory_id: UUID, *, into: UUID, quotes: bool) -> None:
    """Give a memory the sources of one that says the same; their words only with `quotes`."""
    await user.execute(_JOIN_SOURCES, memory_id=memory_id, into=into, quotes=quotes)


async def part_sources(user: UserRows, memory_ids: Sequence[UUID]) -> None:
    """Take back the sources that others took over from these. The role is hitherto_removal."""
    await user.execute(_PART_SOURCES, memory_ids=list(memory_ids))


def doubt_of(because: UUID, reason: str, since: datetime) -> dict[str, str]:
    """A doubt as it is stored."""
    return {"because": str(because), "reason": reason, "since": since.isoformat()}
