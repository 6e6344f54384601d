"""Recognises erased users, wherever a user's row would be created or does not exist.

A keyed hash remains of such a user. A connection receives the key when it is opened
(`know_hash_key`), so that every path to the database has it.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from hitherto_shared.database.pool import Connection
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.errors import WrongState
from hitherto_shared.models import Scope
from hitherto_shared.user_hash import hash_key_id, user_hash

# The second and third look for hashes under another key, which this user might have.
_MARKED = """
SELECT EXISTS (SELECT FROM erased_users
               WHERE tenant_id = %(tenant_id)s AND user_hash = %(user_hash)s
                 AND reinstated_at IS NULL),
       EXISTS (SELECT FROM erased_users
               WHERE tenant_id = %(tenant_id)s AND hash_key_id < %(hash_key_id)s
                 AND reinstated_at IS NULL)
       OR EXISTS (SELECT FROM erased_users
                  WHERE tenant_id = %(tenant_id)s AND hash_key_id > %(hash_key_id)s
                    AND reinstated_at IS NULL)
"""

# Across users: whether some were erased under a key other than this one.
_OTHER_KEYS = """
SELECT EXISTS (SELECT FROM erased_users
               WHERE hash_key_id <> %(hash_key_id)s AND reinstated_at IS NULL)
"""

# Held shared by writers about a user without a row, exclusively by an erasure that begins.
_KEEP_OUT_SHARED = """
SELECT pg_advisory_xact_lock_shared(
    hashtextextended(%(tenant_id)s || chr(31) || %(user_id)s, 0))
"""

_KEEP_OUT_ALONE = """
SELECT pg_advisory_xact_lock(hashtextextended(%(tenant_id)s || chr(31) || %(user_id)s, 0))
"""

_NO_KEY = b""
_KEYS: WeakKeyDictionary[Connection, bytes] = WeakKeyDictionary()


def know_hash_key(connection: Connection, key: bytes) -> None:
    """Let statements on a connection recognise erased users."""
    _KEYS[connection] = key


async def check_hash_key(connection: Connection, key: bytes) -> None:
    """Check that erased users can be recognised with `key`.

    Raises:
        ValueError: Some were erased under another key.
    """
    if await connection.fetch_value(_OTHER_KEYS, {"hash_key_id": hash_key_id(key)}):
        raise ValueError(
            "users were erased under a different hash key than this service has, and would "
            "not be recognised: set HITHERTO_HASH_KEY_FILE to the file that was in use then"
            " (unset: `hash_key` in HITHERTO_DATA_DIR)"
        )


async def refuse_erased(user: UserRows) -> None:
    """Continue only if a user without a row was not erased.

    Raises:
        WrongState: The user was erased, or that cannot be determined.
    """
    marked, in_doubt = await _marks(user)
    if marked:
        raise was_erased(user.scope)
    if in_doubt:
        raise WrongState(
            "the service cannot determine whether this user was erased, because users were "
            "erased under a different hash key: an administrator must give all services the"
            " same HITHERTO_HASH_KEY_FILE",
            reason="USER_ERASED",
            metadata={"user_id": user.scope.user_id},
        )


async def is_marked(user: UserRows) -> bool:
    """Whether a user without a row was erased, as far as this service's key tells."""
    marked, _ = await _marks(user)
    return marked


async def _marks(user: UserRows) -> tuple[bool, bool]:
    """Whether the user was erased, and whether it may have been under another key."""
    key = _KEYS.get(user.connection, _NO_KEY)
    [(marked, in_doubt)] = await user.fetch_rows(
        _MARKED,
        user_hash=user_hash(key, user.scope.tenant_id, user.scope.user_id),
        hash_key_id=hash_key_id(key),
    )
    return marked, in_doubt


async def keep_erase_out(user: UserRows) -> None:
    """Prevent the erasure of a user without a row until the transaction ends."""
    await user.execute(_KEEP_OUT_SHARED)


async def keep_all_out(user: UserRows) -> None:
    """Wait for all transactions that prevent erasures, and prevent new ones."""
    await user.execute(_KEEP_OUT_ALONE)


def was_erased(scope: Scope) -> WrongState:
    """The refusal of a write about an erased user."""
    return WrongState(
        "this user was erased; an administrator may allow the id again (ReinstateUser, or "
        "`hitherto reinstate`)",
        reason="USER_ERASED",
        metadata={"user_id": scope.user_id},
    )


STAND_IN = "erased"
"""The actor in place of the credential of an erased user."""

# The actors that stand for a user's credentials: for tokens the user id, for keys the key names.
_UNNAME = """
WITH names AS MATERIALIZED (
    SELECT 'jwt:' || %(user_id)s::text AS actor
    UNION ALL
    SELECT 'key:' || key_id || ':' || name FROM api_keys
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
), of_history AS (
    UPDATE history SET actor = %(stand_in)s
    WHERE tenant_id = %(tenant_id)s AND actor IN (SELECT actor FROM names)
)
UPDATE profile_versions SET actor = %(stand_in)s
WHERE tenant_id = %(tenant_id)s AND actor IN (SELECT actor FROM names)
"""


async def unname(user: UserRows) -> None:
    """Remove the user's name from changes made with the user's credentials.

    It scans the histories of the whole tenant: nothing else searches by actor, so an index would
    cost every change more than it saves a rare erasure.
    """
    await user.execute(_UNNAME, stand_in=STAND_IN)
