"""Replaces the name of an erased user in other users' histories.

The role is hitherto_removal. The audit log contains hashes from the start
(`hitherto_shared.audit`).
"""

from __future__ import annotations

from hitherto_shared.database.pool import Connection
from hitherto_shared.models import Scope

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


async def unname(connection: Connection, scope: Scope) -> None:
    """Remove the user's name from changes made with the user's credentials.

    It scans the histories of the whole tenant: nothing else searches by actor, so an index would
    cost every change more than it saves a rare erasure.
    """
    await connection.execute(
        _UNNAME,
        {**scope.parameters, "stand_in": STAND_IN},
    )
