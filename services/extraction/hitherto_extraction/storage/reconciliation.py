"""What reconciliation reads of a user's memories, and how it joins their sources."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import numpy as np
from pgvector import HalfVector

from hitherto_extraction.storage.superseded import stand_ins, standing_for
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
    """How memories stand to others, by id.

    What may replace a joined memory may replace the one that stands for it.
    """
    found = await user.fetch(MemoryLinks, _LINKS, memory_ids=list(memory_ids))
    present = await stand_ins(user, {older for each in found for older in each.may_replace})
    return {
        each.memory_id: replace(
            each,
            may_replace=[
                older
                for older in dict.fromkeys(present.get(older, older) for older in each.may_replace)
                if older != each.memory_id
            ],
        )
        for each in found
    }


async def unsettled_with(user: UserRows, memory_ids: Collection[UUID]) -> list[UUID]:
    """The memories that may replace one of these, or one that was joined to it."""
    standing = await standing_for(user, memory_ids)
    return await user.fetch_values(_UNSETTLED, memory_ids=standing)


async def settled_before(
    user: UserRows, memory_ids: Collection[UUID]
) -> set[tuple[UUID, UUID, str]]:
    """What reconciliations did with pairs: memory, other, action."""
    rows = await user.fetch_rows(_SETTLED_BEFORE, memory_ids=list(memory_ids))
    return {(memory_id, other, action) for memory_id, other, action in rows}


async def join_sources(user: UserRows, memory_id: UUID, *, into: UUID, quotes: bool) -> None:
    """Give a memory the sources of one that says the same; their words only with `quotes`."""
    await user.later(_JOIN_SOURCES, memory_id=memory_id, into=into, quotes=quotes)


async def part_sources(user: UserRows, memory_ids: Sequence[UUID]) -> None:
    """Take back the sources that others took over from these. The role is hitherto_removal."""
    await user.execute(_PART_SOURCES, memory_ids=list(memory_ids))
