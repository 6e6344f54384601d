"""Answers of a model that nothing could be made of, sealed, for whoever has to find out why."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from hitherto_shared.database.pool import Connection
from hitherto_shared.models import Scope

KEPT_DAYS = 7
"""How long a reply is kept: it holds what users said, and is of use only while somebody looks."""

_KEEP = """
INSERT INTO unusable_replies (tenant_id, user_id, job_id, claim_no, sealed_reply, of_user_key)
VALUES (%(tenant_id)s, %(user_id)s, %(job_id)s, %(claim_no)s, %(sealed)s, %(of_user_key)s)
ON CONFLICT (tenant_id, user_id, job_id, claim_no) DO UPDATE
SET sealed_reply = EXCLUDED.sealed_reply, of_user_key = EXCLUDED.of_user_key,
    recorded_at = clock_timestamp()
"""

_FIND = """
SELECT user_id, claim_no, sealed_reply, of_user_key, recorded_at
FROM unusable_replies
WHERE tenant_id = %(tenant_id)s AND job_id = %(job_id)s
ORDER BY claim_no
"""

_EXPIRE = """
DELETE FROM unusable_replies
WHERE recorded_at < clock_timestamp() - make_interval(days => %(days)s)
"""


@dataclass(frozen=True, slots=True)
class SealedReply:
    """What a model said in one attempt of a job, sealed with the key of the installation.

    Or, where `of_user_key`, with that of the user.
    """

    user_id: str
    claim_no: int
    sealed: str
    of_user_key: bool
    recorded_at: datetime


async def keep(
    connection: Connection,
    scope: Scope,
    job_id: UUID,
    claim_no: int,
    sealed: str,
    *,
    of_user_key: bool = False,
) -> None:
    """Keep the reply of one attempt. The user's row exists and is locked by the caller."""
    await connection.execute(
        _KEEP,
        {
            **scope.parameters,
            "job_id": job_id,
            "claim_no": claim_no,
            "sealed": sealed,
            "of_user_key": of_user_key,
        },
    )


async def find(connection: Connection, tenant_id: str, job_id: UUID) -> list[SealedReply]:
    """What is kept of a job's attempts, the first one first."""
    cursor = await connection.execute(_FIND, {"tenant_id": tenant_id, "job_id": job_id})
    return [SealedReply(*row) for row in await cursor.fetchall()]


async def expire(connection: Connection) -> None:
    """Drop what has been kept long enough."""
    await connection.execute(_EXPIRE, {"days": KEPT_DAYS})
