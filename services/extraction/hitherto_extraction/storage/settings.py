"""The settings of a user, which stand in the user's row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hitherto_shared.database.user_rows import UserRows

# A column that is NULL follows the default of the installation. An erased user has no settings.
_READ = """
SELECT memory_enabled, learning_enabled, retention_days, message_retention_days, encrypt_sensitive,
       time_zone, redact_secrets
FROM users
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND erased_at IS NULL
"""

# The row is locked, and had no zone.
_TAKE_ZONE = """
UPDATE users SET time_zone = %(time_zone)s
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""

_WRITE = """
UPDATE users
SET memory_enabled = %(memory_enabled)s, learning_enabled = %(learning_enabled)s,
    retention_days = %(retention_days)s, message_retention_days = %(message_retention_days)s,
    encrypt_sensitive = %(encrypt_sensitive)s, time_zone = %(time_zone)s,
    redact_secrets = %(redact_secrets)s
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""


async def read_zone(user: UserRows) -> str:
    """The IANA name of the user's time zone; UTC if none is set."""
    return (await read(user)).get("time_zone") or "UTC"


async def read(user: UserRows) -> dict[str, Any]:
    """The user's settings, by column; None, or absent, follows the installation."""
    return next(iter((await user.execute(_READ)).dicts()), {})


async def write(user: UserRows, settings: Mapping[str, Any]) -> None:
    """Set every column. The caller holds the user's row."""
    await user.execute(_WRITE, **settings)


async def take_zone(user: UserRows, time_zone: str) -> None:
    """Set the zone of a user who has none. The caller holds the row."""
    await user.later(_TAKE_ZONE, time_zone=time_zone)
