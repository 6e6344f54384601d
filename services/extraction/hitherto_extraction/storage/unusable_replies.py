"""Unusable replies of a model, sealed, for diagnosis by the operator."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from hitherto_shared.database.pool import Connection
from hitherto_shared.database.user_rows import UserRows

KEPT_DAYS = 7
"""Days for which a reply is stored: it contains user text, and is of use only for diagnosis."""

_KEEP = """
INSERT INTO unusable_replies (tenant_id, user_id, job_id, claim_no, sealed_reply, of_user_key)
VALUES (%(tenant_id)s, %(user_id)s, %(job_id)s, %(claim_no)s, %(sealed)s, %(of_user_key)s)
ON CONFLICT (tenant_id, user_id, job_id, claim_no) DO UPDATE
SET sealed_reply = EXCLUDED.sealed_reply, of_user_key = EXCLUDED.of_user_key,
    recorded_at = clock_timestamp()
"""

_FIND = """
SELECT user_id, claim_no, sealed_reply AS sealed, of_user_key, recorded_at
FROM unusable_replies
WHERE tenant_id = %(tenant_id)s AND job_id = %(job_id)s
ORDER BY claim_no
"""

_EXPIRE = """
DELETE FROM unusable_replies
WHERE recorded_at < clock_timestamp() - make_interval(days => %(days)s)
"""

_CLEAR_REPLIES = """
SELECT job_id, claim_no, sealed_reply AS sealed
FROM unusable_replies
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND NOT of_user_key
ORDER BY job_id, claim_no
LIMIT %(limit)s
"""

_SEAL_REPLY = """
UPDATE unusable_replies SET sealed_reply = %(sealed)s, of_user_key = true
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND job_id = %(job_id)s AND claim_no = %(claim_no)s
"""

_DROP_REPLY = """
DELETE FROM unusable_replies
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND job_id = %(job_id)s AND claim_no = %(claim_no)s
"""


@dataclass(frozen=True, slots=True)
class ClearReply:
    """An unusable reply sealed with the installation's secret."""

    job_id: UUID
    claim_no: int
    sealed: str


@dataclass(frozen=True, slots=True)
class SealedReply:
    """A model's reply in one attempt of a job, sealed with the installation's secret.

    If `of_user_key`, it is sealed with the user's data key instead.
    """

    user_id: str
    claim_no: int
    sealed: str
    of_user_key: bool
    recorded_at: datetime


async def keep(
    user: UserRows, job_id: UUID, claim_no: int, sealed: str, *, of_user_key: bool = False
) -> None:
    """Store the reply of one attempt. The user's row exists and is locked by the caller."""
    await user.execute(
        _KEEP, job_id=job_id, claim_no=claim_no, sealed=sealed, of_user_key=of_user_key
    )


async def find(connection: Connection, tenant_id: str, job_id: UUID) -> list[SealedReply]:
    """The stored replies of a job's attempts, the first one first."""
    return await connection.fetch(SealedReply, _FIND, {"tenant_id": tenant_id, "job_id": job_id})


async def expire(connection: Connection) -> None:
    """Delete expired replies."""
    await connection.execute(_EXPIRE, {"days": KEPT_DAYS})


async def clear_replies(user: UserRows, *, limit: int) -> list[ClearReply]:
    """Unusable replies sealed with the installation's secret."""
    return await user.fetch(ClearReply, _CLEAR_REPLIES, limit=limit)


async def seal_reply(user: UserRows, reply: ClearReply, sealed: str | None) -> None:
    """Store a reply sealed with the user's key instead; None: delete it."""
    await user.execute(
        _DROP_REPLY if sealed is None else _SEAL_REPLY,
        job_id=reply.job_id,
        claim_no=reply.claim_no,
        sealed=sealed,
    )
