"""A user's say in being remembered (H1): what is in force, and changing it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from recollect_extraction.storage import user_settings, users
from recollect_shared.database.pool import Connection
from recollect_shared.models import Scope


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
) -> UserSettings:
    """Change the settings `names` to their `values`, and return what is in force then.

    One that `values` lacks goes back to the installation's. It holds from the commit on: each
    worker asks again, under the lock that is taken here, before it writes what it learnt.

    Raises:
        WrongState: The user was erased.
    """
    await users.enter_user(connection, scope)
    await users.lock_user(connection, scope)
    await user_settings.write(connection, scope, values, names)
    return await read_settings(connection, scope, installation)
