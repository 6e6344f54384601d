"""A user's say in being remembered (H1): what is in force, and changing it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from hitherto_extraction.storage import erased, user_settings, users
from hitherto_extraction.storage import sealing as sealed_storage
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.encryption.failures import EncryptionNotConfigured
from hitherto_shared.encryption.sealed import UserKey
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.errors import Conflict, WrongState
from hitherto_shared.models import Scope


@dataclass(frozen=True, slots=True)
class UserSettings:
    """The settings in force for a user, or those of an installation for users who chose nothing.

    Attributes:
        memory_enabled: False: nothing is read and nothing is learnt.
        learning_enabled: False: nothing is extracted; what is saved by hand still counts.
        retention_days: After how many days without use a memory goes; 0: never.
        message_retention_days: After how many days messages go; 0: never.
        encrypt_sensitive: Whether sensitive text is stored encrypted.
        time_zone: IANA name, in which relative dates are meant.
    """

    memory_enabled: bool = True
    learning_enabled: bool = True
    retention_days: int = 0
    message_retention_days: int = 0
    encrypt_sensitive: bool = False
    time_zone: str = "UTC"


NAMES = tuple(field.name for field in fields(UserSettings))


@dataclass(frozen=True, slots=True)
class Sealing:
    """A user's key, which is on the disk, and what tells whether it still is."""

    keys: UserKeys
    key: UserKey


async def prepare_sealing(
    database: Database, scope: Scope, keys: UserKeys, *, seconds: float
) -> Sealing:
    """Make the key of a user whose sensitive text is to be encrypted from now on.

    Before the transaction that turns it on, since a key-management service may be slow.

    Args:
        database: Where to ask whether the user was erased.
        scope: Whose key.
        keys: What makes it.
        seconds: How long asking may take.

    Raises:
        EncryptionNotConfigured: There is no key-encryption key.
        KeyUnavailable: There is a key already, which does not open; or there is none any more, and
            something that it sealed is still there.
        KeyServiceUnavailable: A key-management service did not answer.
        WrongState: The user was erased, before this or meanwhile: such a one keeps no key.
    """
    if not keys.configured:
        raise EncryptionNotConfigured

    async def look(connection: Connection) -> bool:
        await users.refuse_erased(connection, scope)
        return await sealed_storage.has_sealed(connection, scope)

    if await database.run(look, timeout=seconds):
        # With another key nothing of that could be read or compared.
        return Sealing(keys, await keys.open(scope.tenant_id, scope.user_id))
    key = await keys.make(scope.tenant_id, scope.user_id)
    await database.run(
        lambda connection: _take_back_if_erased(connection, scope, keys), timeout=seconds
    )
    return Sealing(keys, key)


async def _take_back_if_erased(connection: Connection, scope: Scope, keys: UserKeys) -> None:
    """Erase a key that was made while the user was erased; whoever erases later does it too.

    Raises:
        WrongState: The user was erased.
    """
    async with connection.transaction():
        # Nobody is reinstated meanwhile, whose key may be new.
        await erased.keep_all_out(connection, scope)
        try:
            await users.refuse_erased(connection, scope)
        except WrongState:
            await keys.erase(scope.tenant_id, scope.user_id)
            raise


async def read_settings(
    connection: Connection, scope: Scope, installation: UserSettings
) -> UserSettings:
    """What is in force for a user; for somebody nobody knows, what holds for everybody."""
    chosen = await user_settings.read(connection, scope)
    return replace(
        installation, **{name: value for name, value in chosen.items() if value is not None}
    )


async def change_settings(
    connection: Connection,
    scope: Scope,
    values: Mapping[str, Any],
    names: Collection[str],
    installation: UserSettings,
    sealing: Sealing | None = None,
) -> UserSettings:
    """Change the settings `names` to their `values`, and return what is in force then.

    One that `values` lacks goes back to the installation's. It holds from the commit on: each
    worker asks again, under the lock that is taken here, before it writes what it learnt.

    Args:
        connection: In a transaction of its own.
        scope: Whose.
        values: The new values by name.
        names: What to change.
        installation: What holds for users who chose nothing.
        sealing: What encryption is turned on with; None if it is not.

    Raises:
        WrongState: The user was erased.
        Conflict: The user's key was erased meanwhile.
    """
    if sealing is None:
        await users.enter_user(connection, scope)
        await users.lock_user(connection, scope)
    else:
        # Who has read that nothing is to be sealed must have committed, for the sweep to see it.
        await users.lock_alone(connection, scope)
        if not await sealing.keys.stands(sealing.key):
            raise Conflict(
                "the user's key was erased while encryption was being turned on: retry the call",
                reason="WRITE_CONFLICT",
                retry_after=1.0,
            )
        await users.note_key(connection, scope, sealing.key.key_id)
        await users.leave_to_seal(connection, scope)
    await user_settings.write(connection, scope, values, names)
    return await read_settings(connection, scope, installation)
