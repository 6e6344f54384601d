"""Builds the background work of the service: jobs, sweeps and schedules."""

from __future__ import annotations

from functools import partial

from hitherto_extraction.budget import measure_budgets
from hitherto_extraction.consolidation.merge_model import MergeModel
from hitherto_extraction.consolidation.runner import Consolidation
from hitherto_extraction.documents.ingest import KIND as DOCUMENTS
from hitherto_extraction.documents.runner import Ingestion
from hitherto_extraction.intake import Intake
from hitherto_extraction.pipeline.backfill import Backfill
from hitherto_extraction.pipeline.commit import Commit
from hitherto_extraction.pipeline.crowded_tags import Crowding
from hitherto_extraction.pipeline.embedding_charges import charge_queries
from hitherto_extraction.pipeline.extraction import Extraction
from hitherto_extraction.pipeline.extraction_prompt import ExtractionRules
from hitherto_extraction.pipeline.quality_sample import QualitySample
from hitherto_extraction.queue.depth import QueueDepth
from hitherto_extraction.queue.enqueueing import EXTRACTION
from hitherto_extraction.reconciliation.runner import Reconciliation
from hitherto_extraction.reconciliation.trigger import KIND as RECONCILIATION
from hitherto_extraction.reconciliation.trigger import Reconciling
from hitherto_extraction.reembedding.fill import Fill
from hitherto_extraction.reembedding.phases import KIND as REEMBEDDING
from hitherto_extraction.sealing import SealedVectors, SealingSweep
from hitherto_extraction.storage.retention import RetentionDays
from hitherto_extraction.sweeps import SOON_SECONDS, Duty, Scheduler, Sweeps
from hitherto_extraction.telling.delivering import DeliveryLoop, DeliveryRules, read_schedule
from hitherto_extraction.telling.places import PlacingLoop, delete_old_changes
from hitherto_extraction.telling.sending import Sender, WebhookSecrets
from hitherto_extraction.upkeep.audit_digests import HOURS_SECONDS
from hitherto_extraction.upkeep.decay import Decay
from hitherto_extraction.upkeep.retention import Retention
from hitherto_extraction.upkeep.schedules import (
    CONSOLIDATION,
    DECAY,
    IDLE,
    RETENTION,
    Schedules,
    read_schedules,
)
from hitherto_extraction.upkeep.table_statistics import STATISTICS_SECONDS, TableStatistics
from hitherto_extraction.wiring.base import Base
from hitherto_extraction.worker import Worker

_DELAY = 5
"""A reconciliation waits this many times as long as an extraction for more to change."""


class BackgroundWork:
    """The background work, not started yet, and the parts of it that callers use directly."""

    def __init__(self, base: Base) -> None:
        settings, databases = base.settings, base.databases
        self.intake = Intake(
            databases.write,
            base.queue,
            base.trail,
            base.keys,
            memory_enabled=settings.memory_enabled,
            extract_every=settings.extract_every,
            debounce_seconds=settings.extract_debounce_seconds,
            message_vectors=settings.message_vectors,
        )
        self.commit = Commit(
            databases.write,
            memory_enabled=settings.memory_enabled,
            dedupe_threshold=base.dedupe_threshold,
            crowding=crowding(base),
            reconciling=reconciling(base),
            daily_changes=settings.daily_changes,
            planning_seconds=settings.planning_seconds,
        )
        self.extraction = _extraction(base, self.commit)
        self.consolidation = _consolidation(base)
        self.decay = Decay(databases.maintenance, max_memories=settings.max_memories)
        self.keep = RetentionDays(settings.retention_days, settings.message_retention_days)
        self.retention = Retention(databases.removal, self.keep)
        self.statistics = TableStatistics(databases.maintenance)
        sweeps = _sweeps(base, self.intake, self.statistics)
        self.schedules = Schedules(
            databases.maintenance,
            read_schedules(settings.schedule_lines),
            idle=sweeps.queue_idle,
            keep=self.keep,
            queue=base.queue,
            audit=base.digests.sign,
        )
        idle = any(each.name == IDLE and each.cron for each in self.schedules.all)
        self.scheduler = Scheduler(
            self.schedules,
            [*sweeps.at_intervals(idle=idle), (HOURS_SECONDS, base.digests.close_hours)],
        )
        self.worker = self._worker(base)
        self.delivering = _delivering(base)
        self.placing = PlacingLoop(databases.maintenance, base.signals, self.delivering.wake)

    def _worker(self, base: Base) -> Worker:
        """The worker of the queue, with the runner of each kind of job."""
        settings, databases = base.settings, base.databases
        ingestion = Ingestion(
            databases.write,
            base.embedder,
            base.prices,
            base.account,
            memory_enabled=settings.memory_enabled,
            budget=base.budget,
        )
        fill = Fill(databases.maintenance, base.embedders, base.prices, base.budget)
        return Worker(
            databases.maintenance,
            base.signals,
            {
                EXTRACTION: self.extraction.run,
                DOCUMENTS: ingestion.run,
                CONSOLIDATION: self.consolidation.run,
                RECONCILIATION: _reconciliation(base).run,
                DECAY: self.decay.run,
                RETENTION: self.retention.run,
                REEMBEDDING: fill.run,
            },
            base.budget,
            base.trail,
            concurrency=settings.worker_concurrency,
            lease_seconds=settings.lease_seconds,
            backoff_seconds=settings.job_backoff_seconds,
        )


def _delivering(base: Base) -> DeliveryLoop:
    """What sends changes to webhooks."""
    settings, databases = base.settings, base.databases
    timeout = settings.webhook_timeout_seconds
    return DeliveryLoop(
        databases.maintenance,
        databases.write,
        Sender(timeout=timeout, private=settings.webhook_private),
        WebhookSecrets(base.secret),
        DeliveryRules(
            read_schedule(settings.webhook_retry_seconds),
            settings.webhook_disable_after,
            timeout,
            settings.memory_enabled,
        ),
    )


def _reconciliation(base: Base) -> Reconciliation:
    """The runner of `reconciliation` jobs."""
    settings = base.settings
    return Reconciliation(
        base.databases.write,
        base.chat,
        base.prices,
        base.account,
        base.budget,
        base.keys,
        reconciling=reconciling(base),
        memory_enabled=settings.memory_enabled,
        threshold=base.dedupe_threshold,
        daily_changes=settings.daily_changes,
    )


def crowding(base: Base) -> Crowding:
    """Queues a consolidation if a user has many memories with one tag."""
    return Crowding(base.queue, above=base.settings.consolidate_above)


def reconciling(base: Base) -> Reconciling:
    """Queues the reconciliation of what changed; the offline rules cannot do it."""
    settings = base.settings
    return Reconciling(
        base.queue,
        enabled=settings.reconcile and base.chat.extractor != "offline",
        delay_seconds=_DELAY * settings.extract_debounce_seconds,
    )


def _extraction(base: Base, commit: Commit) -> Extraction:
    """The pipeline behind `memory-extraction` jobs."""
    settings = base.settings
    return Extraction(
        base.databases.write,
        base.chat,
        base.embedder,
        commit,
        base.prices,
        ExtractionRules(
            batch_tokens=settings.batch_tokens,
            prompt_memories=settings.prompt_memories,
            message_vectors=settings.message_vectors,
        ),
        base.account,
        base.budget,
        base.keys,
        QualitySample(base.chat.extractor, settings.quality_sample),
    )


def _consolidation(base: Base) -> Consolidation:
    """The runner of `consolidation` jobs."""
    settings = base.settings
    return Consolidation(
        base.databases.maintenance,
        base.databases.write,
        MergeModel(base.chat, base.embedder, base.prices),
        base.account,
        base.budget,
        threshold=base.dedupe_threshold,
        above=settings.consolidate_above,
        memory_enabled=settings.memory_enabled,
    )


def _sweeps(base: Base, intake: Intake, statistics: TableStatistics) -> Sweeps:
    """The duties of the sweeps: idle conversations, statistics, missing vectors, text to seal."""
    settings, databases = base.settings, base.databases
    backfill = Backfill(
        databases.maintenance,
        base.embedder,
        base.prices,
        message_vectors=settings.message_vectors,
        budget=base.budget,
    )
    sealing = SealingSweep(
        databases.maintenance,
        databases.removal,
        base.keys,
        SealedVectors(databases.removal, base.embedder, base.prices, base.budget),
    )
    others = [
        Duty("analysis of tables", STATISTICS_SECONDS, statistics.refresh_one, until_done=True),
        Duty("analysis of shards", SOON_SECONDS, statistics.refresh_shards, until_done=True),
        Duty("vector back-fill", SOON_SECONDS, backfill.run, until_done=True),
        Duty("sealing", SOON_SECONDS, sealing.run),
        Duty(
            "charging of queries",
            SOON_SECONDS,
            partial(charge_queries, databases.maintenance, base.prices),
        ),
        Duty(
            "deletion of old changes",
            600.0,
            partial(delete_old_changes, databases.maintenance, settings.change_days),
            until_done=True,
        ),
    ]
    if settings.metrics_listen:
        others.append(Duty("queue depth", 15.0, QueueDepth(databases.maintenance).measure))
        if settings.daily_budget_usd:
            measure = partial(measure_budgets, databases.maintenance, settings.daily_budget_usd)
            others.append(Duty("measuring of budgets", 60.0, measure))
    return Sweeps(
        databases.maintenance,
        intake,
        databases.removal,
        others,
        idle_minutes=settings.extract_idle_minutes,
    )
