"""Entities and tags: the memories that mention them, and what memories mention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from hitherto_shared.database.arrays import Uuids
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.models import Entity

_NAMES = """
SELECT entity_id, name_key, aliases, name, type
FROM entities
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND mention_count > 0
ORDER BY mention_count DESC, name_key
LIMIT %(limit)s
"""

# Without statistics, Postgres would compare each memory of the user with each mention. Either table
# is therefore read once, and a full join combines what was found: it cannot be a nested loop.
_BY_ENTITY = """
WITH mentioned AS MATERIALIZED (
    SELECT memory_id, count(*) AS entities
    FROM entity_mentions
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
      AND entity_id = ANY(%(entity_ids)s)
    GROUP BY memory_id
), described AS MATERIALIZED (
    SELECT memory_id, importance, created_at
    FROM memories
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
      AND memory_id = ANY(ARRAY(SELECT memory_id FROM mentioned))
      AND status IN ('active', 'achieved')
), counted AS MATERIALIZED (
    SELECT described.memory_id, entities, importance, created_at
    FROM described
    FULL JOIN mentioned ON mentioned.memory_id = described.memory_id
)
SELECT memory_id
FROM counted
WHERE memory_id IS NOT NULL
ORDER BY entities DESC, importance DESC, created_at DESC
LIMIT %(limit)s
"""

_BY_TAG = """
SELECT memory_id
FROM memories
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND tags && %(tags)s AND status IN ('active', 'achieved')
ORDER BY importance DESC, created_at DESC
LIMIT %(limit)s
"""

_ENTITIES = """
SELECT entity_id, name, type, mention_count, aliases, metadata, created_at >= now()
FROM entities
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND entity_id = ANY(ARRAY(
      SELECT entity_id
      FROM entity_mentions
      WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
        AND memory_id = ANY(%(memory_ids)s)))
ORDER BY mention_count DESC, name
"""


@dataclass(frozen=True, slots=True)
class EntityNames:
    """An entity and its names: the folded name, and the others as written."""

    entity_id: UUID
    name_key: str
    aliases: Sequence[str]
    name: str = ""
    type: str = "other"


async def read_names(user: UserRows, *, limit: int) -> list[EntityNames]:
    """The most mentioned entities."""
    return await user.fetch(EntityNames, _NAMES, limit=limit)


async def memories_of_entities(
    user: UserRows, entity_ids: Sequence[UUID], *, limit: int
) -> list[UUID]:
    """Current memories that mention one of these, those that mention the most of them first."""
    return await user.fetch_values(_BY_ENTITY, entity_ids=Uuids(entity_ids), limit=limit)


async def memories_of_tags(user: UserRows, tags: Sequence[str], *, limit: int) -> list[UUID]:
    """Current memories with one of these tags, the most important first."""
    return await user.fetch_values(_BY_TAG, tags=list(tags), limit=limit)


async def entities_of(user: UserRows, memory_ids: Sequence[UUID]) -> list[tuple[Entity, bool]]:
    """The entities these memories mention, and whether this transaction created them."""
    cursor = await user.execute(_ENTITIES, memory_ids=list(memory_ids))
    return [(Entity(*row[:6]), row[6]) for row in await cursor.fetchall()]
