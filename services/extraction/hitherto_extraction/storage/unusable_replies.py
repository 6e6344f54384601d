"""Unusable replies of a model, sealed, for diagnosis by the operator."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from hitherto_extraction.storage.sealed_rows import opened, sealing_key, stored
from hitherto_shared.database.pool import Connection
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.encryption.rows import REPLY
from hitherto_shared.models import Scope

KEPT_DAYS = 7
"""Days for which a reply is stored: it contains user text, and is of use only for diagnosis."""

_KEEP = """
INSERT INTO unusable_replies (tenant_id, user_id, job_id, claim_no, sealed_reply, sealed,
                              recorded_at)
VALUES (%(tenant_id)s, %(user_id)s, %(job_id)s, %(claim_no)s, %(sealed_reply)s, %(sealed)s,
        clock_timestamp())
ON CONFLICT (tenant_id, user_id, job_id, claim_no) DO UPDATE
SET sealed_reply = EXCLUDED.sealed_reply, sealed = EXCLUDED.sealed,
    recorded_at = EXCLUDED.recorded_at
"""

_FIND = """
SELECT user_id, claim_no, sealed_reply, recorded_at, sealed
FROM unusable_replies
WHERE tenant_id = %(tenant_id)s AND job_id = %(job_id)s
ORDER BY claim_no
"""

# Across users. The age is checked again on the row itself: the reply may be a new one by now.
_EXPIRE = """
DELETE FROM unusable_replies AS r
USING (SELECT tenant_id, user_id, job_id, claim_no FROM unusable_replies
       WHERE recorded_at < now() - make_interval(days => %(days)s)
       ORDER BY recorded_at LIMIT %(limit)s) AS old
WHERE r.tenant_id = old.tenant_id AND r.user_id = old.user_id AND r.job_id = old.job_id
  AND r.claim_no = old.claim_no AND r.recorded_at < now() - make_interval(days => %(days)s)
"""


@dataclass(frozen=True, slots=True)
class KeptReply:
    """A reply in one attempt of a job: user text, sealed with the installation's secret."""

    user_id: str
    claim_no: int
    reply: str
    recorded_at: datetime


async def keep(user: UserRows, job_id: UUID, claim_no: int, sealed_reply: str) -> None:
    """Store the reply of one attempt. The user's row exists and is locked by the caller.

    Raises:
        KeyNeeded: The user has encryption on, and the key is not at hand; nothing was stored.
    """
    row = {"job_id": job_id, "claim_no": claim_no, "sealed_reply": sealed_reply}
    await user.execute(_KEEP, **row | stored(await sealing_key(user), REPLY, row))


async def find(connection: Connection, tenant_id: str, job_id: UUID) -> list[KeptReply]:
    """The stored replies of a job's attempts, the first one first.

    Raises:
        KeyNeeded: One is sealed with the key of its user, which is not at hand.
        SealBroken: One was sealed with another key, or moved.
    """
    rows = await connection.fetch_rows(_FIND, {"tenant_id": tenant_id, "job_id": job_id})
    found = []
    for user_id, claim_no, sealed_reply, recorded_at, sealed in rows:
        told = sealed_reply
        if sealed is not None:
            scope = Scope(tenant_id, user_id)
            told = opened(scope, REPLY, sealed, job_id, claim_no)["sealed_reply"]
        found.append(KeptReply(user_id, claim_no, told, recorded_at))
    return found


async def expire(connection: Connection, *, limit: int) -> int:
    """Delete some expired replies; returns how many."""
    return (await connection.execute(_EXPIRE, {"days": KEPT_DAYS, "limit": limit})).rowcount
