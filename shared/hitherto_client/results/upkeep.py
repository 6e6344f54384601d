"""What operators see: upkeep and when it runs, what work costs, and the health of the services."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from hitherto_client.results.jobs import Job, Usage


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
