"""The tables of the audit log: append, count reads, close an hour. See `schema/11_access.sql`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from hitherto_shared.database.arrays import Texts, Uuids
from hitherto_shared.database.pool import Connection
from hitherto_shared.identifiers import uuid7

# Ids of resources are joined, because a list of lists of different lengths is not an array.
_APPEND = """
INSERT INTO audit_events (tenant_id, event_id, actor, method, user_hash, resource_ids, count)
SELECT %(tenant_id)s, noted.event_id, %(actor)s, %(method)s, noted.user_hash,
       string_to_array(noted.resource_ids, ',')::uuid[], 1
FROM unnest(%(event_ids)s::uuid[], %(user_hashes)s::text[], %(resource_ids)s::text[])
    AS noted (event_id, user_hash, resource_ids)
"""

# The hour is the database's, at this moment: nothing is ever added to a past one. Rows are locked
# in one order, so that two processes with the same counts never deadlock.
_COUNT = """
INSERT INTO audit_read_counts (tenant_id, hour, actor, method, user_hash, event_id, count)
SELECT %(tenant_id)s, date_trunc('hour', clock_timestamp(), 'UTC'), read.actor, read.method,
       read.user_hash, read.event_id, read.times
FROM unnest(%(actors)s::text[], %(methods)s::text[], %(user_hashes)s::text[],
            %(event_ids)s::uuid[], %(times)s::bigint[])
    AS read (actor, method, user_hash, event_id, times)
ORDER BY read.actor, read.method, read.user_hash
ON CONFLICT (tenant_id, hour, actor, method, user_hash) DO UPDATE
SET count = audit_read_counts.count + EXCLUDED.count
"""

# Across tenants.
_CLOSE_HOURS = """
WITH over AS (
    DELETE FROM audit_read_counts WHERE hour < date_trunc('hour', clock_timestamp(), 'UTC')
    RETURNING tenant_id, event_id, created_at, actor, method, user_hash, count
)
INSERT INTO audit_events
    (tenant_id, event_id, created_at, actor, method, user_hash, resource_ids, count)
SELECT tenant_id, event_id, created_at, actor, method, user_hash, '{}', count FROM over
"""

_BETWEEN = """
SELECT event_id, created_at, actor, method, user_hash, resource_ids, count
FROM audit_events
WHERE tenant_id = %(tenant_id)s AND created_at >= %(begin)s AND created_at < %(end)s
  AND (%(after_id)s::uuid IS NULL OR (created_at, event_id) > (%(begin)s, %(after_id)s::uuid))
ORDER BY created_at, event_id
LIMIT %(limit)s
"""

_PAGE = 5_000


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One entry of the audit log, made at a time of the database's clock.

    `actor` is a credential, or the service for its jobs; `method` an RPC with its path, or the kind
    of the job. `count` is the number of reads that it represents, and 1 for everything else.
    """

    event_id: UUID
    created_at: datetime
    actor: str
    method: str
    user_hash: str
    resource_ids: Sequence[UUID]
    count: int


async def append(
    connection: Connection,
    tenant_id: str,
    *,
    actor: str,
    method: str,
    touched: Sequence[tuple[str, Sequence[UUID]]],
) -> None:
    """Write the entries of one call or job, one for each user concerned, in one statement.

    `connection` is in the transaction of the change, if it is one. `touched` has the hash of each
    user, empty for none, with the resources.
    """
    await connection.later(
        _APPEND,
        {
            "tenant_id": tenant_id,
            "actor": actor,
            "method": method,
            "event_ids": Uuids(uuid7() for _ in touched),
            "user_hashes": Texts(user_hash for user_hash, _ in touched),
            "resource_ids": Texts(",".join(map(str, ids)) for _, ids in touched),
        },
    )


async def count_reads(
    connection: Connection, tenant_id: str, reads: Mapping[tuple[str, str, str], int]
) -> None:
    """Add to the counts of the current hour, by actor, method and hash of the user."""
    await connection.execute(
        _COUNT,
        {
            "tenant_id": tenant_id,
            "actors": [actor for actor, _, _ in reads],
            "methods": [method for _, method, _ in reads],
            "user_hashes": [user_hash for _, _, user_hash in reads],
            "event_ids": [uuid7() for _ in reads],
            "times": list(reads.values()),
        },
    )


async def close_hours(connection: Connection) -> int:
    """Turn the counts of past hours into entries; returns their number.

    The role is hitherto_maintenance. Concurrent runs are safe: each row moves once.
    """
    return (await connection.execute(_CLOSE_HOURS)).rowcount


async def events_between(
    connection: Connection, tenant_id: str, begin: datetime, end: datetime
) -> AsyncIterator[AuditEvent]:
    """The entries from `begin` on and before `end`, in the order of a digest.

    They are read page by page: a day may have more than fit into memory.
    """
    after: UUID | None = None
    while True:
        page = await connection.fetch(
            AuditEvent,
            _BETWEEN,
            {"tenant_id": tenant_id, "begin": begin, "end": end, "after_id": after, "limit": _PAGE},
        )
        for event in page:
            yield event
        if len(page) < _PAGE:
            return
        begin, after = page[-1].created_at, page[-1].event_id
