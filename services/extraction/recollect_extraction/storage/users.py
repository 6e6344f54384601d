"""The row of a user: created with the first write, locked by every last transaction of a worker."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime

from recollect_extraction.storage import erased
from recollect_shared.database.pool import Connection
from recollect_shared.models import Scope

_ENSURE = """
INSERT INTO users (tenant_id, user_id, audit_key)
VALUES (%(tenant_id)s, %(user_id)s, %(audit_key)s)
ON CONFLICT (tenant_id, user_id) DO NOTHING
"""

# Shared with other writers, exclusive against an erase.
_ENTER = """
SELECT erased_at, memory_enabled, learning_enabled
FROM users
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
FOR KEY SHARE
"""

# Exclusive among writers of this user's memories and profile; readers and FK checks pass.
_LOCK = """
SELECT erased_at, memory_enabled, learning_enabled
FROM users
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
FOR NO KEY UPDATE
"""

_READ = """
SELECT erased_at, memory_enabled, learning_enabled
FROM users
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""

# Asked after the lock was granted: a statement that waited reports the time before its wait.
_NOW = "SELECT clock_timestamp()"


@dataclass(frozen=True, slots=True)
class UserState:
    """What decides whether anything may be written about a user; None means the default."""

    erased: bool
    memory_enabled: bool | None
    learning_enabled: bool | None

    def why_not_learning(self, memory_enabled_by_default: bool) -> str | None:
        """The reason for which nothing may be learnt about this user, or None."""
        if not (memory_enabled_by_default if self.memory_enabled is None else self.memory_enabled):
            return "MEMORY_DISABLED"
        return "LEARNING_DISABLED" if self.learning_enabled is False else None


async def enter_user(connection: Connection, scope: Scope) -> UserState:
    """Make sure the user exists and hold off an erase until this transaction ends.

    Raises:
        WrongState: The user was erased.
    """
    state = await _state(connection, scope, _ENTER)
    if state is None:
        await erased.refuse_erased(connection, scope)
        await connection.execute(
            _ENSURE,
            {"tenant_id": scope.tenant_id, "user_id": scope.user_id, "audit_key": os.urandom(32)},
        )
        # Asked again once the row is ours: until then a whole erase may have come and gone.
        await erased.refuse_erased(connection, scope)
        state = await _state(connection, scope, _ENTER)
    if state is None or state.erased:
        raise erased.was_erased(scope)
    return state


async def hold_off_erase(connection: Connection, scope: Scope) -> UserState | None:
    """Hold off an erase until this transaction ends, and make no row; None for an unknown user.

    For whatever names a user and does not need one to exist, such as a job.

    Raises:
        WrongState: The user was erased.
    """
    state = await _state(connection, scope, _ENTER)
    if state is None:
        await erased.keep_erase_out(connection, scope)
        await erased.refuse_erased(connection, scope)
        state = await _state(connection, scope, _ENTER)
    if state is not None and state.erased:
        raise erased.was_erased(scope)
    return state


async def lock_user(connection: Connection, scope: Scope) -> UserState | None:
    """Become the only writer of this user's memories and profile until the transaction ends.

    Returns None if the user is gone.
    """
    return await _state(connection, scope, _LOCK)


async def read_user(connection: Connection, scope: Scope) -> UserState | None:
    """The user's state as it is now, without a lock: for what a later lock confirms."""
    return await _state(connection, scope, _READ)


async def database_now(connection: Connection) -> datetime:
    """The database's clock at this moment."""
    cursor = await connection.execute(_NOW)
    row = await cursor.fetchone()
    assert row is not None
    moment: datetime = row[0]
    return moment


async def _state(connection: Connection, scope: Scope, statement: str) -> UserState | None:
    cursor = await connection.execute(
        statement.encode(), {"tenant_id": scope.tenant_id, "user_id": scope.user_id}
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    return UserState(row[0] is not None, row[1], row[2])
