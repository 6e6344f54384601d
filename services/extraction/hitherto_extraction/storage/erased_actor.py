"""What an erased person did to others' data stays in their histories; who it was does not.

On the role hitherto_removal. The audit log holds hashes from the start (`hitherto_shared.audit`).
"""

from __future__ import annotations

from hitherto_shared.database.pool import Connection
from hitherto_shared.models import Scope

STAND_IN = "erased"
"""The actor where the credential of an erased person stood."""

# The names of a person's credentials: of tokens the person's id, of keys those of the keys.
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
    """Take the person's name off what was done with the person's credentials.

    It reads the histories of the whole tenant: nothing else looks for an actor, so that an index
    would cost every change more than it saves a rare erasure.
    """
    await connection.execute(
        _UNNAME,
        {**scope.parameters, "stand_in": STAND_IN},
    )
