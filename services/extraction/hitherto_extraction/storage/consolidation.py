"""Memories that share a tag: crowded tags, the records of consolidation, and replacements.

A memory may be merged if it is active, has no end of validity, does not expire, is not sensitive,
and nothing about it is open: it is not in doubt, and neither may replace another nor be replaced.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from pgvector import HalfVector

from hitherto_shared.database.arrays import Texts, fields_of
from hitherto_shared.database.pool import Connection
from hitherto_shared.database.user_rows import UserRows

_CROWDED = """
SELECT c.tag, c.fingerprint, c.job_id, coalesce(c.answered, '{}')
FROM @crowded_tags AS c
ORDER BY c.members DESC, c.tag
"""

_MEMBERS = """
SELECT m.memory_id, m.version, m.type, m.content, m.origin, m.tags, m.valid_from, m.said_at,
       e.embedding AS vector
FROM memories AS m
LEFT JOIN memory_embeddings AS e ON e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
     AND e.memory_id = m.memory_id AND e.text_version = m.text_version AND e.model = %(model)s
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND @may_be_merged(m)
  AND m.tags && %(tags)s
ORDER BY m.said_at, m.memory_id
"""

# Tags among these that have just become crowded. A group that stayed crowded is processed again
# when it has grown by the size of a group.
_NEWLY_CROWDED = """
SELECT c.tag
FROM @crowded_tags AS c
WHERE c.processed IS NULL OR c.processed <= %(above)s OR c.members >= c.processed + %(above)s
ORDER BY c.members DESC, c.tag
"""

# Those among these tags that no waiting job is going to process; a job without a tag takes all. A
# statement of its own: the queue is a local table, which Citus does not join to distributed ones.
_NOT_WAITED_FOR = """
SELECT wanted.tag
FROM unnest(%(tags)s::text[]) WITH ORDINALITY AS wanted (tag, place)
WHERE NOT EXISTS (
    SELECT FROM jobs AS j
    WHERE j.tenant_id = %(tenant_id)s AND j.user_id = %(user_id)s
      AND j.kind = 'consolidation' AND j.state IN ('queued', 'failed')
      AND coalesce(j.params ->> 'tag', wanted.tag) = wanted.tag)
ORDER BY wanted.place
"""

# Across users: a page of a tenant's users, each with whether one of their tags is crowded.
_CROWDED_USERS = """
SELECT u.user_id, EXISTS (
    SELECT FROM memories AS m CROSS JOIN LATERAL unnest(m.tags) AS tag
    WHERE m.tenant_id = u.tenant_id AND m.user_id = u.user_id AND m.status = 'active'
      AND NOT m.sensitive AND m.expires_at IS NULL AND m.valid_to IS NULL
      AND m.doubt IS NULL AND m.may_replace = '{}' AND m.memory_id NOT IN (
          SELECT unnest(n.may_replace) FROM memories AS n
          WHERE n.tenant_id = u.tenant_id AND n.user_id = u.user_id AND n.status = 'active'
            AND n.may_replace <> '{}')
      AND (%(tag)s::text IS NULL OR tag = %(tag)s)
    GROUP BY tag
    HAVING count(DISTINCT m.memory_id) > %(above)s)
FROM users AS u
WHERE u.tenant_id = %(tenant_id)s AND u.user_id > %(after)s AND u.erased_at IS NULL
ORDER BY u.user_id
LIMIT %(limit)s
"""

# Those of these memories that another one may replace, or one that was joined to them.
_TO_BE_REPLACED = """
WITH RECURSIVE named (memory_id) AS (
    SELECT unnest(m.may_replace) FROM memories AS m
    WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.status = 'active'
      AND m.may_replace <> '{}'
    UNION
    SELECT o.superseded_by FROM named
    JOIN memories AS o ON o.tenant_id = %(tenant_id)s AND o.user_id = %(user_id)s
         AND o.memory_id = named.memory_id AND o.status = 'superseded'
)
SELECT memory_id FROM named WHERE memory_id = ANY(%(memory_ids)s)
"""

# The memories that a person took out of a merge.
_TAKEN_APART = """
SELECT DISTINCT memory_id, related_memory_id
FROM history
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = ANY(%(memory_ids)s)
  AND action = 'restored' AND related_memory_id IS NOT NULL
"""

_MARK = """
INSERT INTO consolidation_groups (
    tenant_id, user_id, tag, fingerprint, members, job_id, answered, examined_at)
VALUES (%(tenant_id)s, %(user_id)s, %(tag)s, %(fingerprint)s, %(members)s, %(job_id)s,
        %(answered)s, clock_timestamp())
ON CONFLICT (tenant_id, user_id, tag) DO UPDATE
SET fingerprint = EXCLUDED.fingerprint, members = EXCLUDED.members, job_id = EXCLUDED.job_id,
    answered = EXCLUDED.answered, examined_at = EXCLUDED.examined_at
"""

_COPY_SOURCES = """
INSERT INTO memory_sources (tenant_id, user_id, memory_id, conversation_id, message_id)
SELECT DISTINCT tenant_id, user_id, %(into)s::uuid, conversation_id, message_id
FROM memory_sources
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = ANY(%(memory_ids)s)
ON CONFLICT DO NOTHING
"""

_COPY_MENTIONS = """
WITH mention AS (
    INSERT INTO entity_mentions (tenant_id, user_id, entity_id, memory_id)
    SELECT DISTINCT tenant_id, user_id, entity_id, %(into)s::uuid
    FROM entity_mentions
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = ANY(%(memory_ids)s)
    ON CONFLICT DO NOTHING
    RETURNING entity_id
)
UPDATE entities AS e SET mention_count = e.mention_count + 1
FROM mention
WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s AND e.entity_id = mention.entity_id
"""

# What a merged memory has of its originals: the sources in whose conversations nothing states it
# itself, and the entities that they mention.
_DROP_SOURCES = """
DELETE FROM memory_sources AS s
WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s AND s.memory_id = %(memory_id)s
  AND NOT EXISTS (
      SELECT FROM statements AS t
      WHERE t.tenant_id = %(tenant_id)s AND t.user_id = %(user_id)s
        AND t.memory_id = s.memory_id AND t.conversation_id = s.conversation_id
        AND t.taken_back_at IS NULL)
"""

_DROP_MENTIONS = """
DELETE FROM entity_mentions AS em
WHERE em.tenant_id = %(tenant_id)s AND em.user_id = %(user_id)s AND em.memory_id = %(memory_id)s
  AND em.entity_id IN (
      SELECT o.entity_id FROM entity_mentions AS o
      WHERE o.tenant_id = %(tenant_id)s AND o.user_id = %(user_id)s
        AND o.memory_id = ANY(%(memory_ids)s))
RETURNING em.entity_id
"""


@dataclass(frozen=True, slots=True)
class CrowdedTag:
    """A tag that many memories share, with the result and job of its last consolidation.

    `answered` are the fingerprints of groups that a model has looked at.
    """

    tag: str
    fingerprint: bytes | None
    job_id: UUID | None
    answered: Sequence[bytes] = ()


@dataclass(frozen=True, slots=True)
class Member:
    """A memory that may be merged, with the fields that the rules of consolidation use.

    `vector` is that of its words, if there is one by the active model.
    """

    memory_id: UUID
    version: int
    type: str
    content: str
    origin: str
    tags: Sequence[str]
    valid_from: datetime
    said_at: datetime
    vector: HalfVector | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ConsolidationMark:
    """The record that the consolidation of a tag leaves."""

    tag: str
    fingerprint: bytes
    members: int
    answered: Sequence[bytes] = ()


async def read_crowded(user: UserRows, *, tag: str | None, above: int) -> list[CrowdedTag]:
    """The tags that more than `above` memories share, the largest first; only `tag` if given."""
    return await user.fetch(CrowdedTag, _CROWDED, tags=None if tag is None else [tag], above=above)


async def read_members(user: UserRows, tags: Sequence[str], *, model: str) -> list[Member]:
    """Every memory with one of these tags that may be merged, the oldest first."""
    return await user.fetch(Member, _MEMBERS, tags=list(tags), model=model)


async def newly_crowded(user: UserRows, tags: Sequence[str], *, above: int) -> list[str]:
    """The tags that a job should process now."""
    if not (crowded := await user.fetch_values(_NEWLY_CROWDED, tags=Texts(tags), above=above)):
        return []
    return await user.fetch_values(_NOT_WAITED_FOR, tags=crowded)


async def find_crowded_users(
    connection: Connection, tenant_id: str, *, tag: str | None, above: int, after: str, limit: int
) -> tuple[list[str], str | None]:
    """The users with a crowded tag among the next `limit`, and the start of the next page."""
    rows = await connection.fetch_rows(
        _CROWDED_USERS,
        {"tenant_id": tenant_id, "tag": tag, "above": above, "after": after, "limit": limit},
    )
    return [row[0] for row in rows if row[1]], rows[-1][0] if len(rows) == limit else None


async def may_be_replaced(user: UserRows, memory_ids: Sequence[UUID]) -> set[UUID]:
    """Those of these memories that another one may replace."""
    return set(await user.fetch_values(_TO_BE_REPLACED, memory_ids=list(memory_ids)))


async def taken_apart(user: UserRows, memory_ids: Sequence[UUID]) -> dict[UUID, set[UUID]]:
    """For each memory, the merges that a person has taken it out of."""
    found: defaultdict[UUID, set[UUID]] = defaultdict(set)
    for memory_id, merged in await user.fetch_rows(_TAKEN_APART, memory_ids=list(memory_ids)):
        found[memory_id].add(merged)
    return dict(found)


async def mark(user: UserRows, marks: Sequence[ConsolidationMark], *, job_id: UUID | None) -> None:
    """Store records of consolidation."""
    await user.later_for_each(_MARK, [fields_of(each) | {"job_id": job_id} for each in marks])


async def inherit(user: UserRows, memory_ids: Sequence[UUID], *, into: UUID) -> None:
    """Give a merged memory the sources and mentions of its originals."""
    values = {"memory_ids": list(memory_ids), "into": into}
    await user.execute(_COPY_SOURCES, **values)
    await user.execute(_COPY_MENTIONS, **values)


async def disinherit(user: UserRows, memory_ids: Sequence[UUID], *, of: UUID) -> list[UUID]:
    """Take from a merged memory what it has of these; returns the entities it mentions no more.

    The role is hitherto_removal.
    """
    await user.execute(_DROP_SOURCES, memory_id=of)
    return await user.fetch_values(_DROP_MENTIONS, memory_id=of, memory_ids=list(memory_ids))
