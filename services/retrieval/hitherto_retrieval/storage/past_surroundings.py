"""Reads profile, summaries and entities as of another time.

Only profiles have versions. The others are returned in their present state, without those written
or said later, which would reveal the future.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from hitherto_retrieval.storage.moment import Moment
from hitherto_retrieval.storage.statement import Statement
from hitherto_shared.database.arrays import Texts
from hitherto_shared.models import Entity, Profile, Scope, Summary

_PROFILE = """
SELECT v.profile, v.version, v.recorded_at,
       CASE WHEN p.last_extracted_at <= %(known_at)s THEN p.last_extracted_at END,
       v.sealed
FROM profile_versions AS v
JOIN profiles AS p USING (tenant_id, user_id)
WHERE v.tenant_id = %(tenant_id)s AND v.user_id = %(user_id)s AND v.recorded_at <= %(known_at)s
ORDER BY v.version DESC
LIMIT 1
"""

_CONVERSATIONS = """
SELECT c.conversation_id, c.user_id, c.title, c.summary, c.outcome, c.message_count, c.created_at,
       c.updated_at, c.key_topics, c.technical_topics, c.followup_suggestions, c.last_said_at,
       c.sealed_words
FROM short_conversations AS c
WHERE c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s AND c.summarised_at IS NOT NULL
  AND (%(known_at)s::timestamptz IS NULL OR c.summarised_at <= %(known_at)s)
  AND (%(as_of)s::timestamptz IS NULL OR c.last_said_at <= %(as_of)s)
ORDER BY (c.conversation_id = %(first)s) DESC, c.last_said_at DESC NULLS LAST,
         c.conversation_id DESC
LIMIT %(limit)s
"""

_ENTITIES = """
SELECT entity_id, name, type, mention_count, aliases, metadata
FROM entities
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND mention_count > 0
  AND created_at <= %(known_at)s
ORDER BY (called && %(named)s::text[]) DESC, mention_count DESC, name, entity_id
LIMIT %(limit)s
"""


def profile(scope: Scope, known_at: datetime) -> Statement[Profile | None]:
    """The version of the profile that was known then, or None if there was none yet.

    The time of the last look at a conversation is included only if it was earlier.
    """
    return Statement(
        _PROFILE,
        {**scope.parameters, "known_at": known_at},
        lambda rows: _profile(scope.user_id, rows[0]) if rows else None,
    )


def conversations(
    scope: Scope, moment: Moment, *, first: str | None, limit: int
) -> Statement[list[Summary]]:
    """Summaries that existed in this form at `moment`, the last active first, after `first`.

    Summaries rewritten after `known_at`, or of conversations that continued after `as_of`, are left
    out.
    """
    return Statement(
        _CONVERSATIONS,
        {**scope.parameters, **moment.parameters(), "first": first, "limit": limit},
        lambda rows: [Summary(*row) for row in rows],
        planned_anew=True,
    )


def entities(
    scope: Scope, known_at: datetime, *, named: Sequence[str], limit: int
) -> Statement[list[Entity]]:
    """The entities known by then, the named ones first, with their present mentions."""
    return Statement(
        _ENTITIES,
        {**scope.parameters, "known_at": known_at, "named": Texts(named), "limit": limit},
        lambda rows: [Entity(*row) for row in rows],
        planned_anew=True,
    )


def _profile(user_id: str, row: tuple[Any, ...]) -> Profile:
    content: Mapping[str, Any] = row[0]
    return Profile(
        user_id,
        department=content.get("department", ""),
        summary=content.get("summary", ""),
        current_projects=content.get("current_projects", ()),
        preferences=content.get("preferences", {}),
        frequent_intents=content.get("frequent_intents", ()),
        access_level=content.get("access_level", "standard"),
        facts=content.get("facts", {}),
        metadata=content.get("metadata", {}),
        version=row[1],
        updated_at=row[2],
        last_extracted_at=row[3],
        sealed=row[4],
    )
