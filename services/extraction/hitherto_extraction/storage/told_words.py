"""Removes words told beside what is sealed: quotes, the reasons of doubts, and the history.

For sealed memories, and for every memory and the profile of a user with encryption on (`all`). The
role is hitherto_removal, in a transaction that holds the user's row.
"""

from __future__ import annotations

from hitherto_extraction.storage import users
from hitherto_extraction.storage.profiles import LEARNT
from hitherto_shared.database.user_rows import UserRows

_DROP_QUOTES = """
UPDATE memory_sources AS s SET quote = NULL
WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s AND s.quote IS NOT NULL
  AND (%(all)s OR s.memory_id IN (
      SELECT memory_id FROM memories
      WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND sealed IS NOT NULL))
"""

# Also of a memory in clear that a sealed one made uncertain.
_DROP_REASONS = """
UPDATE memories AS m SET doubt = jsonb_set(m.doubt, '{reason}', '""')
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.doubt IS NOT NULL
  AND m.doubt ->> 'reason' <> ''
  AND (%(all)s OR m.sealed IS NOT NULL OR m.doubt ->> 'because' IN (
      SELECT memory_id::text FROM memories
      WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND sealed IS NOT NULL))
"""

_DROP_REASONS_OF_VERSIONS = """
UPDATE memory_versions AS v SET doubt = jsonb_set(v.doubt, '{reason}', '""')
WHERE v.tenant_id = %(tenant_id)s AND v.user_id = %(user_id)s AND v.doubt IS NOT NULL
  AND v.doubt ->> 'reason' <> ''
  AND (%(all)s OR v.sealed IS NOT NULL OR v.doubt ->> 'because' IN (
      SELECT memory_id::text FROM memories
      WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND sealed IS NOT NULL))
"""

# Of what was recorded in clear. The rules' own reasons quote nothing, but cannot be distinguished
# from a person's.
_EMPTY_HISTORY = """
UPDATE history AS h SET before = NULL, after = NULL, reason = ''
WHERE h.tenant_id = %(tenant_id)s AND h.user_id = %(user_id)s AND h.event_id IN (
    SELECT event.event_id
    FROM history AS event
    JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
         AND m.memory_id = event.memory_id
    WHERE event.tenant_id = %(tenant_id)s AND event.user_id = %(user_id)s AND m.sealed IS NOT NULL
      AND (event.before IS NOT NULL OR event.after IS NOT NULL OR event.reason <> '')
    LIMIT %(limit)s)
"""

# Keys below a field are the user's words, so only the fields remain of what changed. A reason that
# names no field was written by this service.
_SHORTEN_PROFILE_HISTORY = """
UPDATE history AS h
SET reason = (
    SELECT string_agg(DISTINCT split_part(changed, '.', 1), ', ')
    FROM unnest(string_to_array(h.reason, ', ')) AS changed
    WHERE split_part(changed, '.', 1) = ANY(%(fields)s))
WHERE h.tenant_id = %(tenant_id)s AND h.user_id = %(user_id)s AND h.event_id IN (
    SELECT event_id FROM history
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id IS NULL AND %(all)s
      AND EXISTS (
          SELECT FROM unnest(string_to_array(reason, ', ')) AS changed
          WHERE strpos(changed, '.') > 0 AND split_part(changed, '.', 1) = ANY(%(fields)s))
    LIMIT %(limit)s)
"""

_FIELDS = ("department", "access_level", *LEARNT)


async def drop_told_words(user: UserRows, *, limit: int) -> int:
    """Remove such words, and up to `limit` of the history's; returns the number of rows."""
    values = {
        "all": (await users.encryption_of(user)).on,
        "fields": list(_FIELDS),
        "limit": limit,
    }
    changed = 0
    for statement in (
        _DROP_QUOTES,
        _DROP_REASONS,
        _DROP_REASONS_OF_VERSIONS,
        _EMPTY_HISTORY,
        _SHORTEN_PROFILE_HISTORY,
    ):
        changed += (await user.execute(statement, **values)).rowcount
    return changed
