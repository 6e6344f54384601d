"""MaintenanceService: upkeep across users, cost, and taking back what a bad source taught."""

from __future__ import annotations

from recollect.v1 import maintenance_service_pb2_grpc
from recollect_extraction.handlers.answering import Answering
from recollect_shared.paging import PageTokens


class MaintenanceHandlers(maintenance_service_pb2_grpc.MaintenanceServiceServicer):
    """Answers MaintenanceService."""

    def __init__(self, answering: Answering, pages: PageTokens) -> None:
        self._answering = answering
        self._pages = pages
