"""Reading what is known around memories: profile, conversations, entities, the keyword index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from recollect_shared.database.pool import Connection
from recollect_shared.models import Entity, Preference, Profile, Scope, Summary
from recollect_shared.text.bm25 import Statistics, TermPostings

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

# Conversations in short, those active last first, after one's own if it is named.
_RECENT = """
SELECT s.conversation_id, s.user_id, s.title, s.summary, s.outcome,
       (SELECT count(*) FROM messages AS m
        WHERE m.tenant_id = s.tenant_id AND m.user_id = s.user_id
          AND m.conversation_id = s.conversation_id),
       s.created_at, s.updated_at, s.key_topics, s.technical_topics, s.followup_suggestions,
       c.last_said_at
FROM conversation_summaries AS s
JOIN conversations AS c ON c.tenant_id = s.tenant_id AND c.user_id = s.user_id
     AND c.conversation_id = s.conversation_id
WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
ORDER BY (s.conversation_id = %(first)s) DESC, c.last_said_at DESC NULLS LAST,
         s.conversation_id DESC
LIMIT %(limit)s
"""

_CONVERSATION_PAGE = """
SELECT s.conversation_id, s.user_id, s.title, s.summary, s.outcome,
       (SELECT count(*) FROM messages AS m
        WHERE m.tenant_id = s.tenant_id AND m.user_id = s.user_id
          AND m.conversation_id = s.conversation_id),
       s.created_at, s.updated_at, s.key_topics, s.technical_topics, s.followup_suggestions,
       c.last_said_at
FROM conversation_summaries AS s
JOIN conversations AS c ON c.tenant_id = s.tenant_id AND c.user_id = s.user_id
     AND c.conversation_id = s.conversation_id
WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
  AND (%(outcomes)s::text[] IS NULL OR s.outcome = ANY(%(outcomes)s))
  AND (%(created_after)s::timestamptz IS NULL OR s.created_at >= %(created_after)s)
  AND (%(created_before)s::timestamptz IS NULL OR s.created_at < %(created_before)s)
  AND (%(after_said)s::timestamptz IS NULL
       OR (c.last_said_at, s.conversation_id) < (%(after_said)s, %(after_id)s::text))
ORDER BY c.last_said_at DESC, s.conversation_id DESC
LIMIT %(limit)s
"""

_CONVERSATION_COUNT = """
SELECT count(*)
FROM conversation_summaries AS s
WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
  AND (%(outcomes)s::text[] IS NULL OR s.outcome = ANY(%(outcomes)s))
  AND (%(created_after)s::timestamptz IS NULL OR s.created_at >= %(created_after)s)
  AND (%(created_before)s::timestamptz IS NULL OR s.created_at < %(created_before)s)
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


async def recent_summaries(
    connection: Connection, scope: Scope, *, first: str | None, limit: int
) -> list[Summary]:
    """The latest conversations in short; `first` names one that leads the list."""
    cursor = await connection.execute(_RECENT, {**_of(scope), "first": first, "limit": limit})
    return [Summary(*row) for row in await cursor.fetchall()]


async def conversation_page(
    connection: Connection,
    scope: Scope,
    *,
    outcomes: Sequence[str] | None,
    created_after: datetime | None,
    created_before: datetime | None,
    after: tuple[str, str] | None,
    limit: int,
) -> tuple[list[Summary], tuple[str, str] | None, int]:
    """A page of conversations, where the next starts, and how many there are in all."""
    values = {
        **_of(scope),
        "outcomes": list(outcomes) if outcomes else None,
        "created_after": created_after,
        "created_before": created_before,
        "after_said": after[0] if after else None,
        "after_id": after[1] if after else None,
        "limit": limit + 1,
    }
    cursor = await connection.execute(_CONVERSATION_PAGE, values)
    found = [Summary(*row) for row in await cursor.fetchall()]
    cursor = await connection.execute(_CONVERSATION_COUNT, values)
    row = await cursor.fetchone()
    last = found[limit - 1] if len(found) > limit else None
    following = (
        (last.last_said_at.isoformat(), last.conversation_id)
        if last is not None and last.last_said_at is not None
        else None
    )
    return found[:limit], following, int(row[0]) if row else 0


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
