"""The state of a user's memories at another time, as part of statements.

There are two times. `known_at` selects for each memory the version that was current then. `as_of`
selects, among what is known, what was true then: validity and its end are evaluated at that time.
Either may be given alone.

Memories that are forgotten now are left out at every time, with the parts from which a forgotten
memory was merged: a user who takes something back means all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Moment:
    """The point in time that a read refers to.

    Attributes:
        as_of: Selects what was true then; None selects everything known, whenever it held.
        known_at: Selects what was known then; None selects everything known by now.
    """

    as_of: datetime | None = None
    known_at: datetime | None = None

    @property
    def present(self) -> bool:
        """Whether it is the present, for which there are faster statements."""
        return self.as_of is None and self.known_at is None

    def parameters(self) -> dict[str, Any]:
        """The moment as statement parameters."""
        return {"as_of": self.as_of, "known_at": self.known_at}


# The version of each memory that was known then, with few columns, without memories forgotten now.
_KNOWN = """
WITH RECURSIVE unsaid AS (
    SELECT memory_id FROM memories
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
      AND status = 'forgotten' AND source = 'consolidation'
    UNION
    SELECT m.memory_id
    FROM unsaid AS u
    JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
         AND m.superseded_by = u.memory_id AND m.status = 'superseded'
), known AS MATERIALIZED (
    SELECT m.memory_id, m.version, m.text_version, m.lexical_no, m.type, m.importance, m.confidence,
           m.source, m.status, m.tags, m.metadata, m.conversation_id, m.valid_from, m.valid_to,
           m.expires_at, m.superseded_by, m.supersedes, m.created_at, m.sealed
    FROM memories AS m
    WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s /* among */
      AND m.status <> 'forgotten' AND m.memory_id NOT IN (SELECT memory_id FROM unsaid)
      AND (%(known_at)s::timestamptz IS NULL OR m.updated_at <= %(known_at)s)
    UNION ALL
    SELECT v.memory_id, v.version, m.text_version, m.lexical_no, v.type, v.importance, v.confidence,
           m.source, v.status, v.tags, v.metadata, m.conversation_id, v.valid_from, v.valid_to,
           v.expires_at, v.superseded_by, v.supersedes, m.created_at, v.sealed
    FROM memories AS m
    JOIN memory_versions AS v ON v.tenant_id = m.tenant_id AND v.user_id = m.user_id
         AND v.memory_id = m.memory_id
    WHERE %(known_at)s::timestamptz IS NOT NULL
      AND m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s /* among */
      AND m.status <> 'forgotten' AND m.memory_id NOT IN (SELECT memory_id FROM unsaid)
      AND m.updated_at > %(known_at)s AND m.created_at <= %(known_at)s
      AND v.tenant_id = %(tenant_id)s AND v.user_id = %(user_id)s
      AND v.known_from <= %(known_at)s AND v.known_to > %(known_at)s
),
"""

# What earlier versions and successors say about the state as of a time. A reverted merge counts for
# no time: the memory no longer names its parts, which count themselves.
_JUDGED = """
judged AS MATERIALIZED (
    SELECT n.*, lapsed.archived_at, lapsed.status AS status_before,
           lapsed.expires_at AS expires_before,
           CASE WHEN n.status = 'superseded' THEN coalesce(
               (SELECT s.valid_from FROM memories AS s
                WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
                  AND s.memory_id = n.superseded_by
                  AND (%(known_at)s::timestamptz IS NULL OR s.updated_at <= %(known_at)s)),
               (SELECT s.valid_from FROM memory_versions AS s
                WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
                  AND s.memory_id = n.superseded_by
                  AND s.known_from <= %(known_at)s AND s.known_to > %(known_at)s))
           END AS merged_from,
           CASE WHEN n.type = 'goal' AND n.status IN ('achieved', 'archived')
                     AND n.valid_to > %(as_of)s
                THEN (SELECT v.importance FROM memory_versions AS v
                      WHERE v.tenant_id = %(tenant_id)s AND v.user_id = %(user_id)s
                        AND v.memory_id = n.memory_id AND v.version < n.version
                        AND v.status = 'active'
                      ORDER BY v.version DESC LIMIT 1)
           END AS importance_before
    FROM known AS n
    LEFT JOIN LATERAL (
        SELECT v.status, v.expires_at, v.known_to AS archived_at
        FROM memory_versions AS v
        WHERE n.status = 'archived' AND (n.source <> 'consolidation' OR n.supersedes <> '{}')
          AND v.tenant_id = %(tenant_id)s AND v.user_id = %(user_id)s
          AND v.memory_id = n.memory_id AND v.version < n.version AND v.status <> 'archived'
        ORDER BY v.version DESC
        LIMIT 1
    ) AS lapsed ON true
    WHERE %(as_of)s::timestamptz IS NOT NULL AND n.valid_from <= %(as_of)s
    UNION ALL
    SELECT n.*, NULL, NULL, NULL, NULL, NULL
    FROM known AS n
    WHERE %(as_of)s::timestamptz IS NULL
),
"""

# The state at the moment. Readers may use it like `memories`, except that `expires_at` only says
# whether the memory had expired: the filters compare it with the present.
_SEEN = """
stood AS (
    SELECT j.*, CASE WHEN archived_at > %(as_of)s THEN status_before ELSE status END AS stated,
           CASE WHEN archived_at > %(as_of)s THEN expires_before ELSE expires_at END AS expiry
    FROM judged AS j
), seen AS (
    SELECT %(tenant_id)s::text AS tenant_id, %(user_id)s::text AS user_id,
           memory_id, version, text_version, lexical_no, type, confidence, source,
           coalesce(importance_before, importance) AS importance,
           CASE WHEN stated IN ('contradicted', 'achieved') AND valid_to > %(as_of)s THEN 'active'
                WHEN stated = 'superseded' AND merged_from > %(as_of)s THEN 'active'
                ELSE stated END AS status,
           tags, metadata, conversation_id, valid_from, created_at, expiry, sealed,
           CASE WHEN expiry <= coalesce(%(as_of)s, %(known_at)s, now())
                THEN '-infinity'::timestamptz END AS expires_at
    FROM stood
    WHERE %(as_of)s::timestamptz IS NULL OR valid_to IS NULL OR valid_to > %(as_of)s
       OR stated IN ('contradicted', 'achieved')
)
"""

AT_THE_MOMENT = (_KNOWN + _JUDGED + _SEEN).replace("/* among */", "")
"""Tables that end with `seen`, the memories of a user as of a `Moment`.

It has the columns of `memories` that filters use, with `version`, `text_version`, `lexical_no` and
`sealed`; `expiry` is the original `expires_at`."""
AMONG_THESE = (_KNOWN + _JUDGED + _SEEN).replace(
    "/* among */", "AND m.memory_id = ANY(%(memory_ids)s::uuid[])"
)
"""The same for only the memories `memory_ids`."""
