"""Deletes all data of a user in steps, and writes the mark and receipt that remain.

The role is hitherto_removal. Every step locks the receipt's row and adds what it deleted, so that
concurrent calls share the work, and an interrupted step is neither lost nor counted twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg import errors, sql
from psycopg.types.json import Jsonb

from hitherto_extraction.storage import holdings, users
from hitherto_shared.database.arrays import fields_of
from hitherto_shared.database.user_rows import UserRows

# By its id, or as the mark of a user who is erased or being erased.
_HOLD = """
SELECT receipt_id, user_hash, erased_at, counts, signed_payload, signature, key_id,
       reinstated_at
FROM erased_users
WHERE tenant_id = %(tenant_id)s
  AND (receipt_id = %(receipt_id)s::uuid
       OR user_hash = %(user_hash)s::text AND reinstated_at IS NULL)
FOR UPDATE
"""

_ENSURE_USER = """
INSERT INTO users (tenant_id, user_id) VALUES (%(tenant_id)s, %(user_id)s)
ON CONFLICT (tenant_id, user_id) DO NOTHING
"""

# The fence: writers about the user hold the row, or look for it and find this instead.
_FENCE = """
UPDATE users SET erased_at = statement_timestamp(), revision = revision + %(leap)s
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""

_LOCK_USER = """
SELECT user_id FROM users
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
FOR UPDATE
"""

_MARK = """
INSERT INTO erased_users (tenant_id, receipt_id, user_hash, hash_key_id, counts)
VALUES (%(tenant_id)s, %(receipt_id)s, %(user_hash)s, %(hash_key_id)s, %(counts)s)
"""

_COUNT = """
UPDATE erased_users
SET counts = counts || jsonb_build_object(
        %(table)s::text, coalesce((counts ->> %(table)s::text)::bigint, 0) + %(removed)s::bigint)
WHERE tenant_id = %(tenant_id)s AND receipt_id = %(receipt_id)s
"""

_COMPLETE = """
UPDATE erased_users
SET erased_at = %(erased_at)s, signed_payload = %(signed_payload)s, signature = %(signature)s,
    key_id = %(key_id)s
WHERE tenant_id = %(tenant_id)s AND receipt_id = %(receipt_id)s
"""

_REINSTATE = """
UPDATE erased_users SET reinstated_at = clock_timestamp()
WHERE tenant_id = %(tenant_id)s AND receipt_id = %(receipt_id)s
"""

# A row that changes meanwhile moves, and is found by the next step.
_DELETE_SOME = """
DELETE FROM {table}
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND ctid = ANY (ARRAY(SELECT ctid FROM {table}
                        WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
                        LIMIT %(limit)s))
"""

# The tenant has paid, and its daily budget includes this usage.
_MOVE_USAGE = """
WITH moved AS (
    DELETE FROM usage_ledger
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
      AND ctid = ANY (ARRAY(SELECT ctid FROM usage_ledger
                            WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
                            LIMIT %(limit)s))
    RETURNING day, job_id, stage, model, kind, calls, input_tokens, output_tokens, cost_usd
)
INSERT INTO usage_ledger (tenant_id, user_id, day, job_id, stage, model, kind, calls, input_tokens,
                          output_tokens, cost_usd)
SELECT %(tenant_id)s, '', day, job_id, stage, model, kind, calls, input_tokens, output_tokens,
       cost_usd
FROM moved
ON CONFLICT (tenant_id, user_id, day, job_id, stage, model) DO UPDATE
SET calls = usage_ledger.calls + EXCLUDED.calls,
    input_tokens = usage_ledger.input_tokens + EXCLUDED.input_tokens,
    output_tokens = usage_ledger.output_tokens + EXCLUDED.output_tokens,
    cost_usd = usage_ledger.cost_usd + EXCLUDED.cost_usd
"""

_DELETE_KEYS = """
DELETE FROM idempotency_keys
WHERE tenant_id = %(tenant_id)s AND user_ids @> ARRAY[%(user_id)s::text]
  AND user_ids <@ ARRAY[%(user_id)s::text]
"""

# In a call about several users, the others' part stays.
_CUT_KEYS = """
UPDATE idempotency_keys AS k
SET user_ids = array_remove(k.user_ids, %(user_id)s::text),
    resource_ids = ARRAY(
        SELECT made.id FROM unnest(k.resource_ids) WITH ORDINALITY AS made (id, place)
        WHERE made.id NOT IN (SELECT j.job_id::text FROM jobs AS j
                              WHERE j.tenant_id = %(tenant_id)s AND j.user_id = %(user_id)s)
        ORDER BY made.place)
WHERE k.tenant_id = %(tenant_id)s AND k.user_ids @> ARRAY[%(user_id)s::text]
"""

# A key that is left without users may act for nobody, and is revoked.
_CUT_LISTS = """
UPDATE api_keys
SET user_ids = array_remove(user_ids, %(user_id)s::text),
    revoked_at = CASE WHEN cardinality(array_remove(user_ids, %(user_id)s::text)) = 0
                      THEN coalesce(revoked_at, clock_timestamp()) ELSE revoked_at END
WHERE tenant_id = %(tenant_id)s AND user_ids @> ARRAY[%(user_id)s::text]
"""

_LISTED = """
SELECT EXISTS (SELECT FROM api_keys
               WHERE tenant_id = %(tenant_id)s AND user_ids @> ARRAY[%(user_id)s::text])
"""

_DELETE_USER = """
DELETE FROM users WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""

USERS = "users"
JOBS = "jobs"
DELIVERIES = "webhook_deliveries"
USAGE = "usage_ledger"
KEYS = "idempotency_keys"
CREDENTIALS = "api_keys"
PROFILES = "profiles"
"""The tables that are not emptied like the others."""


class RowsRemain(Exception):
    """Rows about the user were written during the deletion: repeat."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was deleted of a user; `erased_at` is None while something is left."""

    receipt_id: UUID
    user_hash: str
    erased_at: datetime | None
    counts: Mapping[str, int]
    signed_payload: str | None
    signature: bytes | None
    key_id: str | None
    reinstated_at: datetime | None


async def find_mark(user: UserRows, user_hash: str) -> Receipt | None:
    """The receipt of a user who is erased or being erased; locks its row."""
    return await user.fetch_one(Receipt, _HOLD, receipt_id=None, user_hash=user_hash)


async def begin(user: UserRows, receipt_id: UUID, *, user_hash: str, hash_key_id: str) -> None:
    """Set the fence and the mark: from the commit on, nothing new is written about the user.

    The caller prevents all other writes (`erased.keep_all_out`).
    """
    made = (await user.execute(_ENSURE_USER)).rowcount
    await user.execute(_LOCK_USER)
    await user.execute(_FENCE, leap=users.leap())
    await user.execute(
        _MARK,
        receipt_id=receipt_id,
        user_hash=user_hash,
        hash_key_id=hash_key_id,
        counts=Jsonb({USERS: 1 - made}),
    )


async def hold(user: UserRows, receipt_id: UUID) -> Receipt:
    """The receipt with this id; no other call erases the user until the transaction ends."""
    [receipt] = await user.fetch(Receipt, _HOLD, receipt_id=receipt_id, user_hash=None)
    return receipt


async def remove_some(user: UserRows, receipt_id: UUID, table: str, *, limit: int) -> int:
    """Delete up to `limit` rows of the user from a table and count them on the receipt.

    Raises:
        RowsRemain: New rows refer to these.
    """
    if table == USAGE:
        removed = (await user.execute(_MOVE_USAGE, limit=limit)).rowcount
    else:
        statement = sql.SQL(_DELETE_SOME).format(table=sql.Identifier(table))
        try:
            removed = (await user.execute(statement, limit=limit)).rowcount
        except errors.ForeignKeyViolation:
            raise RowsRemain from None
    if removed:
        await count(user, receipt_id, table, removed)
    return removed


async def remove_keys(user: UserRows, receipt_id: UUID) -> None:
    """Delete the idempotency keys of calls about the user, while the user's jobs exist."""
    removed = (await user.execute(_DELETE_KEYS)).rowcount
    removed += (await user.execute(_CUT_KEYS)).rowcount
    await count(user, receipt_id, KEYS, removed)


async def leave_lists(user: UserRows, receipt_id: UUID) -> None:
    """Remove the user from the lists of API keys; a key whose list becomes empty is revoked."""
    cut = (await user.execute(_CUT_LISTS)).rowcount
    await count(user, receipt_id, CREDENTIALS, cut)


async def remove_user(user: UserRows) -> None:
    """Delete the user's row; waits for all transactions that hold it.

    Raises:
        RowsRemain: Something of the user is left.
    """
    try:
        await user.execute(_DELETE_USER)
    except errors.ForeignKeyViolation:
        raise RowsRemain from None


async def require_none_left(user: UserRows, tables: Sequence[str]) -> None:
    """Check that no table and no API key's list names the user any more.

    Raises:
        RowsRemain: One does.
    """
    if await holdings.any_rows(user, tables) or await user.fetch_value(_LISTED):
        raise RowsRemain


async def complete(user: UserRows, receipt: Receipt) -> None:
    """Close the receipt, which has its signature and the time of the end."""
    await user.execute(_COMPLETE, **fields_of(receipt))


async def reinstate(user: UserRows, receipt_id: UUID) -> None:
    """Permit writes about the user again; the receipt stays."""
    await user.execute(_REINSTATE, receipt_id=receipt_id)


async def count(user: UserRows, receipt_id: UUID, table: str, removed: int) -> None:
    """Add rows that were deleted from a table to the receipt."""
    await user.execute(_COUNT, receipt_id=receipt_id, table=table, removed=removed)
