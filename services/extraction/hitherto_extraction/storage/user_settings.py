"""Users' settings about memory; a column that is NULL follows the installation's default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from psycopg.rows import dict_row

from hitherto_shared.database.pool import Connection
from hitherto_shared.models import Scope

# An erased user has no settings.
_READ = """
SELECT memory_enabled, learning_enabled, retention_days, message_retention_days, encrypt_sensitive,
       time_zone
FROM users
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND erased_at IS NULL
"""

_WRITE = """
UPDATE users
SET memory_enabled = %(memory_enabled)s, learning_enabled = %(learning_enabled)s,
    retention_days = %(retention_days)s, message_retention_days = %(message_retention_days)s,
    encrypt_sensitive = %(encrypt_sensitive)s, time_zone = %(time_zone)s
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""


async def read(connection: Connection, scope: Scope) -> dict[str, Any]:
    """The user's settings, by column; None, or absent, follows the installation."""
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(_READ, scope.parameters)
        return await cursor.fetchone() or {}


async def write(connection: Connection, scope: Scope, settings: Mapping[str, Any]) -> None:
    """Set every column. The caller holds the user's row."""
    await connection.execute(_WRITE, scope.bind(**settings))
