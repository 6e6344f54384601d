"""Reads what surrounds memories: the user's state, profiles, preferences, entities."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from hitherto_retrieval.storage.statement import Rows, Statement
from hitherto_shared.database.arrays import Texts, Uuids
from hitherto_shared.models import Entity, Preference, Profile, Scope
from hitherto_shared.text.bm25 import Statistics
from hitherto_shared.text.normalise import fold

# Always one row: unknown users need the active model as well. A search also asks whom its question
# names, and a read with a snapshot for the usage of memories, of all or of those that its list may
# hold: one packed value, because hundreds of rows would cost more than the rest of the read.
_USER = """
SELECT u.user_id IS NOT NULL, u.memory_enabled, u.time_zone, u.erased_at IS NOT NULL,
       coalesce(u.lexical_documents, 0), coalesce(u.lexical_terms, 0), e.model, e.dimensions,
       u.encrypt_sensitive IS NOT NULL, coalesce(u.revision, 0), now(),
       CASE WHEN %(with_usage)s THEN
       (SELECT string_agg(uuid_send(a.memory_id) || int8send(a.access_count)
                          || timestamptz_send(a.last_accessed_at), ''::bytea)
        FROM (SELECT memory_id, access_count, last_accessed_at
              FROM memory_access
              WHERE %(used)s::uuid[] IS NULL
                AND tenant_id = %(tenant_id)s AND user_id = %(user_id)s
              UNION ALL
              SELECT memory_id, access_count, last_accessed_at
              FROM memory_access
              WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
                AND memory_id = ANY(%(used)s)) AS a) END,
       CASE WHEN %(named)s::text[] IS NOT NULL THEN
       (SELECT jsonb_agg(jsonb_build_array(
                   named.entity_id, named.name, named.type, named.mention_count, named.aliases,
                   named.metadata))
        FROM (SELECT entity_id, name, type, mention_count, aliases, metadata
              FROM entities
              WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND mention_count > 0
                AND called && %(named)s::text[]
                AND (%(known_at)s::timestamptz IS NULL OR created_at <= %(known_at)s)
              ORDER BY mention_count DESC, name, entity_id
              LIMIT 20) AS named) END,
       CASE WHEN %(named)s::text[] IS NOT NULL THEN
       (SELECT pr.facts #>> '{personal,name}' FROM profiles AS pr
        WHERE pr.tenant_id = %(tenant_id)s AND pr.user_id = %(user_id)s) END
FROM (SELECT %(tenant_id)s::text AS tenant_id, %(user_id)s::text AS user_id) AS asked
LEFT JOIN users AS u ON u.tenant_id = %(tenant_id)s AND u.user_id = %(user_id)s
LEFT JOIN embedding_models AS e ON e.active
"""

# Users who may have a snapshot.
_REVISIONS = """
SELECT user_id, revision
FROM users
WHERE tenant_id = %(tenant_id)s AND user_id = ANY(%(user_ids)s) AND erased_at IS NULL
  AND encrypt_sensitive IS NULL
"""

_PROFILE = """
SELECT department, summary, current_projects, preferences, frequent_intents, access_level, facts,
       metadata, version, last_extracted_at, updated_at, sealed, sources
FROM profiles
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""

_PREFERENCES = """
SELECT type, key, value, confidence, observations, updated_at
FROM preferences
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
ORDER BY confidence DESC, type, key
"""

# Entities that a question names, by name or alias, come first. At another time, those met by then.
# What only memories mention that hold no longer is not named.
_KNOWN = """
SELECT entity_id, name, type, mention_count, aliases, metadata
FROM entities AS e
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND mention_count > 0
  AND (%(known_at)s::timestamptz IS NULL OR created_at <= %(known_at)s)
  AND (%(known_at)s::timestamptz IS NOT NULL
       OR EXISTS (SELECT FROM entity_mentions AS em
        JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
             AND m.memory_id = em.memory_id
        WHERE em.tenant_id = %(tenant_id)s AND em.user_id = %(user_id)s
          AND em.entity_id = e.entity_id AND m.status IN ('active', 'achieved')
          AND (m.expires_at IS NULL OR m.expires_at > now()))
       OR EXISTS (SELECT FROM document_mentions AS dm
        JOIN documents AS d ON d.tenant_id = %(tenant_id)s AND d.user_id = %(user_id)s
             AND d.document_id = dm.document_id
        WHERE dm.tenant_id = %(tenant_id)s AND dm.user_id = %(user_id)s
          AND dm.entity_id = e.entity_id
          AND (d.expires_at IS NULL OR d.expires_at > now())))
ORDER BY (called && %(named)s::text[]) DESC, mention_count DESC, name, entity_id
LIMIT %(limit)s
"""

# By part of a name, alias or address, without case and diacritics. Of a name of marks alone nothing
# is left to compare: only the marks as they were written can be found.
_FIND = """
SELECT entity_id, name, type, mention_count, aliases, metadata
FROM entities
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND mention_count > 0
  AND (%(type)s::text IS NULL OR type = %(type)s)
  AND EXISTS (SELECT FROM unnest(called) AS name
              WHERE (%(key)s <> '' AND strpos(name, %(key)s) > 0) OR strpos(name, %(lower)s) > 0)
ORDER BY mention_count DESC, name, entity_id
LIMIT %(limit)s
"""

# Across users of one tenant, without those whose memory is switched off. With others, also users
# without a profile, who belong to no department. The total comes with an empty page, too.
_PROFILE_PAGE = """
WITH listed AS MATERIALIZED (
    SELECT u.user_id
    FROM users AS u
    LEFT JOIN profiles AS p ON p.tenant_id = u.tenant_id AND p.user_id = u.user_id
    WHERE u.tenant_id = %(tenant_id)s AND u.erased_at IS NULL
      AND (%(with_others)s OR p.user_id IS NOT NULL)
      AND coalesce(u.memory_enabled, %(memory_enabled)s) AND (%(with_sealed)s OR p.sealed IS NULL)
      AND (%(departments)s::text[] IS NULL OR u.user_id = ANY(%(listed)s::text[])
           OR (p.department <> '' AND p.department = ANY(%(departments)s)))
      AND (%(department)s::text IS NULL OR p.department = %(department)s)
), placed AS (
    SELECT user_id FROM listed
    WHERE %(after)s::text IS NULL OR user_id > %(after)s
    ORDER BY user_id
    LIMIT %(limit)s
), profiled AS MATERIALIZED (
    SELECT p.*
    FROM placed
    JOIN profiles AS p ON p.tenant_id = %(tenant_id)s AND p.user_id = placed.user_id
)
SELECT (SELECT count(*) FROM listed), placed.user_id, p.user_id IS NOT NULL,
       p.department, p.summary, p.current_projects, p.preferences, p.frequent_intents,
       p.access_level, p.facts, p.metadata, p.version, p.last_extracted_at, p.updated_at,
       p.sealed, p.sources
FROM (SELECT) AS always
LEFT JOIN placed ON true
LEFT JOIN profiled AS p ON p.user_id = placed.user_id
ORDER BY placed.user_id
"""


@dataclass(frozen=True, slots=True)
class UserReadState:
    """What a read must know first: the user's state, and the model whose vectors count.

    `known` is False for an unknown user; `active_model` is the model's name and dimensions, None
    before the first memory of the deployment. `may_be_sealed` is False if nothing of the user can
    be sealed, because encryption was never decided on. `revision` changes whenever something
    changes that a snapshot may hold; `at` is the database's clock.

    `usage` is how often memories were returned, and when last, as `cached_memories` reads it, in no
    order. `entities` are those that a question names, the most mentioned first, and `own_name` is
    the user's name, if an unsealed profile has it. All three are empty unless they were asked for.
    """

    known: bool
    memory_enabled: bool | None
    time_zone: str | None
    erased: bool
    statistics: Statistics
    active_model: tuple[str, int] | None
    may_be_sealed: bool
    revision: int
    at: datetime
    usage: bytes = b""
    entities: Sequence[Entity] = ()
    own_name: str = ""


def user(
    scope: Scope,
    *,
    with_usage: bool = False,
    used: Uuids | None = None,
    named: Sequence[str] | None = None,
    known_at: datetime | None = None,
) -> Statement[UserReadState]:
    """The user's switches and index statistics, and the active model.

    Args:
        scope: The user.
        with_usage: Whether to read how memories were used.
        used: Which memories; None: all.
        named: Names of entities in a question; None if there is none.
        known_at: When these entities must have been known; None: now.
    """

    def read(rows: Rows) -> UserReadState:
        row = rows[0]
        return UserReadState(
            known=row[0],
            memory_enabled=row[1],
            time_zone=row[2],
            erased=row[3],
            statistics=Statistics(row[4], row[5]),
            active_model=None if row[6] is None else (row[6], row[7]),
            may_be_sealed=row[8],
            revision=row[9],
            at=row[10],
            usage=row[11] or b"",
            entities=[Entity(UUID(found[0]), *found[1:]) for found in row[12] or ()],
            own_name=row[13] or "",
        )

    names = None if named is None else Texts(named)
    values = scope.bind(with_usage=with_usage, used=used, named=names, known_at=known_at)
    return Statement(_USER, values, read)


def revisions(tenant_id: str, user_ids: Sequence[str]) -> Statement[dict[str, int]]:
    """The revisions of a tenant's users for whom a snapshot may exist."""
    return Statement(_REVISIONS, {"tenant_id": tenant_id, "user_ids": Texts(user_ids)}, dict)


def preferences(scope: Scope) -> Statement[list[Preference]]:
    """The preferences inferred from the user's behaviour, the most certain first."""
    return Statement(
        _PREFERENCES, scope.parameters, lambda rows: [Preference(*row) for row in rows]
    )


def profile(scope: Scope) -> Statement[Profile | None]:
    """The user's profile, or None."""
    return Statement(
        _PROFILE, scope.parameters, lambda rows: _profile(scope.user_id, *rows[0]) if rows else None
    )


def profile_page(
    tenant_id: str,
    *,
    listed: Collection[str],
    departments: Collection[str] | None,
    department: str | None,
    memory_enabled: bool,
    with_others: bool,
    after: str | None,
    limit: int,
    with_sealed: bool,
) -> Statement[tuple[list[Profile], str | None, int]]:
    """A page of a tenant's profiles by user, the start of the next one, and the total number.

    Profiles of `departments` (None: of all) and of the users `listed`, restricted to `department`;
    without `with_sealed`, no sealed profiles. `with_others` adds the users without a profile, as
    empty ones.
    """

    def read(rows: Rows) -> tuple[list[Profile], str | None, int]:
        found = [
            _profile(row[1], *row[3:]) if row[2] else Profile(row[1])
            for row in rows
            if row[1] is not None
        ]
        following = found[limit - 1].user_id if len(found) > limit else None
        return found[:limit], following, rows[0][0]

    values = {
        "tenant_id": tenant_id,
        "listed": list(listed),
        "departments": None if departments is None else list(departments),
        "department": department,
        "memory_enabled": memory_enabled,
        "with_others": with_others,
        "after": after,
        "limit": limit + 1,
        "with_sealed": with_sealed,
    }
    return Statement(_PROFILE_PAGE, values, read, planned_anew=True)


def find_entities(
    scope: Scope, *, name: str, type: str | None, limit: int
) -> Statement[list[Entity]]:
    """Entities by part of a name, alias or address, the most mentioned first; all without one."""
    return Statement(
        _FIND,
        scope.bind(key=fold(name), lower=name.lower(), type=type, limit=limit),
        _entities,
        planned_anew=True,
    )


def known_entities(
    scope: Scope, *, named: Sequence[str], limit: int, known_at: datetime | None = None
) -> Statement[list[Entity]]:
    """The most mentioned entities, after those with one of the names.

    With `known_at`, only those known by then, with their present mentions.
    """
    return Statement(
        _KNOWN,
        scope.bind(named=Texts(named), limit=limit, known_at=known_at),
        _entities,
        planned_anew=known_at is not None,
    )


def _profile(*row: Any) -> Profile:
    return replace(Profile(*row[:-1]), sources=row[-1])


def _entities(rows: Rows) -> list[Entity]:
    return [Entity(*row) for row in rows]
