"""The row of a user: created with the first write, locked by every last transaction of a worker."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from hitherto_extraction.storage import erased
from hitherto_shared.database.pool import Connection
from hitherto_shared.database.user_rows import Encryption, UserRows
from hitherto_shared.errors import Conflict, WrongState
from hitherto_shared.models import Scope

_LARGEST_LEAP = 1 << 32
"""A thousand million changes of one user fit into the column."""

_ON_ITS_WAY = timedelta(minutes=1)
"""Until then a change may not be committed everywhere: a call takes 30 s, a commit a moment."""

_ENSURE = """
INSERT INTO users (tenant_id, user_id, audit_key, revision)
VALUES (%(tenant_id)s, %(user_id)s, %(audit_key)s, %(leap)s)
ON CONFLICT (tenant_id, user_id) DO NOTHING
"""

_READ = """
SELECT erased_at, memory_enabled, learning_enabled, encrypt_sensitive, key_id, created_at,
       redact_secrets, importing_until > statement_timestamp(), time_zone
FROM users
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""

# Shared with other writers, exclusive against an erasure.
_ENTER = """
SELECT erased_at, memory_enabled, learning_enabled, encrypt_sensitive, key_id, created_at,
       redact_secrets, importing_until > statement_timestamp(), time_zone
FROM users
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
FOR KEY SHARE
"""

# Waits for the writers that are about to commit; FK checks pass.
_AWAIT_WRITERS = """
SELECT FROM users
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
FOR SHARE
"""

# Exclusive among writers of this user's memories and profile; readers and FK checks pass. Data that
# was read before must be read again.
_LOCK = """
UPDATE users SET revision = revision + %(leap)s
FROM @clock AS clock
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
RETURNING erased_at, memory_enabled, learning_enabled, encrypt_sensitive, key_id, created_at,
          redact_secrets, importing_until > clock.at, time_zone
"""

# Exclusive: it waits for all transactions that have entered, including those that only accept
# messages.
_LOCK_ALONE = """
SELECT erased_at, memory_enabled, learning_enabled, encrypt_sensitive, key_id, created_at,
       redact_secrets, importing_until > statement_timestamp(), time_zone
FROM users
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
FOR UPDATE
"""

_RAISE = """
UPDATE users SET revision = revision + %(leap)s
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""

_NOTE_KEY = """
UPDATE users SET key_id = %(key_id)s
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""

_LEAVE_TO_SEAL = """
UPDATE users SET to_seal = to_seal + 1
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""

# Read after the lock was granted: a statement that waited reports the time before its wait.
_NOW = "SELECT clock_timestamp()"


@dataclass(frozen=True, slots=True)
class UserWriteState:
    """The state that decides whether anything may be written about a user; None means the default.

    `key_id` identifies the key with which encryption was last turned on, and `created_at` the user:
    one who returns after an erasure has another. `importing`: an import is storing the user.
    `time_zone` is the zone of the settings.
    """

    erased: bool
    memory_enabled: bool | None
    learning_enabled: bool | None
    encrypt_sensitive: bool | None
    key_id: str | None
    created_at: datetime
    redact_secrets: str | None = None
    importing: bool | None = None
    time_zone: str | None = None

    @property
    def encrypts(self) -> bool:
        """Whether sensitive text of this user is to be sealed from now on."""
        return bool(self.encrypt_sensitive)

    @property
    def seals_secrets(self) -> bool:
        """Whether a message whose secrets were redacted is also kept as it was sent, sealed."""
        return self.encrypts and self.redact_secrets == "seal"


def why_not_learning(state: UserWriteState | None, memory_enabled: bool) -> str | None:
    """Why nothing may be learnt about a user, by a key of `attempts.WHY_NOT`, or None.

    `memory_enabled` applies to users who did not choose; `state` is None for one who is gone.
    """
    if state is None or state.erased:
        return "USER_ERASED"
    if not (memory_enabled if state.memory_enabled is None else state.memory_enabled):
        return "MEMORY_DISABLED"
    return "LEARNING_DISABLED" if state.learning_enabled is False else None


def why_not_storing(state: UserWriteState | None, memory_enabled: bool) -> str | None:
    """`why_not_learning` for what is stored on purpose, even if learning is switched off."""
    why = why_not_learning(state, memory_enabled)
    return None if why == "LEARNING_DISABLED" else why


def memory_disabled(scope: Scope, undone: str) -> WrongState:
    """The error for a write about a user who has switched memory off; `undone` is its effect."""
    return WrongState(
        f"memory is switched off for this user: {undone}",
        reason="MEMORY_DISABLED",
        metadata={"user_id": scope.user_id},
    )


async def enter_user(user: UserRows) -> UserWriteState:
    """Make sure the user exists and prevent an erasure until this transaction ends.

    Raises:
        WrongState: The user was erased.
        Conflict: The user is being imported.
    """
    state = await _state(user, _ENTER)
    if state is None:
        await erased.refuse_erased(user)
        await user.later(_ENSURE, audit_key=os.urandom(32), leap=leap())
        # Checked again once the row is locked: until then a complete erasure may have happened.
        await erased.refuse_erased(user)
        state = await _state(user, _ENTER)
    if state is None or state.erased:
        raise erased.was_erased(user.scope)
    refuse_while_imported(state)
    return state


async def hold_off_erase(user: UserRows) -> UserWriteState | None:
    """Prevent an erasure until this transaction ends, without creating a row.

    For records that name a user who need not exist (then: None), such as a job.

    Raises:
        WrongState: The user was erased.
    """
    state = await _state(user, _ENTER)
    if state is None:
        await erased.keep_erase_out(user)
        await erased.refuse_erased(user)
        state = await _state(user, _ENTER)
    if state is not None and state.erased:
        raise erased.was_erased(user.scope)
    return state


async def keep(user: UserRows) -> UserWriteState | None:
    """Prevent a user's erasure until this transaction ends; None if the user is gone.

    For records about a user that no read returns.
    """
    return await _state(user, _ENTER)


async def lock_user(user: UserRows) -> UserWriteState | None:
    """Become the only writer of this user's memories and profile until the transaction ends.

    Raises the user's revision, whether or not anything is written then. Returns None if the user is
    gone.
    """
    return await _state(user, _LOCK)


async def await_nodes(connection: Connection, changed: Sequence[tuple[Scope, datetime]]) -> None:
    """Wait until what the coordinator of a cluster shows as committed is so on the users' nodes.

    A transaction with rows of both ends at the coordinator first, and at a node a moment later. A
    user who was `changed` longer ago is not waited for, as others may hold the row by now.
    """
    if not connection.is_distributed or not changed:
        return
    since = await database_now(connection) - _ON_ITS_WAY
    recent = {scope for scope, at in changed if at > since}
    for scope in sorted(recent, key=lambda scope: scope.user_id):
        await connection.of(scope).execute(_AWAIT_WRITERS)


async def enter_alone(user: UserRows) -> UserWriteState:
    """`lock_user` for a user who need not exist yet: `enter_user` is part of it.

    Raises:
        WrongState: The user was erased.
        Conflict: The user is being imported.
    """
    state = await _entered(user, _LOCK)
    refuse_while_imported(state)
    return state


async def lock_all(connection: Connection, scopes: Iterable[Scope]) -> None:
    """`lock_user` for those of several users who exist, with the maintenance role.

    It must be the first statement about any of them in its transaction: no transaction may wait for
    one while holding another, unless in the same order.
    """
    ordered = sorted({(scope.tenant_id, scope.user_id) for scope in scopes})
    raised = {"leap": leap()}
    await connection.later_for_each(_RAISE, [Scope(*each).bind(**raised) for each in ordered])


async def lock_alone(user: UserRows) -> UserWriteState:
    """Become the only transaction about this user at all, until it ends.

    It must be the first statement about the user in its transaction.

    Raises:
        WrongState: The user was erased.
    """
    state = await _entered(user, _LOCK_ALONE)
    await user.later(_RAISE, leap=leap())
    return state


async def note_key(user: UserRows, key_id: str) -> None:
    """Seal what is written from now on with this key only. The caller holds the row."""
    await user.later(_NOTE_KEY, key_id=key_id)


async def leave_to_seal(user: UserRows) -> None:
    """Let the sweep look for text of this user that is still in clear. The caller holds the row."""
    await user.later(_LEAVE_TO_SEAL)


async def read_user(user: UserRows) -> UserWriteState | None:
    """The user's present state, without a lock: for decisions that a later lock confirms."""
    return await _state(user, _READ)


async def encryption_of(user: UserRows) -> Encryption:
    """What the user decided about encryption, read once in a transaction."""
    if user.encryption is None:
        await read_user(user)
    assert user.encryption is not None
    return user.encryption


async def refuse_erased(user: UserRows) -> None:
    """Continue only if the user, known or not, is neither erased nor being erased; without a lock.

    Raises:
        WrongState: The user was erased.
    """
    state = await read_user(user)
    if state is None:
        await erased.refuse_erased(user)
    elif state.erased:
        raise erased.was_erased(user.scope)


async def is_erased(user: UserRows) -> bool:
    """Whether the user was erased, or is being erased; False where that cannot be determined."""
    state = await read_user(user)
    return await erased.is_marked(user) if state is None else state.erased


async def database_now(connection: Connection) -> datetime:
    """The database's present time."""
    moment: datetime = await connection.fetch_value(_NOW, ())
    return moment


def leap() -> int:
    """The step by which a revision grows, which no other history of the user repeats."""
    return 1 + secrets.randbelow(_LARGEST_LEAP)


def refuse_while_imported(state: UserWriteState | None) -> None:
    """Continue only if no import is storing the user.

    What is written between the groups of an import would take the place of records that follow.

    Raises:
        Conflict: One is. A job waits without an attempt less.
    """
    if state is not None and state.importing:
        raise Conflict(
            "the user is being imported: nothing was written, try again",
            reason="WRITE_CONFLICT",
            retry_after=1.0,
        )


async def _entered(user: UserRows, statement: str) -> UserWriteState:
    """The state that a statement returns, for a user who need not exist yet."""
    state = await _state(user, statement)
    if state is None:
        await enter_user(user)
        state = await _state(user, statement)
    if state is None or state.erased:
        raise erased.was_erased(user.scope)
    return state


async def _state(user: UserRows, statement: str) -> UserWriteState | None:
    row = await user.fetch_row(statement, leap=leap())
    if row is None:
        user.encryption = Encryption(False, None)
        return None
    state = UserWriteState(row[0] is not None, *row[1:])
    user.encryption = Encryption(state.encrypts, state.key_id)
    return state
