"""Users' settings about memory; a column that is NULL follows the installation's default."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from hitherto_shared.database.pool import Connection
from hitherto_shared.models import Scope

COLUMNS = (
    "memory_enabled",
    "learning_enabled",
    "retention_days",
    "message_retention_days",
    "encrypt_sensitive",
    "time_zone",
)

# An erased user has no settings. The columns in the order of `COLUMNS`.
_READ = """
SELECT memory_enabled, learning_enabled, retention_days, message_retention_days, encrypt_sensitive,
       time_zone
FROM users
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND erased_at IS NULL
"""

# The decision on encryption never becomes undecided again: readers look for sealed items only of
# users who have ever decided on it, and some items may remain sealed.
_WRITE = """
UPDATE users
SET memory_enabled =
        CASE WHEN %(set_memory_enabled)s THEN %(memory_enabled)s ELSE memory_enabled END,
    learning_enabled =
        CASE WHEN %(set_learning_enabled)s THEN %(learning_enabled)s ELSE learning_enabled END,
    retention_days =
        CASE WHEN %(set_retention_days)s THEN %(retention_days)s ELSE retention_days END,
    message_retention_days =
        CASE WHEN %(set_message_retention_days)s THEN %(message_retention_days)s
             ELSE message_retention_days END,
    encrypt_sensitive =
        CASE WHEN %(set_encrypt_sensitive)s
             THEN coalesce(%(encrypt_sensitive)s,
                           CASE WHEN encrypt_sensitive IS NOT NULL THEN false END)
             ELSE encrypt_sensitive END,
    time_zone = CASE WHEN %(set_time_zone)s THEN %(time_zone)s ELSE time_zone END
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""


async def read(connection: Connection, scope: Scope) -> dict[str, Any]:
    """The user's settings, by column; None, or absent, follows the installation."""
    row = await connection.fetch_row(_READ, scope.parameters)
    return {} if row is None else dict(zip(COLUMNS, row, strict=True))


async def write(
    connection: Connection, scope: Scope, values: Mapping[str, Any], names: Collection[str]
) -> None:
    """Set the columns `names`; one that `values` lacks follows the installation again.

    For encryption that means off, which is the default of installations. The caller holds the
    user's row.
    """
    await connection.execute(
        _WRITE,
        scope.bind(
            **{f"set_{column}": column in names for column in COLUMNS},
            **{column: values.get(column) for column in COLUMNS},
        ),
    )
