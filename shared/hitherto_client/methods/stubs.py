"""The stubs that all parts of the client use."""

from __future__ import annotations

from hitherto.v1.extraction_service_pb2_grpc import ExtractionServiceStub
from hitherto.v1.maintenance_service_pb2_grpc import MaintenanceServiceStub
from hitherto.v1.memory_service_pb2_grpc import MemoryServiceStub
from hitherto.v1.privacy_service_pb2_grpc import PrivacyServiceStub
from hitherto.v1.retrieval_service_pb2_grpc import RetrievalServiceStub
from hitherto.v1.session_service_pb2_grpc import SessionServiceStub
from hitherto_client.calls import Endpoint, RetryPolicy


class Stubs:
    """The generated stubs of both services; HithertoClient connects them."""

    retrieval_address: str
    extraction_address: str
    retrieval: RetrievalServiceStub
    extraction: ExtractionServiceStub
    memories: MemoryServiceStub
    sessions: SessionServiceStub
    maintenance: MaintenanceServiceStub
    privacy: PrivacyServiceStub
    _retry: RetryPolicy

    def _writes_at(self) -> Endpoint:
        return Endpoint("extraction", self.extraction_address)
