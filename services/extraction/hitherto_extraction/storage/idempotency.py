"""Idempotency keys: the resources of the first outcome by credential and key, never contents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hitherto_shared.database.arrays import fields_of
from hitherto_shared.database.pool import Connection
from hitherto_shared.errors import AlreadyExists

# Waits for a concurrent call with the same key to commit or roll back. It names only users whose
# row exists, and locks it: an erasure either waits for this record or finds it gone.
_HOLD = """
SELECT FROM users
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
FOR KEY SHARE
"""

_TAKE = """
INSERT INTO idempotency_keys
    (tenant_id, subject, rpc, key, user_ids, body_hash, resource_ids)
SELECT %(tenant_id)s::text, %(subject)s::text, %(rpc)s::text, %(key)s::text,
       ARRAY(SELECT user_id FROM users
             WHERE tenant_id = %(tenant_id)s AND user_id = ANY(%(user_ids)s::text[])
             ORDER BY user_id),
       %(body_hash)s::bytea, %(resource_ids)s::text[]
ON CONFLICT (tenant_id, subject, rpc, key) DO NOTHING
"""

_FIND = """
SELECT body_hash, resource_ids
FROM idempotency_keys
WHERE tenant_id = %(tenant_id)s AND subject = %(subject)s AND rpc = %(rpc)s AND key = %(key)s
"""

# Across users: keys are guaranteed for a day.
_EXPIRE = """
DELETE FROM idempotency_keys AS k
USING (SELECT tenant_id, subject, rpc, key FROM idempotency_keys
       WHERE created_at < now() - interval '48 hours'
       ORDER BY created_at LIMIT %(limit)s) AS old
WHERE k.tenant_id = old.tenant_id AND k.subject = old.subject AND k.rpc = old.rpc
  AND k.key = old.key
"""


@dataclass(frozen=True, slots=True)
class Identity:
    """Identifies a repeated call: its key, its method and the hash of its body.

    A key belongs to one credential, which `subject` identifies (`Trail.caller`).
    """

    tenant_id: str
    subject: str
    rpc: str
    key: str
    body_hash: bytes


async def replayed(connection: Connection, identity: Identity) -> list[str] | None:
    """The resources of the first call with this key, or None if there was none.

    Raises:
        AlreadyExists: The first call had a different body.
    """
    row = await connection.fetch_row(_FIND, fields_of(identity))
    if row is None:
        return None
    if bytes(row[0]) != identity.body_hash:
        raise AlreadyExists(
            "this idempotency key was used with a different request body: use a new key",
            reason="IDEMPOTENCY_KEY_REUSED",
            metadata={"idempotency_key": identity.key},
        )
    return list(row[1])


async def take(
    connection: Connection,
    identity: Identity,
    *,
    user_ids: Sequence[str],
    resource_ids: Sequence[str],
) -> bool:
    """Record the outcome of this call; False if another call with the key was first."""
    tenant = {"tenant_id": identity.tenant_id}
    await connection.later_for_each(
        _HOLD, [tenant | {"user_id": user_id} for user_id in sorted(set(user_ids))]
    )
    cursor = await connection.execute(
        _TAKE,
        fields_of(identity) | {"user_ids": list(user_ids), "resource_ids": list(resource_ids)},
    )
    return cursor.rowcount == 1


async def expire(connection: Connection, *, limit: int) -> int:
    """Delete some keys older than guaranteed; returns how many."""
    return (await connection.execute(_EXPIRE, {"limit": limit})).rowcount
