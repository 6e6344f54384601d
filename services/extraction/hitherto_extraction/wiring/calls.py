"""Builds the handlers of each gRPC service with their dependencies."""

from __future__ import annotations

from hitherto.v1 import (
    extraction_service_pb2,
    extraction_service_pb2_grpc,
    maintenance_service_pb2,
    maintenance_service_pb2_grpc,
    memory_service_pb2,
    memory_service_pb2_grpc,
    privacy_service_pb2,
    privacy_service_pb2_grpc,
    session_service_pb2,
    session_service_pb2_grpc,
)
from hitherto_extraction.curation.clearing import Clearing
from hitherto_extraction.curation.erasing import Erasing
from hitherto_extraction.curation.exporting import Exporting
from hitherto_extraction.curation.saving import Saving
from hitherto_extraction.curation.user_settings import UserSettings
from hitherto_extraction.handlers.answering import Answering
from hitherto_extraction.handlers.curation import MemoryHandlers
from hitherto_extraction.handlers.extraction import ExtractionHandlers
from hitherto_extraction.handlers.maintenance import MaintenanceHandlers
from hitherto_extraction.handlers.privacy import PrivacyHandlers
from hitherto_extraction.handlers.screening import Screening
from hitherto_extraction.handlers.sessions import SessionHandlers
from hitherto_extraction.handlers.upkeep import UpkeepOnDemand
from hitherto_extraction.pipeline.embedding_charges import ChargedEmbedder
from hitherto_extraction.pipeline.failed_attempts import UnusableReplies
from hitherto_extraction.pipeline.preview import ExtractionPreview
from hitherto_extraction.restoring.importing import Importing
from hitherto_extraction.sessions import SessionRules
from hitherto_extraction.telling.sending import WebhookSecrets
from hitherto_extraction.upkeep.schedules import CONSOLIDATION, DECAY, RETENTION
from hitherto_extraction.wiring.base import Base
from hitherto_extraction.wiring.work import BackgroundWork, crowding, reconciling
from hitherto_shared.consistency import ConsistencyTokens
from hitherto_shared.key_files import load_installation_signer
from hitherto_shared.paging import PageTokens
from hitherto_shared.rpc.server import Servicer


def build_servicers(base: Base, work: BackgroundWork) -> list[Servicer]:
    """Every gRPC service of this process; RPCs of later versions answer UNIMPLEMENTED."""
    answering = Answering(
        base.databases.write,
        base.databases.removal,
        ConsistencyTokens(base.secret),
        PageTokens(base.secret),
        base.trail,
        base.reads,
        base.keys,
        Screening(base.databases.write, base.settings.redact_secrets),
    )
    maintenance = _maintenance(base, work, answering)
    handlers = (
        (extraction_service_pb2, extraction_service_pb2_grpc, _extraction(base, work, answering)),
        (memory_service_pb2, memory_service_pb2_grpc, _memory(base, answering)),
        (session_service_pb2, session_service_pb2_grpc, _sessions(base, answering)),
        (maintenance_service_pb2, maintenance_service_pb2_grpc, maintenance),
        (privacy_service_pb2, privacy_service_pb2_grpc, _privacy(base, work, answering)),
    )
    return [
        Servicer(service, made, getattr(grpc, f"add_{name}Servicer_to_server"))
        for pb2, grpc, made in handlers
        for name, service in pb2.DESCRIPTOR.services_by_name.items()
    ]


def _extraction(base: Base, work: BackgroundWork, answering: Answering) -> ExtractionHandlers:
    settings, databases = base.settings, base.databases
    return ExtractionHandlers(
        answering,
        work.intake,
        base.signals,
        ExtractionPreview(
            databases.write,
            work.extraction,
            work.commit,
            memory_enabled=settings.memory_enabled,
            budget=base.budget,
            keys=base.keys,
        ),
        base.queue,
        settings.memory_enabled,
    )


def _memory(base: Base, answering: Answering) -> MemoryHandlers:
    settings, write = base.settings, base.databases.write
    saving = Saving(
        base.dedupe_threshold,
        memory_enabled=settings.memory_enabled,
        reconciling=reconciling(base),
        crowding=crowding(base),
    )
    vectors = ChargedEmbedder(write, base.embedder, base.prices, base.budget)
    return MemoryHandlers(answering, saving, vectors, base.signals)


def _sessions(base: Base, answering: Answering) -> SessionHandlers:
    settings = base.settings
    rules = SessionRules(
        context_seconds=settings.ttl_session,
        recent_seconds=settings.ttl_recent,
        memory_enabled=settings.memory_enabled,
    )
    return SessionHandlers(answering, rules)


def _maintenance(base: Base, work: BackgroundWork, answering: Answering) -> MaintenanceHandlers:
    return MaintenanceHandlers(
        answering,
        WebhookSecrets(base.secret),
        work.delivering,
        base.settings.webhook_private,
        UpkeepOnDemand(
            {
                DECAY: lambda held, tenant, user, _: work.decay.count(held, tenant, user),
                RETENTION: lambda held, tenant, user, _: work.retention.count(held, tenant, user),
                CONSOLIDATION: work.consolidation.count,
            },
            base.queue,
        ),
        work.schedules,
        base.embedders,
        base.databases.maintenance,
        base.budget,
        base.queue,
    )


def _privacy(base: Base, work: BackgroundWork, answering: Answering) -> PrivacyHandlers:
    settings, databases, trail = base.settings, base.databases, base.trail
    installation = UserSettings(
        memory_enabled=settings.memory_enabled,
        retention_days=work.keep.memory_days,
        message_retention_days=work.keep.message_days,
        redact_secrets=settings.redact_secrets,
    )
    return PrivacyHandlers(
        answering,
        installation,
        Clearing(databases.write, databases.removal, trail, base.keys),
        Erasing(databases.removal, load_installation_signer(settings), trail, base.keys),
        Exporting(databases.exports, trail, UnusableReplies(base.secret), base.keys),
        Importing(
            databases.write,
            trail,
            base.keys,
            installation,
            base.queue,
            work.statistics,
            settings.message_vectors,
        ),
    )
