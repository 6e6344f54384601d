"""RollbackSource of MaintenanceService."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hitherto.v1 import maintenance_service_pb2 as pb
from hitherto_extraction.handlers.answering import Answering
from hitherto_extraction.once import IdempotentOperation, IdempotentResult
from hitherto_extraction.rollback.source import RollbackTarget, roll_back
from hitherto_extraction.user_key import with_keys
from hitherto_shared.consistency import current_position
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.rpc.call import Context, current_call, seconds_left
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
        key = checks.idempotency_key(request.idempotency_key)
        checks.done()
        principal = current_call().principal
        scope = principal.scope(user_id)

        async def change(connection: Connection) -> dict[str, int]:
            return await roll_back(connection, scope, source, actor=principal.subject)

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
                [scope],
                lambda: self._removal.run(rehearse, timeout=seconds_left(context, _SECONDS)),
            )

        async def again(_connection: Connection, ids: Sequence[str]) -> dict[str, int]:
            counts: dict[str, int] = json.loads(ids[0]) if ids else {}
            return counts

        async def attempt() -> IdempotentResult[dict[str, int]]:
            return await self._answering.change(
                self._answering.identity("RollbackSource", key, request),
                IdempotentOperation(
                    change,
                    ids=lambda counts: [json.dumps(counts)],
                    again=again,
                    users=lambda _: [user_id],
                    touched=lambda _: {user_id: [str(source.document_id or source.job_id or "")]},
                ),
                context,
                database=self._removal,
                seconds=_SECONDS,
            )

        outcome = await with_keys(self._answering.keys, [scope], attempt)
        return pb.RollbackSourceResponse(
            counts=outcome.made,
            consistency_token=self._answering.token(outcome.position),
        )
