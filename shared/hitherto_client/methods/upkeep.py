"""Upkeep: consolidation, decay, retention, re-embedding, cost, and roll-back of a source."""

from __future__ import annotations

from typing import Any

from hitherto.v1 import maintenance_service_pb2 as pb
from hitherto_client.methods.stubs import Stubs


class Upkeep(Stubs):
    """Calls of MaintenanceService; they need a credential with the scope `maintenance`."""

    def consolidate(
        self,
        *,
        user_id: str = "",
        tag: str = "",
        dry_run: bool = False,
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> pb.ConsolidateResponse:
        """Merge memories that share a tag, of one user or of all; `dry_run` only counts."""
        request = pb.ConsolidateRequest(
            user_id=user_id, tag=tag, dry_run=dry_run, idempotency_key=idempotency_key
        )
        return self.maintenance.Consolidate(request, timeout=timeout)

    def undo_consolidation(
        self,
        user_id: str,
        memory_id: str,
        *,
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> pb.UndoConsolidationResponse:
        """Restore the originals of a merged memory and archive the merged one."""
        request = pb.UndoConsolidationRequest(
            user_id=user_id, memory_id=memory_id, idempotency_key=idempotency_key
        )
        return self.maintenance.UndoConsolidation(request, timeout=timeout)

    def run_decay(
        self,
        *,
        user_id: str = "",
        dry_run: bool = False,
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> pb.RunDecayResponse:
        """Archive unimportant, unused memories of one user or of all; `dry_run` only counts."""
        request = pb.RunDecayRequest(
            user_id=user_id, dry_run=dry_run, idempotency_key=idempotency_key
        )
        return self.maintenance.RunDecay(request, timeout=timeout)

    def run_retention(
        self,
        *,
        user_id: str = "",
        dry_run: bool = False,
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> pb.RunRetentionResponse:
        """Remove the content of data that is past its retention, for good; or only count it."""
        request = pb.RunRetentionRequest(
            user_id=user_id, dry_run=dry_run, idempotency_key=idempotency_key
        )
        return self.maintenance.RunRetention(request, timeout=timeout)

    def reembed(
        self,
        phase: pb.ReembedPhase.ValueType,
        *,
        model: str = "",
        dimensions: int = 0,
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> pb.ReembedResponse:
        """Carry out one step of a change of embedding model.

        Args:
            phase: START, STATUS, SWITCH or ROLLBACK.
            model: The new model, for START.
            dimensions: Size of its vectors. 0: the model's own.
            idempotency_key: Unset: a new one.
            timeout: Seconds, retries included.
        """
        request = pb.ReembedRequest(
            phase=phase, model=model, dimensions=dimensions, idempotency_key=idempotency_key
        )
        return self.maintenance.Reembed(request, timeout=timeout)

    def list_schedules(
        self, *, page_size: int = 0, page_token: str = "", timeout: float | None = None
    ) -> pb.ListSchedulesResponse:
        """One page of the upkeep schedules, by name."""
        request = pb.ListSchedulesRequest(page_size=page_size, page_token=page_token)
        return self.maintenance.ListSchedules(request, timeout=timeout)

    def get_usage(self, *, timeout: float | None = None, **options: Any) -> pb.GetUsageResponse:
        """The cost of work; `options` are fields of GetUsageRequest."""
        return self.maintenance.GetUsage(pb.GetUsageRequest(**options), timeout=timeout)

    def rollback_source(
        self,
        user_id: str,
        *,
        conversation_id: str = "",
        document_id: str = "",
        job_id: str = "",
        dry_run: bool = False,
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> pb.RollbackSourceResponse:
        """Undo what was learnt from one conversation, document or job; `dry_run` only counts.

        Raises:
            ValueError: Not exactly one of the three is named.
            HithertoCallError: The call failed.
        """
        named = {
            "conversation_id": conversation_id,
            "document_id": document_id,
            "job_id": job_id,
        }
        source: dict[str, Any] = {name: value for name, value in named.items() if value}
        if len(source) != 1:
            raise ValueError(f"name exactly one of {', '.join(named)}")
        request = pb.RollbackSourceRequest(
            user_id=user_id, dry_run=dry_run, idempotency_key=idempotency_key, **source
        )
        return self.maintenance.RollbackSource(request, timeout=timeout)
