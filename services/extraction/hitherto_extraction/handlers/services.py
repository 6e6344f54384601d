"""The gRPC services of this process and their handlers."""

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
from hitherto_extraction.curation.saving import Saving
from hitherto_extraction.handlers.answering import Answering
from hitherto_extraction.handlers.curation import CurationCalls
from hitherto_extraction.handlers.extraction import ExtractionHandlers
from hitherto_extraction.handlers.maintenance import MaintenanceHandlers
from hitherto_extraction.handlers.privacy import PrivacyHandlers
from hitherto_extraction.handlers.profile import ProfileCalls
from hitherto_extraction.handlers.sessions import SessionHandlers
from hitherto_extraction.pipeline.embedding_charges import ChargedEmbedder
from hitherto_extraction.queue.signals import JobSignals
from hitherto_shared.rpc.server import Servicer


class MemoryHandlers(CurationCalls, ProfileCalls, memory_service_pb2_grpc.MemoryServiceServicer):
    """Implements MemoryService with the role hitherto_write."""

    def __init__(
        self, answering: Answering, saving: Saving, vectors: ChargedEmbedder, signals: JobSignals
    ) -> None:
        self._answering = answering
        self._saving = saving
        self._vectors = vectors
        self._signals = signals


def servicers(
    extraction: ExtractionHandlers,
    memory: MemoryHandlers,
    sessions: SessionHandlers,
    maintenance: MaintenanceHandlers,
    privacy: PrivacyHandlers,
) -> list[Servicer]:
    """Every gRPC service of this process; RPCs of later versions answer UNIMPLEMENTED."""
    return [
        Servicer(
            extraction_service_pb2.DESCRIPTOR.services_by_name["ExtractionService"],
            extraction,
            extraction_service_pb2_grpc.add_ExtractionServiceServicer_to_server,
        ),
        Servicer(
            memory_service_pb2.DESCRIPTOR.services_by_name["MemoryService"],
            memory,
            memory_service_pb2_grpc.add_MemoryServiceServicer_to_server,
        ),
        Servicer(
            session_service_pb2.DESCRIPTOR.services_by_name["SessionService"],
            sessions,
            session_service_pb2_grpc.add_SessionServiceServicer_to_server,
        ),
        Servicer(
            maintenance_service_pb2.DESCRIPTOR.services_by_name["MaintenanceService"],
            maintenance,
            maintenance_service_pb2_grpc.add_MaintenanceServiceServicer_to_server,
        ),
        Servicer(
            privacy_service_pb2.DESCRIPTOR.services_by_name["PrivacyService"],
            privacy,
            privacy_service_pb2_grpc.add_PrivacyServiceServicer_to_server,
        ),
    ]
