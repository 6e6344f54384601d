"""Who was erased: asked wherever a user's row would be made anew, and where there is none.

What is kept of such a user is a keyed hash. The key is known to a connection from the moment it is
made (`know_hash_key`), so that no path to the database can forget to bring it along.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from hitherto_shared.database.pool import Connection
from hitherto_shared.errors import WrongState
from hitherto_shared.models import Scope
from hitherto_shared.user_hash import hash_key_id, user_hash

# The second and third ask for marks of another key, under which this user might stand.
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

# Across users: whether some were erased under another key than this.
_OTHER_KEYS = """
SELECT EXISTS (SELECT FROM erased_users
               WHERE hash_key_id <> %(hash_key_id)s AND reinstated_at IS NULL)
"""

# Held shared by whoever writes about a user without a row, exclusively by an erase that begins.
_KEEP_OUT = (
    "SELECT pg_advisory_xact_lock{}(hashtextextended(%(tenant_id)s || chr(31) || %(user_id)s, 0))"
)
_KEEP_OUT_SHARED = _KEEP_OUT.format("_shared")
_KEEP_OUT_ALONE = _KEEP_OUT.format("")

_NO_KEY = b""
_KEYS: WeakKeyDictionary[Connection, bytes] = WeakKeyDictionary()


def know_hash_key(connection: Connection, key: bytes) -> None:
    """Let what is done on a connection recognise users who were erased."""
    _KEYS[connection] = key


async def check_hash_key(connection: Connection, key: bytes) -> None:
    """See that users who were erased can be recognised with `key`.

    Raises:
        ValueError: Some were erased under another key.
    """
    cursor = await connection.execute(_OTHER_KEYS, {"hash_key_id": hash_key_id(key)})
    row = await cursor.fetchone()
    if row is not None and row[0]:
        raise ValueError(
            "users were erased under a different hash key than this service has, and would "
            "not be recognised: set HITHERTO_HASH_KEY_FILE to the file that was in use then"
            " (unset: `hash_key` in HITHERTO_DATA_DIR)"
        )


async def refuse_erased(connection: Connection, scope: Scope) -> None:
    """Go on only if a user who has no row was not erased.

    Raises:
        WrongState: The user was erased, or whether that is so cannot be told.
    """
    key = _KEYS.get(connection, _NO_KEY)
    cursor = await connection.execute(
        _MARKED,
        {
            "tenant_id": scope.tenant_id,
            "user_hash": user_hash(key, scope.tenant_id, scope.user_id),
            "hash_key_id": hash_key_id(key),
        },
    )
    row = await cursor.fetchone()
    assert row is not None
    marked, in_doubt = row
    if marked:
        raise was_erased(scope)
    if in_doubt:
        raise WrongState(
            "the service cannot determine whether this user was erased, because users were "
            "erased under a different hash key: an administrator must give all services the"
            " same HITHERTO_HASH_KEY_FILE",
            reason="USER_ERASED",
            metadata={"user_id": scope.user_id},
        )


async def keep_erase_out(connection: Connection, scope: Scope) -> None:
    """Hold off an erase of a user who has no row, until the transaction ends."""
    await connection.execute(_KEEP_OUT_SHARED.encode(), scope.parameters)


async def keep_all_out(connection: Connection, scope: Scope) -> None:
    """Wait for whoever holds off an erase, and begin it alone."""
    await connection.execute(_KEEP_OUT_ALONE.encode(), scope.parameters)


def was_erased(scope: Scope) -> WrongState:
    """The refusal of whatever would write about an erased user."""
    return WrongState(
        "this user was erased; an administrator may call ReinstateUser",
        reason="USER_ERASED",
        metadata={"user_id": scope.user_id},
    )
