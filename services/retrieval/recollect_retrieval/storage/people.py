"""Reading what is known around memories: profiles, entities, the keyword index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from recollect_shared.database.pool import Connection
from recollect_shared.models import Entity, Preference, Profile, Scope
from recollect_shared.text.bm25 import Statistics, TermPostings
from recollect_shared.text.normalise import fold

# One row always: the model in force counts for people nobody has heard of as well.
_USER = """
SELECT u.user_id IS NOT NULL, u.memory_enabled, u.time_zone, u.erased_at IS NOT NULL,
       coalesce(u.lexical_documents, 0), coalesce(u.lexical_terms, 0), e.model, e.dimensions
FROM (SELECT %(tenant_id)s::text AS tenant_id, %(user_id)s::text AS user_id) AS asked
LEFT JOIN users AS u ON u.tenant_id = asked.tenant_id AND u.user_id = asked.user_id
LEFT JOIN embedding_models AS e ON e.active
"""

_POSTINGS = """
SELECT term, lexical_nos, frequencies, lengths
FROM postings
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND term = ANY(%(terms)s)
"""

_PROFILE = """
SELECT department, summary, current_projects, preferences, frequent_intents, access_level, facts,
       metadata, version, last_extracted_at, updated_at
FROM profiles
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""

_PREFERENCES = """
SELECT type, key, value, confidence, observations, updated_at
FROM preferences
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
ORDER BY confidence DESC, type, key
"""

_ENTITIES = """
SELECT entity_id, name, type, mention_count, aliases, metadata
FROM entities
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND mention_count > 0
ORDER BY (name_key = ANY(%(named)s)) DESC, mention_count DESC, name
LIMIT %(limit)s
"""

_NAMED = """
SELECT entity_id, name, type, mention_count, aliases, metadata
FROM entities
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND name_key = ANY(%(named)s)
ORDER BY mention_count DESC, name
LIMIT 20
"""


# By a part of the name or of an alias, both compared without case and diacritics.
_FIND = """
SELECT entity_id, name, type, mention_count, aliases, metadata
FROM entities
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND mention_count > 0
  AND (%(type)s::text IS NULL OR type = %(type)s)
  AND (%(key)s = '' OR strpos(name_key, %(key)s) > 0
       OR EXISTS (SELECT FROM unnest(aliases) AS alias WHERE strpos(lower(alias), %(lower)s) > 0))
ORDER BY mention_count DESC, name, entity_id
LIMIT %(limit)s
"""

# Across users of one tenant: those whose memory is not switched off.
_PROFILE_PAGE = """
SELECT p.user_id, p.department, p.summary, p.current_projects, p.preferences, p.frequent_intents,
       p.access_level, p.facts, p.metadata, p.version, p.last_extracted_at, p.updated_at
FROM profiles AS p
JOIN users AS u ON u.tenant_id = p.tenant_id AND u.user_id = p.user_id
WHERE p.tenant_id = %(tenant_id)s AND u.erased_at IS NULL
  AND coalesce(u.memory_enabled, %(memory_enabled)s)
  AND (%(only_user)s::text IS NULL OR p.user_id = %(only_user)s)
  AND (%(department)s::text IS NULL OR p.department = %(department)s)
  AND (%(after)s::text IS NULL OR p.user_id > %(after)s)
ORDER BY p.user_id
LIMIT %(limit)s
"""

_PROFILE_COUNT = """
SELECT count(*)
FROM profiles AS p
JOIN users AS u ON u.tenant_id = p.tenant_id AND u.user_id = p.user_id
WHERE p.tenant_id = %(tenant_id)s AND u.erased_at IS NULL
  AND coalesce(u.memory_enabled, %(memory_enabled)s)
  AND (%(only_user)s::text IS NULL OR p.user_id = %(only_user)s)
  AND (%(department)s::text IS NULL OR p.department = %(department)s)
"""


@dataclass(frozen=True, slots=True)
class UserState:
    """What a read needs to know before it starts: of the user, and which model's vectors count.

    `known` is False for somebody never heard of; `active_model` is its name and dimensions, None
    before the first memory of the deployment.
    """

    known: bool
    memory_enabled: bool | None
    time_zone: str | None
    erased: bool
    statistics: Statistics
    active_model: tuple[str, int] | None


async def read_user(connection: Connection, scope: Scope) -> UserState:
    """The user's switches and index statistics, and the model in force."""
    cursor = await connection.execute(_USER, _of(scope))
    row = await cursor.fetchone()
    assert row is not None
    return UserState(
        known=row[0],
        memory_enabled=row[1],
        time_zone=row[2],
        erased=row[3],
        statistics=Statistics(row[4], row[5]),
        active_model=None if row[6] is None else (row[6], row[7]),
    )


async def read_postings(
    connection: Connection, scope: Scope, terms: Sequence[str]
) -> list[TermPostings]:
    """What the keyword index holds of these terms."""
    cursor = await connection.execute(_POSTINGS, {**_of(scope), "terms": list(terms)})
    return [TermPostings(*row) for row in await cursor.fetchall()]


async def read_preferences(connection: Connection, scope: Scope) -> list[Preference]:
    """What was learnt from the user's behaviour, the surest first."""
    cursor = await connection.execute(
        _PREFERENCES, {"tenant_id": scope.tenant_id, "user_id": scope.user_id}
    )
    return [Preference(*row) for row in await cursor.fetchall()]


async def read_profile(connection: Connection, scope: Scope) -> Profile | None:
    """The user's profile, or None."""
    cursor = await connection.execute(_PROFILE, _of(scope))
    row = await cursor.fetchone()
    return Profile(scope.user_id, *row) if row else None


async def profile_page(
    connection: Connection,
    tenant_id: str,
    *,
    only_user: str | None,
    department: str | None,
    memory_enabled: bool,
    after: str | None,
    limit: int,
) -> tuple[list[Profile], str | None, int]:
    """A page of a tenant's profiles by user, where the next starts, and how many there are."""
    values = {
        "tenant_id": tenant_id,
        "only_user": only_user,
        "department": department,
        "memory_enabled": memory_enabled,
        "after": after,
        "limit": limit + 1,
    }
    cursor = await connection.execute(_PROFILE_PAGE, values)
    found = [Profile(*row) for row in await cursor.fetchall()]
    cursor = await connection.execute(_PROFILE_COUNT, values)
    row = await cursor.fetchone()
    following = found[limit - 1].user_id if len(found) > limit else None
    return found[:limit], following, int(row[0]) if row else 0


async def find_entities(
    connection: Connection, scope: Scope, *, name: str, type: str | None, limit: int
) -> list[Entity]:
    """Entities by a part of a name or alias, those mentioned most first; all without a name."""
    cursor = await connection.execute(
        _FIND,
        {**_of(scope), "key": fold(name), "lower": name.lower(), "type": type, "limit": limit},
    )
    return [Entity(*row) for row in await cursor.fetchall()]


async def known_entities(
    connection: Connection, scope: Scope, *, named: Sequence[str], limit: int
) -> list[Entity]:
    """The entities mentioned most, those whose folded names are in `named` first."""
    cursor = await connection.execute(
        _ENTITIES, {**_of(scope), "named": list(named), "limit": limit}
    )
    return [Entity(*row) for row in await cursor.fetchall()]


async def entities_named(
    connection: Connection, scope: Scope, named: Sequence[str]
) -> list[Entity]:
    """The entities whose folded names are in `named`, most mentioned first."""
    cursor = await connection.execute(_NAMED, {**_of(scope), "named": list(named)})
    return [Entity(*row) for row in await cursor.fetchall()]


def _of(scope: Scope) -> dict[str, Any]:
    return {"tenant_id": scope.tenant_id, "user_id": scope.user_id}
