"""Reembed of MaintenanceService: changes the embedding model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hitherto.v1 import maintenance_service_pb2 as pb
from hitherto_extraction.handlers.answering import Answering
from hitherto_extraction.once import IdempotentOperation
from hitherto_extraction.reembedding import phases
from hitherto_extraction.reembedding.phases import ReembeddingStatus
from hitherto_shared.convert import enum_words, job_message
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.embeddings.registry import Embedders
from hitherto_shared.rpc.call import Context, current_call
from hitherto_shared.validation import Checks

_PHASES = enum_words(pb.ReembedPhase.DESCRIPTOR, "REEMBED_PHASE_")
_MIN_DIMENSIONS = 8
_MAX_DIMENSIONS = 4_000
_SECONDS = 60.0
"""The switch scans every text once."""


@dataclass(frozen=True, slots=True)
class ReembeddingDependencies:
    """The dependencies of the call; the database role is hitherto_maintenance."""

    database: Database
    embedders: Embedders
    max_attempts: int


class ReembeddingCalls:
    """Implements Reembed."""

    _answering: Answering
    _reembedding: ReembeddingDependencies

    async def Reembed(self, request: pb.ReembedRequest, context: Context) -> pb.ReembedResponse:
        """Take a step of re-embedding, and report its state."""
        checks = Checks()
        phase = checks.one_of("phase", request.phase, _PHASES)
        if phase is None and request.phase == 0:
            checks.add("phase", "is required")
        dimensions = request.dimensions
        if dimensions and not _MIN_DIMENSIONS <= dimensions <= _MAX_DIMENSIONS:
            checks.add("dimensions", f"must lie between {_MIN_DIMENSIONS} and {_MAX_DIMENSIONS}")
        if phase == "start":
            checks.identifier("model", request.model)
        identity = self._answering.identity(checks, request)
        if phase == "start":
            embedder = self._reembedding.embedders.find(request.model, dimensions or None)
            if embedder is None:
                checks.add(
                    "model",
                    "is none that this service can embed with: it knows its configured model, the "
                    "offline one, and models of the API in OPENAI_BASE_URL (those whose size is "
                    "not known need `dimensions`)",
                )
                checks.done()
            else:
                dimensions = embedder.dimensions
        tenant = current_call().principal.tenant_id

        async def change(connection: Connection) -> ReembeddingStatus:
            if phase == "start":
                await phases.start(
                    connection,
                    tenant,
                    request.model,
                    dimensions,
                    max_attempts=self._reembedding.max_attempts,
                )
            elif phase == "switch":
                await phases.switch(connection)
            elif phase == "rollback":
                await phases.go_back(connection)
            return await phases.standing(connection)

        async def again(connection: Connection, _ids: Sequence[str]) -> ReembeddingStatus:
            return await phases.standing(connection)

        outcome = await self._answering.change(
            identity,
            IdempotentOperation(change, ids=lambda _: [], again=again, users=lambda _: []),
            context,
            database=self._reembedding.database,
            seconds=_SECONDS,
        )
        found = outcome.made
        token = self._answering.token(outcome.position)
        job = found.job if found.job is not None and found.job.tenant_id == tenant else None
        return pb.ReembedResponse(
            job=None if job is None else job_message(job, token if job.final else ""),
            active_model=found.active.name if found.active else "",
            active_dimensions=found.active.dimensions if found.active else 0,
            target_model=found.target.name if found.target else "",
            target_dimensions=found.target.dimensions if found.target else 0,
            embedded_count=found.embedded,
            pending_count=found.pending,
            consistency_token=token,
        )
