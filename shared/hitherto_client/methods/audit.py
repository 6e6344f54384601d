"""The audit log: who changed what, and who read whose data."""

from __future__ import annotations

from typing import Any

from hitherto.v1 import privacy_service_pb2 as pb
from hitherto_client.methods.stubs import Stubs


class AuditLog(Stubs):
    """Calls about the audit log; they need a credential with the scope `admin`."""

    def list_audit_events(
        self, *, timeout: float | None = None, **options: Any
    ) -> pb.ListAuditEventsResponse:
        """One page of the log, newest first; `options` are fields of ListAuditEventsRequest."""
        return self.privacy.ListAuditEvents(pb.ListAuditEventsRequest(**options), timeout=timeout)
