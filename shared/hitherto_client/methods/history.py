"""Who changed what, when and why."""

from __future__ import annotations

from hitherto.v1 import retrieval_service_pb2 as pb
from hitherto_client.methods.stubs import Stubs


class Histories(Stubs):
    """Reads of the append-only history."""

    def get_memory_history(
        self,
        user_id: str,
        memory_id: str,
        *,
        page_size: int = 0,
        page_token: str = "",
        consistency_token: str = "",
        timeout: float | None = None,
    ) -> pb.GetMemoryHistoryResponse:
        """One page of the changes of a memory, newest first."""
        request = pb.GetMemoryHistoryRequest(
            user_id=user_id,
            memory_id=memory_id,
            page_size=page_size,
            page_token=page_token,
            consistency_token=consistency_token,
        )
        return self.retrieval.GetMemoryHistory(request, timeout=timeout)

    def get_profile_history(
        self,
        user_id: str,
        *,
        page_size: int = 0,
        page_token: str = "",
        consistency_token: str = "",
        timeout: float | None = None,
    ) -> pb.GetProfileHistoryResponse:
        """One page of the changes of the user's profile, newest first."""
        request = pb.GetProfileHistoryRequest(
            user_id=user_id,
            page_size=page_size,
            page_token=page_token,
            consistency_token=consistency_token,
        )
        return self.retrieval.GetProfileHistory(request, timeout=timeout)
