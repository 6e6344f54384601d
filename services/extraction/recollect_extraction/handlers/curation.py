"""The calls of MemoryService on memories: save, correct, forget, restore, review."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from recollect.v1 import memory_service_pb2 as pb
from recollect_extraction.curation import correcting, statuses
from recollect_extraction.curation.saving import Saved, Saving
from recollect_extraction.handlers.answering import Answering
from recollect_extraction.handlers.importing import MAX_IDS, take_all
from recollect_extraction.handlers.incoming_memories import read_correction, read_statement
from recollect_extraction.once import Identity, Outcome, Work
from recollect_extraction.queue.signals import JobSignals
from recollect_extraction.storage import editing
from recollect_shared.consistency import Position
from recollect_shared.convert import memory_message
from recollect_shared.database.pool import Connection
from recollect_shared.embeddings.protocol import Embedder
from recollect_shared.models import Memory, Scope
from recollect_shared.rpc.call import Context, current_call
from recollect_shared.validation import Checks

MAX_REASON = 256
_SECONDS = 10.0
"""A save waits for the embedder as well."""

_DECISIONS = {
    value.number: value.name.removeprefix("REVIEW_DECISION_").lower()
    for value in pb.ReviewDecision.DESCRIPTOR.values
    if value.number
}


@dataclass(frozen=True, slots=True)
class Curation:
    """What the calls work with."""

    saving: Saving
    embedder: Embedder
    signals: JobSignals


class CurationCalls:
    """Answers them."""

    _answering: Answering
    _curation: Curation

    async def SaveMemory(
        self, request: pb.SaveMemoryRequest, context: Context
    ) -> pb.SaveMemoryResponse:
        """Save one statement at once."""
        outcome = await self._save(request, "SaveMemory", context)
        return pb.SaveMemoryResponse(
            memory=memory_message(outcome.made.memory),
            deduplicated=outcome.made.deduplicated,
            consistency_token=self._answering.token(outcome.position),
        )

    async def StreamMemories(
        self, request_iterator: AsyncIterator[pb.StreamMemoriesRequest], context: Context
    ) -> pb.StreamMemoriesResponse:
        """Save any number of statements, each by itself."""
        reply = pb.StreamMemoriesResponse()
        position: Position | None = None

        async def accept(request: pb.StreamMemoriesRequest) -> None:
            nonlocal position
            outcome = await self._save(request.item, "StreamMemories", context, prefix="item.")
            position = outcome.position
            reply.deduplicated_count += outcome.made.deduplicated
            if len(reply.memory_ids) < MAX_IDS:
                reply.memory_ids.append(str(outcome.made.memory.memory_id))

        taken = await take_all(aiter(request_iterator), accept)
        reply.saved_count, reply.rejected_count = taken.accepted, taken.rejected
        reply.errors.extend(taken.errors)
        if position is not None:
            reply.consistency_token = self._answering.token(position)
        return reply

    async def UpdateMemory(
        self, request: pb.UpdateMemoryRequest, context: Context
    ) -> pb.UpdateMemoryResponse:
        """Correct a memory."""
        checks = Checks()
        user_id = checks.identifier("user_id", request.user_id)
        memory_id = checks.uuid("memory_id", request.memory_id)
        correction = read_correction(checks, request)
        key = checks.idempotency_key(request.idempotency_key)
        checks.done()
        principal = current_call().principal
        scope = principal.scope(user_id)
        vector = await correcting.embed(self._curation.embedder, correction)

        async def change(connection: Connection) -> Memory:
            return await correcting.correct(
                connection, scope, memory_id, correction, vector, actor=principal.subject
            )

        outcome = await self._change(
            self._answering.identity("UpdateMemory", key, request), scope, change, context
        )
        return pb.UpdateMemoryResponse(
            memory=memory_message(outcome.made),
            consistency_token=self._answering.token(outcome.position),
        )

    async def ForgetMemory(
        self, request: pb.ForgetMemoryRequest, context: Context
    ) -> pb.ForgetMemoryResponse:
        """Forget a memory."""
        checks, scope, memory_id, reason, key = _named(request)
        checks.done()
        actor = current_call().principal.subject
        outcome = await self._change(
            self._answering.identity("ForgetMemory", key, request),
            scope(),
            lambda c: statuses.forget(c, scope(), memory_id, reason=reason, actor=actor),
            context,
        )
        return pb.ForgetMemoryResponse(
            memory=memory_message(outcome.made),
            consistency_token=self._answering.token(outcome.position),
        )

    async def RestoreMemory(
        self, request: pb.RestoreMemoryRequest, context: Context
    ) -> pb.RestoreMemoryResponse:
        """Bring a forgotten or archived memory back."""
        checks, scope, memory_id, reason, key = _named(request)
        checks.done()
        actor = current_call().principal.subject
        outcome = await self._change(
            self._answering.identity("RestoreMemory", key, request),
            scope(),
            lambda c: statuses.restore(c, scope(), memory_id, reason=reason, actor=actor),
            context,
        )
        return pb.RestoreMemoryResponse(
            memory=memory_message(outcome.made),
            consistency_token=self._answering.token(outcome.position),
        )

    async def ReviewMemory(
        self, request: pb.ReviewMemoryRequest, context: Context
    ) -> pb.ReviewMemoryResponse:
        """Decide about a quarantined memory."""
        checks, scope, memory_id, reason, key = _named(request)
        decision = checks.one_of("decision", request.decision, _DECISIONS)
        if decision is None and request.decision == 0:
            checks.add("decision", "is required: APPROVE or REJECT")
        checks.done()
        actor = current_call().principal.subject
        outcome = await self._change(
            self._answering.identity("ReviewMemory", key, request),
            scope(),
            lambda c: statuses.review(
                c, scope(), memory_id, approve=decision == "approve", reason=reason, actor=actor
            ),
            context,
        )
        return pb.ReviewMemoryResponse(
            memory=memory_message(outcome.made),
            consistency_token=self._answering.token(outcome.position),
        )

    async def _save(
        self, request: pb.SaveMemoryRequest, rpc: str, context: Context, *, prefix: str = ""
    ) -> Outcome[Saved]:
        checks = Checks()
        user_id = checks.identifier(f"{prefix}user_id", request.user_id)
        statement = read_statement(checks, request, prefix)
        key = checks.idempotency_key(request.idempotency_key)
        checks.done()
        principal = current_call().principal
        scope = principal.scope(user_id)
        saving = self._curation.saving
        vectors = await saving.embed(statement.content)

        async def change(connection: Connection) -> Saved:
            return await saving.save(connection, scope, statement, vectors, actor=principal.subject)

        async def again(connection: Connection, ids: Sequence[str]) -> Saved:
            memory_id, deduplicated = json.loads(ids[0])
            held = await editing.read_one(connection, scope, UUID(memory_id))
            return Saved(held.memory, deduplicated)

        outcome = await self._answering.change(
            self._answering.identity(rpc, key, request),
            Work(
                change,
                ids=lambda saved: [json.dumps([str(saved.memory.memory_id), saved.deduplicated])],
                again=again,
                users=lambda _: [user_id],
            ),
            context,
            seconds=_SECONDS,
        )
        self._curation.signals.wake()
        return outcome

    async def _change(
        self,
        identity: Identity | None,
        scope: Scope,
        change: Callable[[Connection], Awaitable[Memory]],
        context: Context,
    ) -> Outcome[Memory]:
        async def again(connection: Connection, ids: Sequence[str]) -> Memory:
            return (await editing.read_one(connection, scope, UUID(ids[0]))).memory

        return await self._answering.change(
            identity,
            Work(
                change,
                ids=lambda memory: [str(memory.memory_id)],
                again=again,
                users=lambda _: [scope.user_id],
            ),
            context,
        )


def _named(
    request: pb.ForgetMemoryRequest | pb.RestoreMemoryRequest | pb.ReviewMemoryRequest,
) -> tuple[Checks, Callable[[], Scope], UUID, str, str | None]:
    """What the calls on one memory have in common; the scope once the checks are done."""
    checks = Checks()
    user_id = checks.identifier("user_id", request.user_id)
    memory_id = checks.uuid("memory_id", request.memory_id)
    reason = checks.text("reason", request.reason, max_bytes=4 * MAX_REASON)
    if len(reason) > MAX_REASON:
        checks.add("reason", f"must have at most {MAX_REASON} characters")
    key = checks.idempotency_key(request.idempotency_key)
    return checks, lambda: current_call().principal.scope(user_id), memory_id, reason, key
