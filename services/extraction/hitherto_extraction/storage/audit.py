"""Lists the audit log, and stores the digests of its days."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from uuid import UUID

from hitherto_shared.audit.digest import Digest
from hitherto_shared.database.arrays import fields_of
from hitherto_shared.database.audit_log import AuditEvent
from hitherto_shared.database.pool import Connection

SETTLED_MINUTES = 15
"""Minutes after the end of a day until it is signed: everything begun before has been written by
then."""

Place = tuple[datetime, UUID]
"""The position of an entry in the list."""

# Reads of the current hour are listed with the count so far.
_PAGE = """
SELECT event_id, created_at, actor, method, user_hash, resource_ids, count
FROM (
    SELECT tenant_id, event_id, created_at, actor, method, user_hash, resource_ids, count
    FROM audit_events
    UNION ALL
    SELECT tenant_id, event_id, created_at, actor, method, user_hash, '{}'::uuid[], count
    FROM audit_read_counts
) AS entries
WHERE tenant_id = %(tenant_id)s
  AND (%(user_hash)s::text IS NULL OR user_hash = %(user_hash)s)
  AND (%(actors)s::text[] IS NULL OR actor = ANY(%(actors)s))
  AND (%(methods)s::text[] IS NULL OR method = ANY(%(methods)s))
  AND (%(since)s::timestamptz IS NULL OR created_at >= %(since)s)
  AND (%(until)s::timestamptz IS NULL OR created_at < %(until)s)
  AND (%(before_time)s::timestamptz IS NULL
       OR (created_at, event_id) < (%(before_time)s, %(before_id)s::uuid))
ORDER BY created_at DESC, event_id DESC
LIMIT %(limit)s
"""

# Across tenants: the days that have settled, have entries and no digest, the oldest first. The
# entries of each tenant are found by jumping from day to day in the index.
_UNSIGNED = """
WITH RECURSIVE days (tenant_id, day) AS (
    SELECT t.tenant_id,
           (SELECT (min(e.created_at) AT TIME ZONE 'UTC')::date FROM audit_events AS e
            WHERE e.tenant_id = t.tenant_id
              AND e.created_at >= coalesce(
                  (SELECT ((max(d.day) + 1)::timestamp AT TIME ZONE 'UTC') FROM audit_digests AS d
                   WHERE d.tenant_id = t.tenant_id), '-infinity'))
    FROM @tenants_of(audit_events) AS t
    UNION ALL
    SELECT days.tenant_id,
           (SELECT (min(e.created_at) AT TIME ZONE 'UTC')::date FROM audit_events AS e
            WHERE e.tenant_id = days.tenant_id
              AND e.created_at >= (days.day + 1)::timestamp AT TIME ZONE 'UTC')
    FROM days WHERE days.day IS NOT NULL
)
SELECT tenant_id, day FROM days
WHERE day IS NOT NULL
  AND (day + 1)::timestamp AT TIME ZONE 'UTC' + make_interval(mins => %(settled)s)
      <= clock_timestamp()
ORDER BY day, tenant_id
LIMIT %(limit)s
"""

_KEEP = """
INSERT INTO audit_digests (tenant_id, day, count, root, signature, key_id)
VALUES (%(tenant_id)s, %(day)s, %(count)s, %(root)s, %(signature)s, %(key_id)s)
ON CONFLICT (tenant_id, day) DO NOTHING
"""


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which entries to list; None means all."""

    user_hash: str | None = None
    actors: Sequence[str] | None = None
    methods: Sequence[str] | None = None
    since: datetime | None = None
    until: datetime | None = None


async def page(
    connection: Connection, tenant_id: str, wanted: AuditFilter, *, before: Place | None, limit: int
) -> tuple[list[AuditEvent], Place | None]:
    """A page of entries, newest first, and the start of the next one, None after the last."""
    values = {
        "tenant_id": tenant_id,
        **fields_of(wanted),
        "before_time": before[0] if before else None,
        "before_id": before[1] if before else None,
        "limit": limit + 1,
    }
    found = await connection.fetch(AuditEvent, _PAGE, values)
    shown = found[:limit]
    following = None
    if len(found) > limit:
        following = (shown[-1].created_at.astimezone(UTC), shown[-1].event_id)
    return shown, following


async def unsigned_days(connection: Connection, *, limit: int) -> list[tuple[str, date]]:
    """Unsigned days with entries that can be signed, of every tenant, the oldest first."""
    values = {"settled": SETTLED_MINUTES, "limit": limit}
    return list(await connection.fetch_rows(_UNSIGNED, values))


async def keep_digest(connection: Connection, digest: Digest) -> bool:
    """Store a signed day; False if another replica was first."""
    return (await connection.execute(_KEEP, fields_of(digest))).rowcount == 1
