"""What operators and users see of their data: upkeep, cost, settings, exports, changes, health."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from hitherto_client.results.jobs import Job, Usage
from hitherto_client.results.memories import Memory
from hitherto_client.words import (
    HistoryEventKind,
    MemoryStatus,
    SecretHandling,
    WebhookDeliveryState,
)


@dataclass(frozen=True, slots=True)
class UserSettings:
    """The effective settings of a user."""

    memory_enabled: bool
    """False: nothing is read or learnt about the user."""
    learning_enabled: bool
    """False: nothing is learnt from conversations, which are still stored and searched."""
    retention_days: int
    """Days after which an unused memory is removed; 0 for never."""
    message_retention_days: int
    """Days after which messages are removed; 0 for never."""
    encrypt_sensitive: bool
    """True: texts are stored encrypted with a key of the user's own."""
    time_zone: str
    """The IANA time zone of relative dates such as "tomorrow"."""
    redact_secrets: SecretHandling
    """What happens to keys, tokens, passwords and card numbers before anything is stored."""
    erased: bool = False
    """True: everything was erased, and nothing is stored until `reinstate_user`."""


@dataclass(frozen=True, slots=True)
class EraseReceipt:
    """The signed proof that a user was erased; `hitherto receipt verify` checks it."""

    id: str
    user_hash: str
    """A keyed hash of the user's id."""
    erased_at: datetime | None
    counts: dict[str, int]
    """Removed rows by table."""
    signed_payload: str
    signature: bytes
    key_id: str


@dataclass(frozen=True, slots=True)
class ExportManifest:
    """What an export holds; the client has compared the data with it."""

    user_id: str
    created_at: datetime | None
    counts: dict[str, int]
    """Lines by table."""
    total_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ImportedUser:
    """What an import of an export stored, by table."""

    imported_counts: dict[str, int]
    """Records that were stored."""
    skipped_counts: dict[str, int]
    """Records that the user held already."""
    left_out_counts: dict[str, int]
    """Records that are never imported, such as jobs and audit entries, or were lost."""


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


@dataclass(frozen=True, slots=True)
class UpkeepStart:
    """Upkeep that was started, or with `dry_run` only counted."""

    job: Job | None
    """The job that does it; after a dry run, one that has ended and changed nothing."""
    counts: dict[str, int]
    """The work to do, by name; empty if the upkeep is for all users and no dry run."""


@dataclass(frozen=True, slots=True)
class Reembedding:
    """How far a change of the embedding model is."""

    job: Job | None
    """The job that embeds; None if there is none."""
    active_model: str
    """The model that reads use."""
    active_dimensions: int
    target_model: str
    """The model that everything is being embedded with; empty if there is none."""
    target_dimensions: int
    embedded_count: int
    """Texts with a vector of the target model; 0, like `pending_count`, if a step other than
    `status` is done but counting them took too long."""
    pending_count: int
    """Texts without one."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Upkeep that runs by itself."""

    name: str
    """`audit`, `consolidation`, `decay`, `idle` or `retention`."""
    cron: str
    """The cron expression in UTC, or `off`."""
    last_run_at: datetime | None
    next_run_at: datetime | None
    last_job_id: str


@dataclass(frozen=True, slots=True)
class UsageRow:
    """The cost of one group; what was not grouped by is empty."""

    user_id: str
    kind: str
    """The kind of work: a job's, or `preview`, `memory-saving`, `search` and so on."""
    day: str
    """The day in UTC, as `YYYY-MM-DD`."""
    model: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class UsageReport:
    """What work cost."""

    rows: tuple[UsageRow, ...]
    """One page of them, the latest day first."""
    next_page_token: str
    """For the next page; empty if this is the last one."""
    total: Usage
    """The sum over all pages."""
    daily_budget_usd: float
    """What one day may cost; 0 if there is no budget."""
    spent_today_usd: float
    """What has been spent since midnight UTC."""


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One entry of the audit log; it holds ids and hashes and never contents."""

    id: str
    created_at: datetime | None
    actor: str
    """The name of the credential; `extraction` for jobs."""
    method: str
    """The RPC, such as `/hitherto.v1.PrivacyService/EraseUser`, or a maintenance job."""
    user_hash: str
    """A keyed hash of the user's id; empty if it is about none or all of them."""
    resource_ids: tuple[str, ...]
    count: int
    """The number of reads that it stands for."""


@dataclass(frozen=True, slots=True)
class Health:
    """How a service answered the standard health check."""

    service: str
    """`retrieval` or `extraction`."""
    address: str
    serving: bool
    status: str
    """`SERVING`, `NOT_SERVING`, `UNKNOWN`, or the gRPC code of the failed check."""
    seconds: float
    """How long the check took."""
    without: tuple[str, ...] = ()
    """What a service that serves lacks for now: `database`, `writes`, `storage` (on its disk),
    `language-model`, `embedder`."""
