"""Removes words told beside memories: quotes of messages, and the reasons of doubts.

For sealed memories, and for every memory of a user with encryption on (`all_of_them`). The role is
hitherto_removal, in a transaction that holds the user's row.
"""

from __future__ import annotations

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

_DROP_REASONS_OF_HISTORY = """
UPDATE history AS h SET before = h.before - 'doubt', after = h.after - 'doubt'
WHERE h.tenant_id = %(tenant_id)s AND h.user_id = %(user_id)s
  AND (h.before #>> '{doubt,reason}' <> '' OR h.after #>> '{doubt,reason}' <> '')
  AND (%(all)s OR h.memory_id IN (
          SELECT memory_id FROM memories
          WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND sealed IS NOT NULL)
       OR h.related_memory_id IN (
          SELECT memory_id FROM memories
          WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND sealed IS NOT NULL))
"""


async def drop_told_words(user: UserRows, *, all_of_them: bool) -> int:
    """Remove quotes and reasons in clear; returns the number of rows."""
    changed = 0
    for statement in (
        _DROP_QUOTES,
        _DROP_REASONS,
        _DROP_REASONS_OF_VERSIONS,
        _DROP_REASONS_OF_HISTORY,
    ):
        changed += (await user.execute(statement, all=all_of_them)).rowcount
    return changed
