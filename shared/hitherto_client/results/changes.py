"""Changes of memories as they happen, and the webhooks that they are sent to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from hitherto_client.results.memories import Memory
from hitherto_client.words import HistoryEventKind, MemoryStatus, WebhookDeliveryState


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """One change of a memory or profile."""

    user_id: str
    memory_id: str
    """Empty: the profile changed."""
    kind: HistoryEventKind
    version: int
    """The version that the change produced."""
    previous_status: MemoryStatus
    """`unspecified` if the change did not affect it."""
    status: MemoryStatus
    related_memory_id: str
    """The other memory of a contradiction, merge or achieved goal."""
    job_id: str
    """The job that made it; empty if a caller did."""
    created_at: datetime | None
    memory: Memory | None
    """The memory as it is now, if contents were asked for and can be shown."""


@dataclass(frozen=True, slots=True)
class WatchedChanges:
    """Some changes, in order; none if only the place moved."""

    changes: tuple[MemoryChange, ...]
    token: str
    """Store it once the changes are dealt with: the next watch continues behind it."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """An address that changes are sent to."""

    id: str
    url: str
    user_id: str
    """Empty: everybody's changes are sent."""
    kinds: tuple[HistoryEventKind, ...]
    """Empty: all are sent."""
    include_content: bool
    created_at: datetime | None
    failing_since: datetime | None
    """None unless the last attempt failed."""
    disabled_at: datetime | None
    """None while it is enabled."""
    disabled_reason: str


@dataclass(frozen=True, slots=True)
class NewWebhook:
    """A webhook that was created."""

    webhook: Webhook
    secret: str
    """The key of its signatures, shown this once; empty if the call was a repetition."""


@dataclass(frozen=True, slots=True)
class WebhookDelivery:
    """One change on its way to one webhook."""

    id: str
    webhook_id: str
    change: MemoryChange | None
    state: WebhookDeliveryState
    attempts: int
    next_attempt_at: datetime | None
    last_status: int
    """The HTTP status of the last answer; 0 if there was none."""
    last_error: str
    created_at: datetime | None
    finished_at: datetime | None
