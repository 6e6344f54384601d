"""Seals a user's profile from before encryption was turned on.

The role is hitherto_removal, in a transaction that holds the user's row.
"""

from __future__ import annotations

from psycopg.types.json import Jsonb

from hitherto_extraction.storage.profiles import EMPTY, SEALED, seal_profile
from hitherto_shared.database.pool import Connection
from hitherto_shared.models import Scope

_CLEAR = """
SELECT summary, current_projects, preferences, frequent_intents, facts, metadata, said_at, version
FROM profiles
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND sealed IS NULL
"""

_SEAL = """
UPDATE profiles
SET summary = %(summary)s, current_projects = %(current_projects)s,
    preferences = %(preferences)s, frequent_intents = %(frequent_intents)s, facts = %(facts)s,
    metadata = %(metadata)s, said_at = %(said_at)s, sealed = %(sealed)s
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""

_CLEAR_VERSIONS = """
SELECT version, profile
FROM profile_versions
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND sealed IS NULL
ORDER BY version
LIMIT %(limit)s
"""

_SEAL_VERSION = """
UPDATE profile_versions SET profile = '{}', sealed = %(sealed)s
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND version = %(version)s
"""

# Keys below a field are the user's words, so only the fields remain of what changed. A reason that
# names no field at all was written by this service.
_EMPTY_HISTORY = """
UPDATE history AS h
SET before = NULL, after = NULL,
    reason = coalesce((
        SELECT string_agg(DISTINCT split_part(changed, '.', 1), ', ')
        FROM unnest(string_to_array(h.reason, ', ')) AS changed
        WHERE split_part(changed, '.', 1) = ANY(%(fields)s)), h.reason)
WHERE h.tenant_id = %(tenant_id)s AND h.user_id = %(user_id)s AND h.event_id IN (
    SELECT event_id FROM history
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id IS NULL
      AND (before IS NOT NULL OR after IS NOT NULL)
    LIMIT %(limit)s)
"""

_FIELDS = ("department", "access_level", *SEALED)


async def seal_standing_profile(connection: Connection, scope: Scope, *, limit: int) -> int:
    """Seal the profile and up to `limit` of its versions, and empty as many entries of its history.

    Args:
        connection: With the role hitherto_removal, in a transaction that holds the user's row.
        scope: The user.
        limit: Maximum rows of each kind.

    Returns:
        How many rows were changed; 0: nothing of the profile is in clear.
    """
    changed = await _seal_profile(connection, scope)
    changed += await _seal_versions(connection, scope, limit)
    cursor = await connection.execute(
        _EMPTY_HISTORY, {**scope.parameters, "fields": list(_FIELDS), "limit": limit}
    )
    return changed + cursor.rowcount


async def _seal_profile(connection: Connection, scope: Scope) -> int:
    cursor = await connection.execute(_CLEAR, scope.parameters)
    row = await cursor.fetchone()
    if row is None:
        return 0
    *values, version = row
    learnt = dict(zip(SEALED, values, strict=True))
    emptied = {
        name: Jsonb(value) if isinstance(value, dict) else value for name, value in EMPTY.items()
    }
    sealed = seal_profile(scope, learnt, version)
    await connection.execute(_SEAL, {**scope.parameters, **emptied, "sealed": sealed})
    return 1


async def _seal_versions(connection: Connection, scope: Scope, limit: int) -> int:
    cursor = await connection.execute(_CLEAR_VERSIONS, {**scope.parameters, "limit": limit})
    rows = await cursor.fetchall()
    for version, content in rows:
        await connection.execute(
            _SEAL_VERSION,
            {
                **scope.parameters,
                "version": version,
                "sealed": seal_profile(scope, content, version),
            },
        )
    return len(rows)
