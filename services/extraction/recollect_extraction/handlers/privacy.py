"""PrivacyService: what a person may demand about the own data."""

from __future__ import annotations

from recollect.v1 import privacy_service_pb2_grpc
from recollect_extraction.handlers.answering import Answering
from recollect_shared.database.pool import Database


class PrivacyHandlers(privacy_service_pb2_grpc.PrivacyServiceServicer):
    """Answers PrivacyService; `removal` is the database in the role that may delete."""

    def __init__(self, answering: Answering, removal: Database) -> None:
        self._answering = answering
        self._removal = removal
