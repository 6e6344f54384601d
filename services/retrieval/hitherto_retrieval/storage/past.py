"""Reads memories as of another time, by id, by importance and in pages, and the profile."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from hitherto_retrieval.storage.filters import Filters
from hitherto_retrieval.storage.memories import MemoryPage, listed, whole_memories
from hitherto_retrieval.storage.moment import Moment
from hitherto_retrieval.storage.statement import Statement
from hitherto_shared.database.arrays import Uuids
from hitherto_shared.models import Memory, Profile, Scope

# Whole memories as they stood: those named, in the order of their ids, or the first of all. Later
# replacements are not named, neither those of a memory nor those by it, nor are sources that were
# stored later; a memory with such a source may have been confirmed by it.
_WHOLE = """
WITH wanted AS (
    SELECT m.memory_id, m.version, m.wording, m.importance, m.status, m.expiry, m.doubt,
           row_number() OVER (
               ORDER BY array_position(%(memory_ids)s::uuid[], m.memory_id),
                        CASE WHEN %(newest)s THEN 0 ELSE m.importance END DESC,
                        m.created_at DESC, m.memory_id DESC) AS place
    FROM @memories_at(%(memory_ids)s::uuid[]) AS m
    WHERE %(memory_ids)s::uuid[] IS NOT NULL
       OR (m.status IN ('active', 'achieved') AND m.expires_at IS NULL
           AND (%(doubtful)s OR m.memory_id NOT IN (
               SELECT d.memory_id
               FROM @in_doubt_at AS d)))
    ORDER BY place
    LIMIT %(limit)s::bigint
)
SELECT w.memory_id, %(user_id)s::text, t.type, s.content, w.importance, s.confidence, m.source,
       t.origin, w.status, t.valid_from, m.created_at, t.known_from, s.detail, s.tags, s.keywords,
       t.context, t.metadata, t.sensitive, m.conversation_id, t.valid_to, w.expiry,
       CASE WHEN w.status IN ('active', 'quarantined') THEN NULL ELSE t.superseded_by END,
       CASE WHEN %(known_at)s::timestamptz IS NULL THEN t.supersedes ELSE ARRAY(
           SELECT o.memory_id
           FROM unnest(t.supersedes) WITH ORDINALITY AS o (memory_id, place)
           WHERE EXISTS (
               SELECT FROM memories AS r
               WHERE r.tenant_id = %(tenant_id)s AND r.user_id = %(user_id)s
                 AND r.memory_id = o.memory_id AND r.superseded_by = w.memory_id
                 AND r.updated_at <= %(known_at)s)
              OR EXISTS (
               SELECT FROM memory_versions AS r
               WHERE r.tenant_id = %(tenant_id)s AND r.user_id = %(user_id)s
                 AND r.memory_id = o.memory_id AND r.superseded_by = w.memory_id
                 AND r.known_from <= %(known_at)s AND r.known_to > %(known_at)s)
           ORDER BY o.place)
       END,
       w.version, t.job_id, h.access_count, h.last_accessed_at,
       CASE WHEN s.sealed IS NOT NULL
            THEN @sealed_of_memory(m.memory_id, w.wording, s.text_version, s.sealed) END,
       coalesce(k.sources, '{}'),
       CASE WHEN %(known_at)s::timestamptz IS NULL OR w.wording >= m.text_version
            THEN h.entity_names ELSE '{}' END,
       CASE WHEN %(as_of)s::timestamptz < (w.doubt ->> 'since')::timestamptz THEN NULL
            ELSE w.doubt END,
       t.may_replace,
       CASE WHEN %(known_at)s::timestamptz IS NULL
              OR (k.all_of_them AND h.last_confirmed_at <= %(known_at)s)
            THEN h.last_confirmed_at END,
       coalesce(nullif(s.text_version, 0), w.wording), coalesce(k.evidence, '{}')
FROM wanted AS w
JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
     AND m.memory_id = w.memory_id
CROSS JOIN LATERAL (
    SELECT m.type, m.origin, m.context, m.metadata, m.sensitive, m.valid_from, m.valid_to,
           m.superseded_by, m.supersedes, m.job_id, m.updated_at AS known_from, m.may_replace
    WHERE m.version = w.version
    UNION ALL
    SELECT v.type, v.origin, v.context, v.metadata, v.sensitive, v.valid_from, v.valid_to,
           v.superseded_by, v.supersedes, v.job_id, v.known_from, v.may_replace
    FROM memory_versions AS v
    WHERE v.tenant_id = %(tenant_id)s AND v.user_id = %(user_id)s
      AND v.memory_id = m.memory_id AND v.version = w.version
) AS t
CROSS JOIN LATERAL (
    SELECT m.content, m.detail, m.confidence, m.tags, m.keywords, m.sealed, m.text_version
    WHERE m.version = w.wording
    UNION ALL
    SELECT v.content, v.detail, v.confidence, v.tags, v.keywords, v.sealed, 0
    FROM memory_versions AS v
    WHERE v.tenant_id = %(tenant_id)s AND v.user_id = %(user_id)s
      AND v.memory_id = m.memory_id AND v.version = w.wording
) AS s
CROSS JOIN LATERAL (
    SELECT array_agg(ARRAY[o.conversation_id, o.message_id]
                     ORDER BY o.conversation_id, o.message_id) FILTER (WHERE o.is_known) AS sources,
           array_agg(ARRAY[o.conversation_id, o.message_id, o.quote]
                     ORDER BY o.conversation_id, o.message_id)
               FILTER (WHERE o.is_known AND o.quote IS NOT NULL) AS evidence,
           bool_and(o.is_known) AS all_of_them
    FROM (SELECT ms.conversation_id, ms.message_id, ms.quote,
                 %(known_at)s::timestamptz IS NULL OR EXISTS (
                     SELECT FROM messages AS g
                     WHERE g.tenant_id = %(tenant_id)s AND g.user_id = %(user_id)s
                       AND g.conversation_id = ms.conversation_id
                       AND md5(g.message_id) = md5(ms.message_id)
                       AND g.message_id = ms.message_id
                       AND g.accepted_at <= %(known_at)s) AS is_known
          FROM memory_sources AS ms
          WHERE ms.tenant_id = %(tenant_id)s AND ms.user_id = %(user_id)s
            AND ms.memory_id = m.memory_id) AS o
) AS k
JOIN @whole_memories AS h ON h.memory_id = m.memory_id
ORDER BY w.place
"""

# The orders and their keys are those of present lists (`memories.page`); use is of the present.
_PAGE = """
WITH listed AS MATERIALIZED (
    SELECT m.memory_id,
           sort_key_of_memory(
               %(order_by)s, m.importance, m.created_at, a.last_accessed_at) AS sort_key,
           CASE WHEN %(order_by)s = 'last_accessed_at' AND a.last_accessed_at <= now()
                THEN a.last_accessed_at END AS changed_at
    FROM @filtered_memories_at AS m
    LEFT JOIN memory_access AS a ON a.tenant_id = %(tenant_id)s AND a.user_id = %(user_id)s
         AND a.memory_id = m.memory_id
    WHERE %(doubtful)s OR m.memory_id NOT IN (
        SELECT d.memory_id
        FROM @in_doubt_at AS d)
)
SELECT memory_id, sort_key, total, changed_at, read_at FROM @page_of_listed AS p ORDER BY place
"""

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
_CONTENT = (
    *("department", "summary", "current_projects", "preferences", "frequent_intents"),
    *("access_level", "facts", "metadata"),
)
"""The fields of a profile that its versions hold."""


def whole(scope: Scope, moment: Moment, memory_ids: Sequence[UUID]) -> Statement[list[Memory]]:
    """Whole memories as of `moment`, in the order of their ids.

    Left out are ids that do not belong to the user, that were not known or did not hold then, and
    that are forgotten now. `access_count` and `last_accessed_at` are the present ones. What other
    words mention is not known.
    """
    return _whole(
        scope, moment, memory_ids=Uuids(memory_ids), newest=False, limit=None, doubtful=True
    )


def top(
    scope: Scope, moment: Moment, *, limit: int, newest_first: bool, doubtful: bool = True
) -> Statement[list[Memory]]:
    """Whole memories current at `moment`: by importance, then the newest, or the newest alone.

    Without `doubtful`, of those that were not in doubt.
    """
    return _whole(
        scope, moment, memory_ids=None, newest=newest_first, limit=limit, doubtful=doubtful
    )


def page(
    scope: Scope,
    moment: Moment,
    filters: Filters,
    *,
    order_by: str,
    after: tuple[str, ...] | None,
    limit: int,
) -> Statement[MemoryPage]:
    """A page of the memories that passed `filters` at `moment`; `whole` reads them.

    `only_current` leaves out memories that had expired at the moment.
    """
    parameters = scope.bind(**filters.parameters(), **moment.parameters())
    return listed(_PAGE, parameters, order_by, after, limit)


def profile(scope: Scope, known_at: datetime) -> Statement[Profile | None]:
    """The version of the profile that was known then, or None if there was none yet.

    The time of the last look at a conversation is included only if it was earlier.
    """
    return Statement(
        _PROFILE,
        scope.bind(known_at=known_at),
        lambda rows: _profile(scope.user_id, rows[0]) if rows else None,
    )


def _whole(scope: Scope, moment: Moment, **values: Any) -> Statement[list[Memory]]:
    parameters = scope.bind(**moment.parameters(), **values)
    return Statement(_WHOLE, parameters, whole_memories, planned_anew=True)


def _profile(user_id: str, row: tuple[Any, ...]) -> Profile:
    content, version, recorded_at, last_extracted_at, sealed = row
    return Profile(
        user_id,
        **{name: content[name] for name in _CONTENT if name in content},
        version=version,
        updated_at=recorded_at,
        last_extracted_at=last_extracted_at,
        sealed=sealed,
    )
