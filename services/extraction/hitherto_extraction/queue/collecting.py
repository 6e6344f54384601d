"""The waiting job of a user that collects what changes, and what of the user's goes before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from psycopg.types.json import Jsonb

from hitherto_shared.database.user_rows import UserRows

# A waiting job takes up what changes until it is full, and is delayed like an open extraction: by
# each change, but never beyond ten times the delay. The queue is a local table.
_ADD = """
UPDATE jobs
SET params = params || jsonb_build_object(
        'changed', (params -> 'changed') || %(changed)s,
        'reached', coalesce(params -> 'reached', '[]') || %(reached)s),
    run_after = CASE WHEN state = 'queued'
        THEN least(created_at + make_interval(secs => 10 * %(delay)s),
                   clock_timestamp() + make_interval(secs => %(delay)s))
        ELSE run_after END
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND job_id = (
        SELECT job_id FROM jobs
        WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
          AND state IN ('queued', 'failed') AND kind = 'reconciliation'
          AND jsonb_array_length(params -> 'changed') < %(full)s
        ORDER BY sequence_no
        LIMIT 1)
  AND state IN ('queued', 'failed')
RETURNING job_id
"""

# Whether the first of the user's transcripts and documents could be read now: others wait for it.
_READING_WAITS = """
SELECT run_after <= clock_timestamp()
FROM jobs
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND state IN ('queued', 'failed', 'running')
  AND kind IN ('memory-extraction', 'document-ingestion')
ORDER BY sequence_no
LIMIT 1
"""


async def add_to_waiting(
    user: UserRows, added: Mapping[str, Sequence[str]], *, delay_seconds: float, full: int
) -> bool:
    """Let the user's waiting job look at these memories too; False if there is none with room."""
    ids = {name: Jsonb(each) for name, each in added.items()}
    found = await user.fetch_value(_ADD, **ids, delay=delay_seconds, full=full)
    return found is not None


async def reading_waits(user: UserRows) -> bool:
    """Whether messages or documents of the user are about to be read."""
    return bool(await user.fetch_value(_READING_WAITS))
