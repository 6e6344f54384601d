"""The entities that documents mention, and what the documents contribute to them.

Callers hold the user's row. The role is hitherto_write or hitherto_removal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from hitherto_shared.database.arrays import fields_of, records
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.text.normalise import fold

# What only this document's mention contributed leaves the entity with it. Memories do not matter
# here: their spellings differ from the entity's name in case and diacritics only.
_ONLY_HERE = """
SELECT here.entity_id, ARRAY(
    SELECT name FROM unnest(here.names) AS name
    WHERE NOT EXISTS (
        SELECT FROM document_mentions AS other
        WHERE other.tenant_id = %(tenant_id)s AND other.user_id = %(user_id)s
          AND other.entity_id = here.entity_id AND other.document_id <> %(document_id)s
          AND name = ANY(other.names))) AS names
FROM document_mentions AS here
WHERE here.tenant_id = %(tenant_id)s AND here.user_id = %(user_id)s
  AND here.document_id = %(document_id)s
"""

_DELETE = """
DELETE FROM document_mentions
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND document_id = %(document_id)s
"""

_WITHDRAW = """
UPDATE entities AS e
SET mention_count = greatest(e.mention_count - 1, 0),
    aliases = ARRAY(SELECT alias FROM unnest(e.aliases) WITH ORDINALITY AS a (alias, place)
                    WHERE alias <> ALL(lost.names) ORDER BY place),
    metadata = CASE WHEN e.metadata ->> 'email' = ANY(lost.names)
                    THEN e.metadata - 'email' ELSE e.metadata END
FROM json_to_recordset(%(rows)s) AS lost (entity_id uuid, names text[])
WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s AND e.entity_id = lost.entity_id
"""

_DROP_UNMENTIONED = """
DELETE FROM entities AS e
WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s AND e.entity_id = ANY(%(entity_ids)s)
  AND NOT EXISTS (
      SELECT FROM entity_mentions AS em
      WHERE em.tenant_id = %(tenant_id)s AND em.user_id = %(user_id)s
        AND em.entity_id = e.entity_id)
  AND NOT EXISTS (
      SELECT FROM document_mentions AS dm
      WHERE dm.tenant_id = %(tenant_id)s AND dm.user_id = %(user_id)s
        AND dm.entity_id = e.entity_id)
"""

_FIND = """
SELECT entity_id, type, name, name_key, aliases, coalesce(metadata ->> 'email', '')
FROM entities
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND (name_key = ANY(%(name_keys)s::text[]) OR aliases && %(names)s::text[]
       OR metadata ->> 'email' = ANY(%(names)s::text[]))
ORDER BY mention_count, entity_id
"""

_INSERT = """
INSERT INTO entities (tenant_id, user_id, entity_id, name, name_key, type, aliases, metadata)
VALUES (%(tenant_id)s, %(user_id)s, %(entity_id)s, %(name)s, %(name_key)s, %(type)s, %(aliases)s,
        jsonb_strip_nulls(jsonb_build_object('email', nullif(%(email)s::text, ''))))
"""

_UPDATE = """
UPDATE entities
SET name = %(name)s, name_key = %(name_key)s, aliases = %(aliases)s, updated_at = now(),
    metadata = (metadata - 'email')
        || jsonb_strip_nulls(jsonb_build_object('email', nullif(%(email)s::text, '')))
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND entity_id = %(entity_id)s
"""

_MENTION = """
INSERT INTO document_mentions (tenant_id, user_id, entity_id, document_id, names)
VALUES (%(tenant_id)s, %(user_id)s, %(entity_id)s, %(document_id)s, %(names)s)
"""

_COUNT = """
UPDATE entities SET mention_count = mention_count + 1
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND entity_id = ANY(%(entity_ids)s)
"""


@dataclass(slots=True)
class EntityChange:
    """An entity before and after a document is read; `email` is empty if no document gave one."""

    entity_id: UUID
    type: str
    name: str
    name_key: str
    aliases: list[str]
    email: str = ""
    names: list[str] = field(default_factory=list)
    new: bool = False
    changed: bool = False

    @property
    def nameless(self) -> bool:
        """Whether only an address is known of a person."""
        return bool(self.email) and self.name_key == fold(self.email)


async def withdraw(user: UserRows, document_id: UUID) -> list[UUID]:
    """Remove all mentions of a document; returns the entities it mentioned."""
    lost = await user.fetch_rows(_ONLY_HERE, document_id=document_id)
    if lost:
        await user.later(_DELETE, document_id=document_id)
        rows = [{"entity_id": entity_id, "names": names} for entity_id, names in lost]
        await user.later(_WITHDRAW, rows=records(rows))
    return [entity_id for entity_id, _ in lost]


async def drop_unmentioned(user: UserRows, entity_ids: Sequence[UUID]) -> int:
    """Delete those of these entities that nothing mentions any more; returns their number."""
    return (await user.execute(_DROP_UNMENTIONED, entity_ids=list(entity_ids))).rowcount


async def find(
    user: UserRows, *, name_keys: Sequence[str], names: Sequence[str]
) -> list[EntityChange]:
    """Entities by folded name, or by an alias or address as written; the most mentioned last."""
    return await user.fetch(EntityChange, _FIND, name_keys=list(name_keys), names=list(names))


async def write(user: UserRows, entities: Sequence[EntityChange]) -> None:
    """Store new entities, and the new state of others that have changed."""
    new = [each for each in entities if each.new]
    changed = [each for each in entities if each.changed and not each.new]
    await user.later_for_each(_UPDATE, map(fields_of, changed))
    await user.later_for_each(_INSERT, map(fields_of, new))


async def mention(
    user: UserRows, document_id: UUID, entities: Sequence[tuple[UUID, Sequence[str]]]
) -> None:
    """Record the entities that a document mentions, with their names."""
    await user.later_for_each(
        _MENTION,
        [
            {"entity_id": entity_id, "document_id": document_id, "names": list(names)}
            for entity_id, names in entities
        ],
    )
    await user.execute(_COUNT, entity_ids=[entity_id for entity_id, _ in entities])
