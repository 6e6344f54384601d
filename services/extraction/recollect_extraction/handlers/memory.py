"""MemoryService: memories, profiles and feedback, by hand."""

from __future__ import annotations

from recollect.v1 import memory_service_pb2_grpc
from recollect_extraction.handlers.answering import Answering
from recollect_extraction.handlers.curation import Curation, CurationCalls
from recollect_extraction.handlers.profile import ProfileCalls


class MemoryHandlers(CurationCalls, ProfileCalls, memory_service_pb2_grpc.MemoryServiceServicer):
    """Answers MemoryService on the role recollect_write."""

    def __init__(self, answering: Answering, curation: Curation) -> None:
        self._answering = answering
        self._curation = curation
