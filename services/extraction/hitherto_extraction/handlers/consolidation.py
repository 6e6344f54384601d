"""Consolidate and UndoConsolidation of MaintenanceService."""

from __future__ import annotations

from hitherto.v1 import maintenance_service_pb2 as pb
from hitherto_extraction.consolidation.calls import Consolidations
from hitherto_extraction.consolidation.undo import undo
from hitherto_extraction.handlers.answering import Answering
from hitherto_extraction.user_key import with_keys
from hitherto_shared.convert import job_message, memory_message
from hitherto_shared.models import Scope
from hitherto_shared.rpc.call import Context, current_call
from hitherto_shared.text.normalise import tag_key
from hitherto_shared.validation import Checks

_COUNTING_SECONDS = 30.0
"""Counting across all users of a tenant may take longer than other calls."""


class ConsolidationCalls:
    """Implements Consolidate and UndoConsolidation."""

    _answering: Answering
    _consolidations: Consolidations

    async def Consolidate(
        self, request: pb.ConsolidateRequest, context: Context
    ) -> pb.ConsolidateResponse:
        """Merge similar memories, of all users or of one, under all tags or one."""
        checks = Checks()
        user_id = checks.identifier("user_id", request.user_id, required=False) or None
        named = checks.identifier("tag", request.tag, required=False)
        tag = tag_key(named) or named or None
        key = checks.idempotency_key(request.idempotency_key)
        checks.done()
        outcome = await self._answering.change(
            self._answering.identity("Consolidate", key, request),
            await self._consolidations.start(
                current_call().principal.tenant_id,
                user_id=user_id,
                tag=tag,
                dry_run=request.dry_run,
            ),
            context,
            database=self._consolidations.database,
            seconds=_COUNTING_SECONDS,
        )
        begun, token = outcome.made, self._answering.token(outcome.position)
        return pb.ConsolidateResponse(
            job=job_message(begun.job, token if begun.job.final else ""),
            counts=begun.counts,
            consistency_token=token,
        )

    async def UndoConsolidation(
        self, request: pb.UndoConsolidationRequest, context: Context
    ) -> pb.UndoConsolidationResponse:
        """Restore the originals of a merged memory."""
        checks = Checks()
        user_id = checks.identifier("user_id", request.user_id)
        memory_id = checks.uuid("memory_id", request.memory_id)
        key = checks.idempotency_key(request.idempotency_key)
        checks.done()
        principal = current_call().principal
        scope = Scope(principal.tenant_id, user_id)
        identity = self._answering.identity("UndoConsolidation", key, request)
        work = undo(scope, memory_id, actor=principal.subject)
        outcome = await with_keys(
            self._answering.keys,
            [scope],
            lambda: self._answering.change(identity, work, context),
        )
        return pb.UndoConsolidationResponse(
            memories=[memory_message(each) for each in outcome.made],
            consistency_token=self._answering.token(outcome.position),
        )
