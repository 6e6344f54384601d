"""How forgotten memories came to be so: who asked for it, and what was taken back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from hitherto_shared.database.arrays import Uuids
from hitherto_shared.database.user_rows import UserRows

# Of these memories, those that are forgotten: since when, whatever has changed of them meanwhile,
# and, if it was because of a roll-back, or of a request that was taken back, the conversations that
# stated them. One that somebody asked to forget stays so, since the last request by hand. Whether
# that was by hand; whether anything that states it was taken back since it was last told. A source
# in a conversation that never stated it comes from what was joined to it, or was corrected by hand:
# then whatever that conversation states counts.
_FORGOTTEN = """
SELECT m.memory_id,
       coalesce((SELECT v.known_from FROM memory_versions AS v
                 WHERE v.tenant_id = %(tenant_id)s AND v.user_id = %(user_id)s
                   AND v.memory_id = m.memory_id AND v.version = became_so.version),
                m.updated_at),
       CASE WHEN EXISTS (
                SELECT FROM history AS h
                WHERE h.tenant_id = %(tenant_id)s AND h.user_id = %(user_id)s
                  AND h.memory_id = m.memory_id AND h.version = became_so.version
                  AND h.subject = 'memory' AND h.action = 'rolled_back')
              OR EXISTS (
                SELECT FROM statements AS s
                WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
                  AND s.memory_id = m.memory_id AND s.version = became_so.version
                  AND s.made_version AND s.taken_back_at IS NOT NULL)
            THEN array(
                SELECT DISTINCT s.conversation_id FROM memory_sources AS s
                WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
                  AND s.memory_id = m.memory_id) END,
       @is_forgotten_by_hand(m),
       EXISTS (
           SELECT FROM (
               SELECT s.action, s.taken_back_at
               FROM statements AS s
               WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
                 AND s.memory_id = m.memory_id
               UNION ALL
               SELECT s.action, s.taken_back_at
               FROM (
                   SELECT DISTINCT o.conversation_id FROM memory_sources AS o
                   WHERE o.tenant_id = %(tenant_id)s AND o.user_id = %(user_id)s
                     AND o.memory_id = m.memory_id AND (o.joined_from IS NOT NULL OR NOT EXISTS (
                         SELECT FROM statements AS t
                         WHERE t.tenant_id = %(tenant_id)s AND t.user_id = %(user_id)s
                           AND t.memory_id = m.memory_id
                           AND t.conversation_id = o.conversation_id))) AS joined
               JOIN statements AS s ON s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
                    AND md5(s.conversation_id) = md5(joined.conversation_id)
                    AND s.conversation_id = joined.conversation_id
           ) AS stated
           WHERE stated.action IN ('said', 'updated', 'taken')
             AND stated.taken_back_at >= coalesce(
                 (SELECT v.known_from FROM memory_versions AS v
                  WHERE v.tenant_id = %(tenant_id)s AND v.user_id = %(user_id)s
                    AND v.memory_id = m.memory_id AND v.version = told.version), '-infinity'))
FROM memories AS m
CROSS JOIN LATERAL (SELECT @last_told(m) AS version) AS told
CROSS JOIN LATERAL (
    SELECT max(h.version) AS version FROM history AS h
    WHERE h.tenant_id = %(tenant_id)s AND h.user_id = %(user_id)s
      AND h.memory_id = m.memory_id AND h.version > told.version
      AND h.subject = 'memory' AND h.action = 'forgotten') AS asked
CROSS JOIN LATERAL (SELECT coalesce(asked.version, told.version + 1) AS version) AS became_so
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
  AND m.memory_id = ANY(%(memory_ids)s) AND m.status = 'forgotten'
"""


@dataclass(frozen=True, slots=True)
class Forgetting:
    """How a forgotten memory came to be so.

    Attributes:
        at: Since when, whatever has changed of it meanwhile.
        taken_back_from: The conversations that stated one of which roll-backs left nothing; None if
            somebody asked to forget it.
        by_hand: Whether somebody forgot it by hand.
        partly_taken_back: Whether anything that states it, or what it has its sources from, was
            taken back since it was last told.
    """

    at: datetime
    taken_back_from: Sequence[str] | None
    by_hand: bool
    partly_taken_back: bool


async def read(user: UserRows, memory_ids: Sequence[UUID]) -> dict[UUID, Forgetting]:
    """How those of these memories that are forgotten came to be so."""
    if not memory_ids:
        return {}
    rows = await user.fetch_rows(_FORGOTTEN, memory_ids=Uuids(memory_ids))
    return {memory_id: Forgetting(*made) for memory_id, *made in rows}
