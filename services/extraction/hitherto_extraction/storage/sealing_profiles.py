"""Seals a user's profile from before encryption was turned on.

The role is hitherto_removal, in a transaction that holds the user's row.
"""

from __future__ import annotations

from hitherto_extraction.storage.profiles import LEARNT
from hitherto_extraction.storage.sealed_rows import seal_rows
from hitherto_shared.database.pool import Connection
from hitherto_shared.encryption.rows import PROFILE, PROFILE_VERSION
from hitherto_shared.models import Scope

_CLEAR = """
SELECT summary, current_projects, preferences, frequent_intents, facts, metadata, said_at, version
FROM profiles
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND sealed IS NULL
"""

_SEAL = """
UPDATE profiles
SET summary = '', current_projects = '{}', preferences = '{}', frequent_intents = '{}',
    facts = '{}', metadata = '{}', said_at = '{}', sealed = %(sealed)s
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

_FIELDS = ("department", "access_level", *LEARNT)


async def seal_standing_profile(connection: Connection, scope: Scope, *, limit: int) -> int:
    """Seal the profile and up to `limit` of its versions, and empty as many entries of its history.

    Returns how many rows were changed; 0: nothing of the profile is in clear.
    """
    cursor = await connection.execute(_EMPTY_HISTORY, scope.bind(fields=list(_FIELDS), limit=limit))
    sealed = await seal_rows(connection, scope, PROFILE, _CLEAR, _SEAL)
    versions = await seal_rows(
        connection, scope, PROFILE_VERSION, _CLEAR_VERSIONS, _SEAL_VERSION, limit=limit
    )
    return len(sealed) + len(versions) + cursor.rowcount
