"""Deliveries of changes to webhooks: claimed with a lease, settled by the attempt that held it.

The role is hitherto_maintenance for statements across users, else hitherto_write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from hitherto_shared.changes import ToldChange
from hitherto_shared.database.arrays import Integers, Texts, Uuids, fields_of, records
from hitherto_shared.database.pool import Connection

# Across users.
_INSERT = """
INSERT INTO webhook_deliveries (tenant_id, user_id, delivery_id, webhook_id, change_no)
SELECT new.tenant_id, new.user_id, new.delivery_id, new.webhook_id, new.change_no
FROM json_populate_recordset(NULL::webhook_deliveries, %(rows)s) AS new
"""

# Across users. In turns: the tenants with the fewest requests on their way come first, of each the
# webhooks with the fewest, and of each of these what waited longest, so that no tenant or receiver
# takes the place of others.
_CLAIM = """
WITH waiting AS MATERIALIZED (
    SELECT next.tenant_id, next.user_id, next.delivery_id, next.next_attempt_at, w.of_tenant,
           w.sending + row_number() OVER (
               PARTITION BY w.tenant_id, w.webhook_id ORDER BY next.next_attempt_at) AS round
    FROM unnest(%(tenant_ids)s::text[], %(webhook_ids)s::uuid[], %(sending)s::int[],
                %(of_tenants)s::int[]) AS w (tenant_id, webhook_id, sending, of_tenant)
    CROSS JOIN LATERAL (
        SELECT d.tenant_id, d.user_id, d.delivery_id, d.next_attempt_at
        FROM webhook_deliveries AS d
        WHERE d.tenant_id = w.tenant_id AND d.webhook_id = w.webhook_id AND d.state = 'pending'
          AND d.next_attempt_at <= statement_timestamp()
        ORDER BY d.next_attempt_at
        LIMIT greatest(%(of_each)s - w.sending, 0)
        FOR UPDATE SKIP LOCKED
    ) AS next
),
turns AS (
    SELECT tenant_id, user_id, delivery_id, next_attempt_at,
           of_tenant + row_number() OVER (
               PARTITION BY tenant_id ORDER BY round, next_attempt_at) AS turn
    FROM waiting
),
due AS MATERIALIZED (
    SELECT tenant_id, user_id, delivery_id
    FROM turns
    WHERE turn <= %(of_each_tenant)s
    ORDER BY turn, next_attempt_at
    LIMIT %(limit)s
)
UPDATE webhook_deliveries AS d
SET attempts = d.attempts + 1,
    next_attempt_at = statement_timestamp() + make_interval(secs => %(lease_seconds)s)
FROM due, memory_changes AS c
WHERE d.tenant_id = due.tenant_id AND d.user_id = due.user_id AND d.delivery_id = due.delivery_id
  AND c.tenant_id = d.tenant_id AND c.user_id = d.user_id AND c.change_no = d.change_no
RETURNING d.tenant_id, d.delivery_id, d.webhook_id, d.attempts, d.user_id, c.position,
          c.memory_id, c.action, c.version, c.old_status, c.new_status, c.related_memory_id,
          c.job_id, c.recorded_at
"""

# Across users. Of somebody erased nothing is told: their deliveries go with everything else.
_ERASED = """
SELECT tenant_id, user_id FROM users
WHERE tenant_id = ANY(%(tenant_ids)s::text[]) AND user_id = ANY(%(user_ids)s::text[])
  AND erased_at IS NOT NULL
"""

# Across users, by the attempt that held the lease: a later one decides by itself.
_SETTLE = """
UPDATE webhook_deliveries
SET state = %(state)s,
    next_attempt_at = clock.at + make_interval(secs => %(wait_seconds)s::float8),
    finished_at = CASE WHEN %(wait_seconds)s::float8 IS NULL THEN clock.at END,
    last_status = %(status)s, last_error = %(error)s
FROM @clock AS clock
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND delivery_id = %(delivery_id)s
  AND attempts = %(attempts)s AND state = 'pending'
"""

_PAGE = """
SELECT d.delivery_id, d.webhook_id, d.state, d.attempts, d.next_attempt_at, d.last_status,
       d.last_error, d.created_at, d.finished_at, d.user_id, c.position, c.memory_id, c.action,
       c.version, c.old_status, c.new_status, c.related_memory_id, c.job_id, c.recorded_at
FROM webhook_deliveries AS d
JOIN memory_changes AS c ON c.tenant_id = d.tenant_id AND c.user_id = d.user_id
     AND c.change_no = d.change_no
WHERE d.tenant_id = %(tenant_id)s
  AND (%(webhook_id)s::uuid IS NULL OR d.webhook_id = %(webhook_id)s::uuid)
  AND (%(state)s::text IS NULL OR d.state = %(state)s::text)
  AND (%(after)s::uuid IS NULL OR d.delivery_id < %(after)s::uuid)
ORDER BY d.delivery_id DESC
LIMIT %(limit)s
"""

_WEBHOOK_OF = """
SELECT webhook_id FROM webhook_deliveries
WHERE tenant_id = %(tenant_id)s AND delivery_id = %(delivery_id)s
"""

_RETRY = """
UPDATE webhook_deliveries
SET state = 'pending', attempts = 0, next_attempt_at = statement_timestamp(), finished_at = NULL
WHERE tenant_id = %(tenant_id)s AND delivery_id = %(delivery_id)s
"""

_RETRY_DEAD = """
UPDATE webhook_deliveries
SET state = 'pending', attempts = 0, next_attempt_at = statement_timestamp(), finished_at = NULL
WHERE tenant_id = %(tenant_id)s AND webhook_id = %(webhook_id)s AND state = 'dead'
"""

_OF_CHANGE = 10
"""The number of columns of a change at the end of a row."""


@dataclass(frozen=True, slots=True)
class NewDelivery:
    """A change that a webhook receives."""

    tenant_id: str
    user_id: str
    delivery_id: UUID
    webhook_id: UUID
    change_no: int


@dataclass(frozen=True, slots=True)
class ClaimedDelivery:
    """A delivery to be sent by this process, until its lease ends."""

    tenant_id: str
    delivery_id: UUID
    webhook_id: UUID
    attempts: int
    change: ToldChange

    @property
    def key(self) -> dict[str, Any]:
        """What identifies this attempt."""
        return {
            "tenant_id": self.tenant_id,
            "user_id": self.change.user_id,
            "delivery_id": self.delivery_id,
            "attempts": self.attempts,
        }


@dataclass(frozen=True, slots=True)
class StoredDelivery:
    """A delivery as callers see it."""

    delivery_id: UUID
    webhook_id: UUID
    state: str
    attempts: int
    next_attempt_at: datetime | None
    last_status: int
    last_error: str
    created_at: datetime
    finished_at: datetime | None
    change: ToldChange


async def insert(connection: Connection, new: Sequence[NewDelivery]) -> None:
    """Store deliveries that are due at once."""
    if new:
        await connection.later(_INSERT, {"rows": records([fields_of(each) for each in new])})


async def claim(
    connection: Connection,
    sending: Mapping[tuple[str, UUID], int],
    of_tenants: Mapping[str, int],
    *,
    limit: int,
    of_each: int,
    of_each_tenant: int,
    lease_seconds: float,
) -> list[ClaimedDelivery]:
    """Claim deliveries that are due.

    `sending` and `of_tenants` count the requests on their way, by webhook and by tenant. At most
    `limit` deliveries are claimed, `of_each` for one webhook, `of_each_tenant` for one tenant.
    """
    values = {
        "tenant_ids": Texts(tenant_id for tenant_id, _ in sending),
        "webhook_ids": Uuids(webhook_id for _, webhook_id in sending),
        "sending": Integers(sending.values()),
        "of_tenants": Integers(of_tenants[tenant_id] for tenant_id, _ in sending),
        "limit": limit,
        "of_each": of_each,
        "of_each_tenant": of_each_tenant,
        "lease_seconds": lease_seconds,
    }
    while rows := await connection.fetch_rows(_CLAIM, values):
        claimed = [ClaimedDelivery(*_with_change(row)) for row in rows]
        erased = await _erased(connection, claimed)
        told = [each for each in claimed if (each.tenant_id, each.change.user_id) not in erased]
        if told:
            return told
    return []


async def _erased(
    connection: Connection, claimed: Sequence[ClaimedDelivery]
) -> set[tuple[str, str]]:
    values = {
        "tenant_ids": Texts({each.tenant_id for each in claimed}),
        "user_ids": Texts({each.change.user_id for each in claimed}),
    }
    return {(row[0], row[1]) for row in await connection.fetch_rows(_ERASED, values)}


async def settle(
    connection: Connection,
    delivery: ClaimedDelivery,
    *,
    status: int,
    error: str,
    wait_seconds: float | None,
) -> bool:
    """Record how an attempt ended; False if the delivery is not this attempt's any more.

    Without an error it arrived. Else it is tried again after `wait_seconds`; None: never.
    """
    failed = "dead" if wait_seconds is None else "pending"
    state = failed if error else "delivered"
    values = {**delivery.key, "state": state, "status": status, "error": error}
    settled = await connection.execute(_SETTLE, {**values, "wait_seconds": wait_seconds})
    return settled.rowcount > 0


async def page(
    connection: Connection,
    tenant_id: str,
    *,
    webhook_id: UUID | None,
    state: str | None,
    after: str | None,
    limit: int,
) -> list[StoredDelivery]:
    """The next deliveries before one, newest first."""
    values = {
        "tenant_id": tenant_id,
        "webhook_id": webhook_id,
        "state": state,
        "after": after,
        "limit": limit,
    }
    rows = await connection.fetch_rows(_PAGE, values)
    return [StoredDelivery(*_with_change(row)) for row in rows]


async def webhook_of(connection: Connection, tenant_id: str, delivery_id: UUID) -> UUID | None:
    """The webhook of a delivery; None if there is no such delivery."""
    found: UUID | None = await connection.fetch_value(
        _WEBHOOK_OF, {"tenant_id": tenant_id, "delivery_id": delivery_id}
    )
    return found


async def retry(connection: Connection, tenant_id: str, delivery_id: UUID) -> int:
    """Let a delivery be sent again from its first attempt on."""
    values = {"tenant_id": tenant_id, "delivery_id": delivery_id}
    return (await connection.execute(_RETRY, values)).rowcount


async def retry_dead(connection: Connection, tenant_id: str, webhook_id: UUID) -> int:
    """Let all dead deliveries of a webhook be sent again; returns how many."""
    values = {"tenant_id": tenant_id, "webhook_id": webhook_id}
    return (await connection.execute(_RETRY_DEAD, values)).rowcount


def _with_change(row: Sequence[Any]) -> list[Any]:
    """A row whose last columns are those of the change, as one value."""
    return [*row[:-_OF_CHANGE], ToldChange(*row[-_OF_CHANGE:])]
