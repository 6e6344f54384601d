"""Webhooks of a tenant, and what became of them.

The role is hitherto_write, for deletions hitherto_removal, and hitherto_maintenance for statements
across tenants.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from hitherto_shared.changes import told_kind
from hitherto_shared.database.arrays import fields_of
from hitherto_shared.database.pool import Connection

_INSERT = """
INSERT INTO webhooks (tenant_id, user_id, webhook_id, url, secret_token, actions, include_content)
VALUES (%(tenant_id)s, %(user_id)s, %(webhook_id)s, %(url)s, %(secret_token)s, %(actions)s,
        %(include_content)s)
"""

_HOLD = "SELECT pg_advisory_xact_lock(hashtextextended('webhooks of ' || %(tenant_id)s, 0))"

_COUNT = "SELECT count(*) FROM webhooks WHERE tenant_id = %(tenant_id)s"

_PAGE = """
SELECT user_id, webhook_id, url, actions, include_content, created_at, failing_since, disabled_at,
       disabled_reason
FROM webhooks
WHERE tenant_id = %(tenant_id)s
  AND (%(webhook_id)s::uuid IS NULL OR webhook_id = %(webhook_id)s::uuid)
  AND (%(after)s::uuid IS NULL OR webhook_id > %(after)s::uuid)
ORDER BY webhook_id
LIMIT %(limit)s
"""

_DELETE_DELIVERIES = """
DELETE FROM webhook_deliveries
WHERE tenant_id = %(tenant_id)s AND webhook_id = %(webhook_id)s
"""

_DELETE = """
DELETE FROM webhooks WHERE tenant_id = %(tenant_id)s AND webhook_id = %(webhook_id)s
"""

_ENABLE = """
UPDATE webhooks
SET failures = 0, dead = 0, failing_since = NULL, paused_until = NULL, disabled_at = NULL,
    disabled_reason = ''
WHERE tenant_id = %(tenant_id)s AND webhook_id = %(webhook_id)s
"""

# Across tenants. Disabled ones too: what they miss is delivered once they are enabled again.
_WANTED = """
SELECT tenant_id, user_id, webhook_id, actions
FROM webhooks
WHERE tenant_id = ANY(%(tenant_ids)s::text[])
"""

# Across tenants: what may be sent to now.
_OPEN = """
SELECT tenant_id, webhook_id, url, secret_token, include_content
FROM webhooks
WHERE disabled_at IS NULL AND (paused_until IS NULL OR paused_until <= clock_timestamp())
ORDER BY webhook_id
"""

_SUCCEEDED = """
UPDATE webhooks SET failures = 0, dead = 0, failing_since = NULL, paused_until = NULL
WHERE tenant_id = %(tenant_id)s AND webhook_id = %(webhook_id)s AND failures > 0
"""

# It rests longer with every failure, five minutes at most.
_FAILED = """
UPDATE webhooks
SET failures = failures + 1, dead = dead + %(died)s,
    failing_since = coalesce(failing_since, clock_timestamp()),
    paused_until = clock_timestamp()
        + make_interval(secs => least(%(rest_seconds)s * (failures + 1), 300)),
    disabled_at = CASE WHEN disabled_at IS NULL AND (%(gone)s OR dead + %(died)s >= %(most_dead)s)
                       THEN clock_timestamp() ELSE disabled_at END,
    disabled_reason = CASE WHEN disabled_at IS NOT NULL THEN disabled_reason
                           WHEN %(gone)s THEN 'the receiver answered 410 Gone'
                           WHEN dead + %(died)s >= %(most_dead)s
                           THEN 'the last ' || %(most_dead)s || ' deliveries failed for good'
                           ELSE '' END
WHERE tenant_id = %(tenant_id)s AND webhook_id = %(webhook_id)s
RETURNING disabled_reason
"""


@dataclass(frozen=True, slots=True)
class WebhookRow:
    """A webhook to store; `user_id` is empty for changes of everybody."""

    tenant_id: str
    user_id: str
    webhook_id: UUID
    url: str
    secret_token: str
    actions: Sequence[str]
    include_content: bool


@dataclass(frozen=True, slots=True)
class StoredWebhook:
    """A webhook as callers see it: without its secret."""

    user_id: str
    webhook_id: UUID
    url: str
    actions: Sequence[str]
    include_content: bool
    created_at: datetime
    failing_since: datetime | None
    disabled_at: datetime | None
    disabled_reason: str


@dataclass(frozen=True, slots=True)
class WantedChanges:
    """Which changes a webhook receives: of everybody if `user_id` is empty, all without actions."""

    tenant_id: str
    user_id: str
    webhook_id: UUID
    actions: Sequence[str]

    def wants(self, tenant_id: str, user_id: str, action: str) -> bool:
        """Whether it receives such a change."""
        return (
            self.tenant_id == tenant_id
            and self.user_id in ("", user_id)
            and (not self.actions or told_kind(action) in self.actions)
        )


@dataclass(frozen=True, slots=True)
class OpenReceiver:
    """Where and how a webhook is sent to, while it is neither disabled nor resting."""

    tenant_id: str
    webhook_id: UUID
    url: str
    secret_token: str
    include_content: bool


async def count(connection: Connection, tenant_id: str) -> int:
    """How many webhooks the tenant has; until the transaction ends, nobody else adds one."""
    # Counted by a statement of its own, which sees what the previous holder added.
    await connection.execute(_HOLD, {"tenant_id": tenant_id})
    return int(await connection.fetch_value(_COUNT, {"tenant_id": tenant_id}))


async def insert(connection: Connection, webhook: WebhookRow) -> None:
    """Store a webhook."""
    await connection.execute(_INSERT, fields_of(webhook))


async def find(connection: Connection, tenant_id: str, webhook_id: UUID) -> StoredWebhook | None:
    """A webhook of the tenant."""
    values = {"tenant_id": tenant_id, "webhook_id": webhook_id, "after": None, "limit": 1}
    return await connection.fetch_one(StoredWebhook, _PAGE, values)


async def page(
    connection: Connection, tenant_id: str, *, after: str | None, limit: int
) -> list[StoredWebhook]:
    """The next webhooks after one, oldest first."""
    values = {"tenant_id": tenant_id, "webhook_id": None, "after": after, "limit": limit}
    return await connection.fetch(StoredWebhook, _PAGE, values)


async def delete(connection: Connection, tenant_id: str, webhook_id: UUID) -> bool:
    """Delete a webhook with its deliveries; False if there is none."""
    values = {"tenant_id": tenant_id, "webhook_id": webhook_id}
    await connection.execute(_DELETE_DELIVERIES, values)
    return (await connection.execute(_DELETE, values)).rowcount > 0


async def enable(connection: Connection, tenant_id: str, webhook_id: UUID) -> None:
    """Let a webhook be sent to again, as if nothing had failed."""
    await connection.execute(_ENABLE, {"tenant_id": tenant_id, "webhook_id": webhook_id})


async def wanted(connection: Connection, tenant_ids: Collection[str]) -> list[WantedChanges]:
    """What the webhooks of these tenants receive."""
    values = {"tenant_ids": sorted(set(tenant_ids))}
    return await connection.fetch(WantedChanges, _WANTED, values)


async def open_now(connection: Connection) -> list[OpenReceiver]:
    """The webhooks of all tenants that may be sent to now."""
    return await connection.fetch(OpenReceiver, _OPEN, {})


async def note_success(connection: Connection, tenant_id: str, webhook_id: UUID) -> None:
    """Forget the failures of a webhook."""
    await connection.execute(_SUCCEEDED, {"tenant_id": tenant_id, "webhook_id": webhook_id})


async def note_failure(
    connection: Connection,
    tenant_id: str,
    webhook_id: UUID,
    *,
    died: bool,
    gone: bool,
    rest_seconds: float,
    most_dead: int,
) -> str:
    """Let a webhook rest after a failed attempt; returns why it is disabled, empty if it is not.

    `died`: the delivery was given up; `gone`: the receiver says that it is gone for good. It rests
    `rest_seconds` for each failure in a row; `most_dead` deliveries given up in a row disable it.
    """
    values = {
        "tenant_id": tenant_id,
        "webhook_id": webhook_id,
        "died": int(died),
        "gone": gone,
        "rest_seconds": rest_seconds,
        "most_dead": most_dead,
    }
    return str(await connection.fetch_value(_FAILED, values) or "")
