"""A user's settings about memory (H1): reads the effective ones and changes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from hitherto_extraction.storage import erased, settings, users
from hitherto_extraction.storage import sealing as sealed_storage
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.encryption.failures import EncryptionNotConfigured
from hitherto_shared.encryption.user_key import UserKey
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.errors import Conflict, WrongState
from hitherto_shared.models import Scope


@dataclass(frozen=True, slots=True)
class UserSettings:
    """The effective settings of a user, or those of an installation for users who did not choose.

    Attributes:
        memory_enabled: False: nothing is read and nothing is learnt.
        learning_enabled: False: nothing is extracted; memories can still be saved by hand.
        retention_days: Days without use after which a memory is deleted; 0: never.
        message_retention_days: Days after which messages are deleted; 0: never.
        encrypt_sensitive: Whether sensitive text is stored encrypted.
        time_zone: IANA name of the zone for days and relative dates.
        redact_secrets: What happens to secrets: `redact`, `seal` or `off`.
    """

    memory_enabled: bool = True
    learning_enabled: bool = True
    retention_days: int = 0
    message_retention_days: int = 0
    encrypt_sensitive: bool = False
    time_zone: str = "UTC"
    redact_secrets: str = "redact"


NAMES = tuple(field.name for field in fields(UserSettings))


@dataclass(frozen=True, slots=True)
class Sealing:
    """A user's data key, which is on disk, and a check that it still is."""

    keys: UserKeys
    key: UserKey


async def prepare_sealing(
    database: Database, scope: Scope, keys: UserKeys, *, seconds: float
) -> Sealing:
    """Create the data key of a user before encryption is turned on.

    It must precede the transaction that turns encryption on, because a key-management service may
    be slow. `seconds` limits the look-up of whether the user was erased.

    Raises:
        EncryptionNotConfigured: There is no key-encryption key.
        KeyUnavailable: There is a key already, which does not open; or there is none any more, and
            something that it sealed remains.
        KeyServiceUnavailable: A key-management service did not answer.
        WrongState: The user was erased, before this or meanwhile, and so keeps no key.
    """
    if not keys.configured:
        raise EncryptionNotConfigured

    async def look(connection: Connection) -> bool:
        user = connection.of(scope)
        await users.refuse_erased(user)
        return await sealed_storage.has_sealed(user)

    if await database.run(look, timeout=seconds):
        # With another key, none of it could be read or compared.
        return Sealing(keys, await keys.open(scope.tenant_id, scope.user_id))
    key = await keys.make(scope.tenant_id, scope.user_id)
    await database.transact(
        lambda connection: _take_back_if_erased(connection.of(scope), keys), timeout=seconds
    )
    return Sealing(keys, key)


async def _take_back_if_erased(user: UserRows, keys: UserKeys) -> None:
    """Erase a key that was created while the user was erased, and refuse that user."""
    # Prevents a reinstatement meanwhile, whose key may be new.
    await erased.keep_all_out(user)
    try:
        await users.refuse_erased(user)
    except WrongState:
        await keys.erase(user.scope.tenant_id, user.scope.user_id)
        raise


async def read_settings(user: UserRows, installation: UserSettings) -> UserSettings:
    """The effective settings of a user; for an unknown one, those of the installation."""
    chosen = await settings.read(user)
    return replace(
        installation, **{name: value for name, value in chosen.items() if value is not None}
    )


async def change_settings(
    user: UserRows,
    values: Mapping[str, Any],
    names: Collection[str],
    installation: UserSettings,
    sealing: Sealing | None = None,
) -> UserSettings:
    """Change the settings `names` to their `values`, and return the effective settings.

    A setting that `values` lacks returns to the installation's default. The change is effective
    from the commit on: each worker checks again, under the lock that is taken here, before it
    writes what it learnt. Turning encryption on takes the key for it, `sealing`.

    Raises:
        WrongState: The user was erased, or would have secrets sealed without encryption.
        Conflict: The user's key was erased meanwhile.
    """
    if sealing is None:
        await users.enter_alone(user)
    else:
        # Transactions that have read that nothing is to be sealed must have committed, for the
        # sweep to see their rows.
        await users.lock_alone(user)
        if not await sealing.keys.stands(sealing.key):
            raise Conflict(
                "the user's key was erased while encryption was being turned on: retry the call",
                reason="WRITE_CONFLICT",
                retry_after=1.0,
            )
        await users.note_key(user, sealing.key.key_id)
        await users.leave_to_seal(user)
    before = await settings.read(user)
    after = before | {name: values.get(name) for name in names}
    # The decision on encryption never becomes undecided again: readers look for sealed items only
    # of users who have ever decided on it, and some items may remain sealed.
    if after["encrypt_sensitive"] is None and before["encrypt_sensitive"] is not None:
        after["encrypt_sensitive"] = False
    if after["redact_secrets"] == "seal" and not after["encrypt_sensitive"]:
        raise WrongState(
            "redact_secrets SEAL needs encrypt_sensitive: turn it on in the same call, or choose "
            "REDACT",
            reason="ENCRYPTION_OFF",
            metadata={"user_id": user.scope.user_id},
        )
    await settings.write(user, after)
    return await read_settings(user, installation)
