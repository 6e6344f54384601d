"""Builds the handlers of each gRPC service with their dependencies."""

from __future__ import annotations

from hitherto_extraction.curation.clearing import Clearing
from hitherto_extraction.curation.erasing import Erasing
from hitherto_extraction.curation.exporting import Exporting
from hitherto_extraction.curation.saving import Saving
from hitherto_extraction.curation.user_settings import UserSettings
from hitherto_extraction.documents.ingest import IngestRules
from hitherto_extraction.handlers.answering import Answering
from hitherto_extraction.handlers.documents import DocumentDependencies
from hitherto_extraction.handlers.extraction import ExtractionHandlers
from hitherto_extraction.handlers.maintenance import MaintenanceHandlers
from hitherto_extraction.handlers.privacy import PrivacyHandlers
from hitherto_extraction.handlers.reembedding import ReembeddingDependencies
from hitherto_extraction.handlers.services import MemoryHandlers, servicers
from hitherto_extraction.handlers.sessions import SessionHandlers
from hitherto_extraction.handlers.upkeep import UpkeepOnDemand
from hitherto_extraction.pipeline.embedding_charges import ChargedEmbedder
from hitherto_extraction.pipeline.failed_attempts import UnusableReplies
from hitherto_extraction.pipeline.preview import ExtractionPreview
from hitherto_extraction.restoring.importing import Importing
from hitherto_extraction.sessions import SessionRules
from hitherto_extraction.upkeep.schedules import DECAY, RETENTION
from hitherto_extraction.wiring.base import Base
from hitherto_extraction.wiring.work import BackgroundWork, crowding
from hitherto_shared.consistency import ConsistencyTokens
from hitherto_shared.paging import PageTokens
from hitherto_shared.rpc.server import Servicer
from hitherto_shared.startup import load_installation_signer


def build_servicers(base: Base, work: BackgroundWork) -> list[Servicer]:
    """The handlers of all services."""
    settings, databases = base.settings, base.databases
    answering = Answering(
        databases.write,
        ConsistencyTokens(base.secret),
        base.audit.trail,
        base.audit.reads,
        base.keys,
    )
    pages = PageTokens(base.secret)
    saving = Saving(
        base.dedupe_threshold,
        memory_enabled=settings.memory_enabled,
        max_attempts=settings.max_attempts,
        crowding=crowding(base),
    )
    vectors = ChargedEmbedder(databases.write, base.embedder, base.money.prices, base.money.budget)
    return servicers(
        _extraction(base, work, answering, pages),
        MemoryHandlers(answering, saving, vectors, base.signals),
        SessionHandlers(
            answering,
            SessionRules(
                context_seconds=settings.ttl_session,
                recent_seconds=settings.ttl_recent,
                memory_enabled=settings.memory_enabled,
            ),
        ),
        _maintenance(base, work, answering, pages),
        _privacy(base, work, answering, pages),
    )


def _extraction(
    base: Base, work: BackgroundWork, answering: Answering, pages: PageTokens
) -> ExtractionHandlers:
    settings, databases = base.settings, base.databases
    return ExtractionHandlers(
        answering,
        work.intake,
        base.signals,
        pages,
        ExtractionPreview(
            databases.write,
            work.extraction,
            work.commit,
            memory_enabled=settings.memory_enabled,
            budget=base.money.budget,
            keys=base.keys,
        ),
        DocumentDependencies(
            databases.removal,
            IngestRules(settings.memory_enabled, settings.max_attempts),
            base.limit,
        ),
    )


def _maintenance(
    base: Base, work: BackgroundWork, answering: Answering, pages: PageTokens
) -> MaintenanceHandlers:
    settings, databases = base.settings, base.databases
    return MaintenanceHandlers(
        answering,
        pages,
        UpkeepOnDemand(
            databases.maintenance,
            {DECAY: work.decay, RETENTION: work.retention},
            work.consolidation,
            max_attempts=settings.max_attempts,
        ),
        work.schedules,
        ReembeddingDependencies(databases.maintenance, base.embedders, settings.max_attempts),
        databases.removal,
        base.money.budget,
    )


def _privacy(
    base: Base, work: BackgroundWork, answering: Answering, pages: PageTokens
) -> PrivacyHandlers:
    settings, databases, trail = base.settings, base.databases, base.audit.trail
    installation = UserSettings(
        memory_enabled=settings.memory_enabled,
        retention_days=work.keep.memory_days,
        message_retention_days=work.keep.message_days,
    )
    return PrivacyHandlers(
        answering,
        databases.removal,
        installation,
        Clearing(
            databases.write,
            databases.removal,
            max_attempts=settings.max_attempts,
            trail=trail,
            keys=base.keys,
        ),
        Erasing(databases.removal, load_installation_signer(settings), trail, base.keys),
        Exporting(databases.exports, trail, UnusableReplies(base.secret), base.keys),
        Importing(databases.write, trail, base.keys, installation, settings.message_vectors),
        pages,
    )
