"""Entities and tags: which memories mention them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from uuid import UUID

from hitherto_shared.database.arrays import Texts, Uuids
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.identifiers import uuid7
from hitherto_shared.models import Entity
from hitherto_shared.text.normalise import fold

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

# Finds or creates the entities, each named once; a name in another spelling becomes an alias.
_UPSERT_ENTITIES = """
INSERT INTO entities AS held (tenant_id, user_id, entity_id, name, name_key, type)
SELECT u.tenant_id, u.user_id, named.entity_id, named.name, named.name_key, named.type
FROM @its_user AS u
CROSS JOIN unnest(
    %(entity_ids)s::uuid[], %(names)s::text[], %(name_keys)s::text[], %(types)s::text[])
    AS named (entity_id, name, name_key, type)
ON CONFLICT (tenant_id, user_id, type, name_key) DO UPDATE
SET updated_at = EXCLUDED.updated_at,
    aliases = CASE WHEN EXCLUDED.name = held.name OR EXCLUDED.name = ANY(held.aliases)
             OR cardinality(held.aliases) >= 32
        THEN held.aliases ELSE held.aliases || EXCLUDED.name END
RETURNING held.type, held.name_key, held.entity_id
"""

_MENTION = """
WITH mention AS (
    INSERT INTO entity_mentions (tenant_id, user_id, entity_id, memory_id)
    SELECT u.tenant_id, u.user_id, named.entity_id, named.memory_id
    FROM @its_user AS u
    CROSS JOIN unnest(%(entity_ids)s::uuid[], %(memory_ids)s::uuid[])
        AS named (entity_id, memory_id)
    ON CONFLICT DO NOTHING
    RETURNING entity_id
), counted AS (
    SELECT entity_id, count(*) AS times FROM mention GROUP BY entity_id
)
UPDATE entities AS e SET mention_count = e.mention_count + counted.times
FROM counted
WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s AND e.entity_id = counted.entity_id
"""

# The entity that has this name already, whatever its type; if several, the most mentioned one.
_BY_NAME = """
SELECT DISTINCT ON (name_key) name_key, type
FROM entities
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND name_key = ANY(%(name_keys)s)
ORDER BY name_key, mention_count DESC
"""

_UNMENTION = """
WITH gone AS (
    DELETE FROM entity_mentions
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = %(memory_id)s
    RETURNING entity_id
)
UPDATE entities AS e SET mention_count = greatest(e.mention_count - 1, 0)
FROM gone
WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s AND e.entity_id = gone.entity_id
"""

# How many memories and documents mention an entity, without forgotten memories: an entity known
# only from these is not shown.
_RECOUNT = """
UPDATE entities AS e
SET mention_count = (
    SELECT count(*)
    FROM entity_mentions AS em
    JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
         AND m.memory_id = em.memory_id
    WHERE em.tenant_id = %(tenant_id)s AND em.user_id = %(user_id)s AND em.entity_id = e.entity_id
      AND m.status <> 'forgotten'
) + (
    SELECT count(*)
    FROM document_mentions AS dm
    WHERE dm.tenant_id = %(tenant_id)s AND dm.user_id = %(user_id)s AND dm.entity_id = e.entity_id
)
WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
  AND (e.entity_id = ANY(%(entity_ids)s::uuid[]) OR e.entity_id IN (
      SELECT em.entity_id FROM entity_mentions AS em
      WHERE em.tenant_id = %(tenant_id)s AND em.user_id = %(user_id)s
        AND em.memory_id = ANY(%(memory_ids)s)))
"""

# The names that these memories mention, and the given ones, without those that anything else names
# in its words or mentions: another memory that is not forgotten, or a document.
_ONLY_NAMED_BY = """
WITH named AS (
    SELECT e.name, e.name_key
    FROM entity_mentions AS em
    JOIN entities AS e ON e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
         AND e.entity_id = em.entity_id
    WHERE em.tenant_id = %(tenant_id)s AND em.user_id = %(user_id)s
      AND em.memory_id = ANY(%(memory_ids)s::uuid[])
    UNION
    SELECT name, name_key
    FROM unnest(%(names)s::text[], %(name_keys)s::text[]) AS given (name, name_key)
)
SELECT named.name
FROM named
WHERE NOT EXISTS (
    SELECT FROM memories AS m
    WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
      AND m.status <> 'forgotten' AND m.memory_id <> ALL(%(memory_ids)s::uuid[])
      AND position(lower(named.name) IN lower(m.content)) > 0)
  AND NOT EXISTS (
    SELECT FROM entities AS e
    JOIN entity_mentions AS em ON em.tenant_id = %(tenant_id)s AND em.user_id = %(user_id)s
         AND em.entity_id = e.entity_id AND em.memory_id <> ALL(%(memory_ids)s::uuid[])
    JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
         AND m.memory_id = em.memory_id AND m.status <> 'forgotten'
    WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
      AND e.name_key = named.name_key)
  AND NOT EXISTS (
    SELECT FROM entities AS e
    JOIN document_mentions AS dm ON dm.tenant_id = %(tenant_id)s AND dm.user_id = %(user_id)s
         AND dm.entity_id = e.entity_id
    WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
      AND e.name_key = named.name_key)
LIMIT %(limit)s
"""
_MOST_NAMES = 100


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
    rows = await user.fetch_rows(_ENTITIES, memory_ids=list(memory_ids))
    return [(Entity(*columns), new) for *columns, new in rows]


async def only_named_by(
    user: UserRows, memory_ids: Sequence[UUID], names: Sequence[str]
) -> list[str]:
    """The names that these memories mention, and the given ones, that nothing else mentions."""
    return await user.fetch_values(
        _ONLY_NAMED_BY,
        memory_ids=Uuids(memory_ids),
        names=Texts(names),
        name_keys=Texts(fold(name) for name in names),
        limit=_MOST_NAMES,
    )


async def mention(user: UserRows, mentions: Sequence[tuple[UUID, str, str]]) -> None:
    """Link memories to the entities they mention (memory, name, type), creating new entities."""
    named = {(kind, fold(name)): name for _, name, kind in reversed(mentions)}
    if not named:
        return
    rows = await user.fetch_rows(
        _UPSERT_ENTITIES,
        entity_ids=Uuids(uuid7() for _ in named),
        names=Texts(named.values()),
        name_keys=Texts(key for _, key in named),
        types=Texts(kind for kind, _ in named),
    )
    known = {(kind, key): entity_id for kind, key, entity_id in rows}
    await user.later(
        _MENTION,
        entity_ids=Uuids(known[kind, fold(name)] for _, name, kind in mentions),
        memory_ids=Uuids(memory_id for memory_id, _, _ in mentions),
    )


async def replace(user: UserRows, memory_id: UUID, names: Sequence[str]) -> None:
    """Let a memory mention exactly these names; an unknown name becomes an entity OTHER."""
    keys = [fold(name) for name in names]
    kinds: dict[str, str] = dict(await user.fetch_rows(_BY_NAME, name_keys=keys))
    await user.later(_UNMENTION, memory_id=memory_id)
    await mention(
        user,
        [(memory_id, name, kinds.get(key, "other")) for name, key in zip(names, keys, strict=True)],
    )


async def recount(
    user: UserRows, memory_ids: Sequence[UUID], *, also: Collection[UUID] = ()
) -> None:
    """Recount how often memories that are not forgotten mention the entities of these memories.

    `also` names entities that they mention no more.
    """
    await user.later(_RECOUNT, memory_ids=list(memory_ids), entity_ids=list(also))
