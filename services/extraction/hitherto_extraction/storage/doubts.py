"""The doubts of memories: which hold, which have ended with their cause, and what cast them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from hitherto_shared.database.user_rows import UserRows

_IN_DOUBT = """
SELECT memory_id
FROM memories
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND doubt IS NOT NULL
  AND (%(causes)s::text[] IS NULL OR doubt ->> 'because' = ANY(%(causes)s::text[]))
ORDER BY memory_id
"""

# The doubts of these memories and those because of these causes, and such as have ended: the last
# ones of active memories about which nothing was said since, not even by a joined one, ended by
# what the history relates to the cause. One is `taken_back` with the job that had cast it. A doubt
# that is related to another memory than its cause was taken over from that one: it is taken back,
# too, if that is joined no longer, or if the job was taken back that had cast the doubt there.
_DOUBTS = """
WITH ended AS (
    SELECT v.memory_id, v.version, v.doubt
    FROM memory_versions AS v
    WHERE v.tenant_id = %(tenant_id)s AND v.user_id = %(user_id)s
      AND v.memory_id = ANY(%(memory_ids)s) AND v.doubt IS NOT NULL
    UNION
    SELECT v.memory_id, v.version, v.doubt
    FROM memory_versions AS v
    WHERE cardinality(%(back)s::text[]) > 0
      AND v.tenant_id = %(tenant_id)s AND v.user_id = %(user_id)s
      AND v.doubt ->> 'because' = ANY(%(back)s::text[])
), found AS (
    SELECT m.memory_id, m.doubt, true AS stands
    FROM memories AS m
    WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.doubt IS NOT NULL
      AND (m.memory_id = ANY(%(memory_ids)s)
           OR m.doubt ->> 'because' = ANY(%(causes)s::text[]))
    UNION ALL
    SELECT m.memory_id, e.doubt, false
    FROM ended AS e
    JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
         AND m.memory_id = e.memory_id AND m.status = 'active' AND m.doubt IS NULL
         AND @last_said(m) < (e.doubt ->> 'since')::timestamptz
    JOIN history AS h ON h.tenant_id = %(tenant_id)s AND h.user_id = %(user_id)s
         AND h.memory_id = e.memory_id AND h.version = e.version + 1 AND h.subject = 'memory'
         AND h.related_memory_id::text = e.doubt ->> 'because'
    WHERE NOT EXISTS (
        SELECT FROM memory_versions AS later
        WHERE later.tenant_id = %(tenant_id)s AND later.user_id = %(user_id)s
          AND later.memory_id = e.memory_id AND later.version > e.version
          AND later.doubt IS NOT NULL)
)
SELECT f.memory_id, f.doubt, f.stands,
       EXISTS (
           SELECT FROM statements AS s
           WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
             AND s.memory_id = f.memory_id AND s.version = cast_by.version AND s.action = 'taken')
       OR h.related_memory_id::text <> f.doubt ->> 'because' AND (NOT EXISTS (
           SELECT FROM memories AS o
           WHERE o.tenant_id = %(tenant_id)s AND o.user_id = %(user_id)s
             AND o.memory_id = h.related_memory_id AND o.superseded_by = f.memory_id)
       OR EXISTS (
           SELECT FROM statements AS s
           WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
             AND s.memory_id = h.related_memory_id AND s.action = 'taken' AND s.version = (
                 SELECT min(v.version) FROM memory_versions AS v
                 WHERE v.tenant_id = %(tenant_id)s AND v.user_id = %(user_id)s
                   AND v.memory_id = h.related_memory_id
                   AND v.doubt ->> 'because' = f.doubt ->> 'because'
                   AND v.doubt ->> 'since' = f.doubt ->> 'since'))) AS taken_back
FROM found AS f
CROSS JOIN LATERAL (
    SELECT min(v.version) AS version
    FROM (
        SELECT version, doubt FROM memory_versions
        WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = f.memory_id
        UNION ALL
        SELECT version, doubt FROM memories
        WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = f.memory_id
    ) AS v
    WHERE v.doubt ->> 'because' = f.doubt ->> 'because'
      AND v.doubt ->> 'since' = f.doubt ->> 'since'
) AS cast_by
LEFT JOIN history AS h ON h.tenant_id = %(tenant_id)s AND h.user_id = %(user_id)s
     AND h.memory_id = f.memory_id AND h.version = cast_by.version AND h.subject = 'memory'
ORDER BY f.memory_id
"""

# The doubts that joined memories left to these, which are not in doubt, the first joined one first:
# such as a memory had when it was joined, about which nothing was said since, and cast by no job
# that was taken back. If somebody has called the kept memory certain since, that holds for all.
_LEFT_TO = """
SELECT k.memory_id, v.doubt, o.memory_id AS joined_id
FROM memories AS k
JOIN memories AS o ON o.tenant_id = %(tenant_id)s AND o.user_id = %(user_id)s
     AND o.superseded_by = k.memory_id AND o.status = 'superseded'
JOIN history AS h ON h.tenant_id = %(tenant_id)s AND h.user_id = %(user_id)s
     AND h.memory_id = o.memory_id AND h.subject = 'memory' AND h.action = 'superseded'
     AND h.actor = 'reconciliation' AND h.related_memory_id = k.memory_id
JOIN memory_versions AS v ON v.tenant_id = %(tenant_id)s AND v.user_id = %(user_id)s
     AND v.memory_id = o.memory_id AND v.version = h.version - 1
WHERE k.tenant_id = %(tenant_id)s AND k.user_id = %(user_id)s AND k.memory_id = ANY(%(memory_ids)s)
  AND k.status = 'active' AND @last_said(k) < (v.doubt ->> 'since')::timestamptz
  AND NOT EXISTS (
      SELECT FROM history AS c
      JOIN memory_versions AS w ON w.tenant_id = %(tenant_id)s AND w.user_id = %(user_id)s
           AND w.memory_id = c.memory_id AND w.version = c.version - 1 AND w.doubt IS NOT NULL
      WHERE c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s AND c.memory_id = k.memory_id
        AND c.subject = 'memory' AND c.recorded_at > h.recorded_at
        AND c.related_memory_id IS NULL AND c.action <> 'rolled_back'
        AND NOT (c.version = k.version AND k.doubt IS NOT NULL)
        AND NOT EXISTS (
            SELECT FROM memory_versions AS n
            WHERE n.tenant_id = %(tenant_id)s AND n.user_id = %(user_id)s
              AND n.memory_id = c.memory_id AND n.version = c.version AND n.doubt IS NOT NULL))
  AND NOT EXISTS (
      SELECT FROM statements AS s
      WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s AND s.memory_id = o.memory_id
        AND s.action = 'taken' AND s.version = (
            SELECT min(e.version) FROM memory_versions AS e
            WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
              AND e.memory_id = o.memory_id
              AND e.doubt ->> 'because' = v.doubt ->> 'because'
              AND e.doubt ->> 'since' = v.doubt ->> 'since'))
ORDER BY h.recorded_at, o.memory_id
"""


@dataclass(frozen=True, slots=True)
class HeldDoubt:
    """A doubt of a memory."""

    memory_id: UUID
    doubt: dict[str, Any]

    @property
    def because(self) -> UUID:
        """The cause."""
        return UUID(self.doubt["because"])


@dataclass(frozen=True, slots=True)
class FollowedDoubt(HeldDoubt):
    """A doubt that `stands`, or that ended with its cause and may return.

    It is `taken_back` with the job that had cast it; one that was taken over from a joined memory
    also if that stands for itself again.
    """

    stands: bool
    taken_back: bool | None


@dataclass(frozen=True, slots=True)
class LeftDoubt(HeldDoubt):
    """A doubt that a joined memory left to the one that stands for it."""

    joined_id: UUID


async def in_doubt(user: UserRows, because: Collection[UUID] | None = None) -> list[UUID]:
    """The memories that are in doubt, because of these or of any."""
    causes = None if because is None else [str(each) for each in because]
    return await user.fetch_values(_IN_DOUBT, causes=causes)


async def doubts_about(
    user: UserRows,
    memory_ids: Collection[UUID],
    causes: Collection[UUID],
    *,
    back: Collection[UUID],
) -> list[FollowedDoubt]:
    """The doubts of these memories and those because of `causes`, also such as have ended.

    Of the latter those of these memories, and those because of causes that are `back`.
    """
    return await user.fetch(
        FollowedDoubt,
        _DOUBTS,
        memory_ids=list(memory_ids),
        causes=[str(each) for each in causes],
        back=[str(each) for each in back],
    )


async def left_to(user: UserRows, memory_ids: Collection[UUID]) -> list[LeftDoubt]:
    """The doubts that joined memories left to these, the first joined one first."""
    return await user.fetch(LeftDoubt, _LEFT_TO, memory_ids=list(memory_ids))


def doubt_of(because: UUID, reason: str, since: datetime) -> dict[str, str]:
    """A doubt as it is stored."""
    return {"because": str(because), "reason": reason, "since": since.isoformat()}
