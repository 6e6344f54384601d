"""RollbackSource of MaintenanceService."""

from __future__ import annotations

from hitherto.v1 import maintenance_service_pb2 as pb
from hitherto_extraction.handlers.answering import Answering
from hitherto_extraction.rollback.source import RollbackTarget, roll_back
from hitherto_extraction.user_key import with_keys
from hitherto_shared.consistency import current_position
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.rpc.call import Context, seconds_left
from hitherto_shared.validation import Checks

_SECONDS = 30.0
"""A source may have taught thousands of memories."""


class RollbackCalls:
    """Implements RollbackSource; `_removal` is the database with the role that may delete."""

    _answering: Answering
    _removal: Database

    async def RollbackSource(
        self, request: pb.RollbackSourceRequest, context: Context
    ) -> pb.RollbackSourceResponse:
        """Roll back everything that one conversation, document or job taught."""
        checks = Checks()
        user_id = checks.identifier("user_id", request.user_id)
        source = RollbackTarget()
        match request.WhichOneof("source"):
            case "conversation_id":
                source = RollbackTarget(
                    conversation_id=checks.identifier("conversation_id", request.conversation_id)
                )
            case "document_id":
                source = RollbackTarget(document_id=checks.uuid("document_id", request.document_id))
            case "job_id":
                source = RollbackTarget(job_id=checks.uuid("job_id", request.job_id))
            case _:
                checks.add("source", "is required: set conversation_id, document_id or job_id")
        call = self._answering.admit(checks, user_id, request)

        async def change(connection: Connection) -> dict[str, int]:
            return await roll_back(connection, call.scope, source, actor=call.principal.subject)

        if request.dry_run:

            async def rehearse(connection: Connection) -> pb.RollbackSourceResponse:
                # A dry run is a real run that is rolled back, so that its counts are exact.
                async with connection.transaction(force_rollback=True):
                    counts = await change(connection)
                position = await current_position(connection)
                return pb.RollbackSourceResponse(
                    counts=counts, consistency_token=self._answering.token(position)
                )

            return await with_keys(
                self._answering.keys,
                [call.scope],
                lambda: self._removal.run(rehearse, timeout=seconds_left(context, _SECONDS)),
            )

        outcome = await self._answering.remove(
            call,
            change,
            context,
            touched=str(source.document_id or source.job_id or ""),
            opens_sealed=True,
            database=self._removal,
            seconds=_SECONDS,
        )
        return pb.RollbackSourceResponse(
            counts=outcome.made,
            consistency_token=self._answering.token(outcome.position),
        )
