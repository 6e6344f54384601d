"""MemoryService: changes of memories and profiles by hand, and feedback."""

from __future__ import annotations

from hitherto.v1 import memory_service_pb2_grpc
from hitherto_extraction.handlers.answering import Answering
from hitherto_extraction.handlers.curation import CurationCalls, CurationDependencies
from hitherto_extraction.handlers.profile import ProfileCalls


class MemoryHandlers(CurationCalls, ProfileCalls, memory_service_pb2_grpc.MemoryServiceServicer):
    """Answers MemoryService on the role hitherto_write."""

    def __init__(self, answering: Answering, curation: CurationDependencies) -> None:
        self._answering = answering
        self._curation = curation
