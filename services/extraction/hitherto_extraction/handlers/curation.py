"""MemoryService: memories are saved, corrected, forgotten, restored and reviewed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from hitherto.v1 import memory_service_pb2 as pb
from hitherto.v1 import memory_service_pb2_grpc
from hitherto_extraction.curation import carrying, correcting, statuses
from hitherto_extraction.curation.carrying import Carried
from hitherto_extraction.curation.saving import Saved, Saving, StatementToSave, vectors_of
from hitherto_extraction.handlers.answering import Answering, checks_of
from hitherto_extraction.handlers.importing import MAX_IDS, read_ahead, take_all
from hitherto_extraction.handlers.incoming_memories import read_correction, read_statement
from hitherto_extraction.handlers.profile import ProfileCalls
from hitherto_extraction.once import UserCall
from hitherto_extraction.pipeline.embedding_charges import (
    CORRECTION,
    IMPORT,
    SAVING,
    ChargedEmbedder,
)
from hitherto_extraction.pipeline.reply_vectors import Vectors
from hitherto_extraction.prices import Charge
from hitherto_extraction.queue.jobs import JobSignals
from hitherto_extraction.rollback.restoring import restore
from hitherto_extraction.storage import editing
from hitherto_shared.convert import EnumWords, memory_message
from hitherto_shared.database.pool import Database
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.errors import HithertoError
from hitherto_shared.models import Memory, Scope
from hitherto_shared.rpc.call import Context, current_call, seconds_left
from hitherto_shared.validation import Checks

MAX_REASON = 256
_EMBEDDING_SECONDS = 3.0
"""A write waits no longer than this for the embedder; afterwards the vector is back-filled."""
_AHEAD = 32
"""Items of a stream that are read ahead, and so embedded in one call."""

_DECISIONS = EnumWords(pb.ReviewDecision.DESCRIPTOR)


@dataclass(frozen=True, slots=True)
class SaveRequest:
    """A checked statement, and the call that saves it."""

    call: UserCall
    statement: StatementToSave


@dataclass(eq=False)
class MemoryHandlers(ProfileCalls, memory_service_pb2_grpc.MemoryServiceServicer):
    """Implements MemoryService."""

    answering: Answering
    saving: Saving
    vectors: ChargedEmbedder
    signals: JobSignals

    async def SaveMemory(
        self, request: pb.SaveMemoryRequest, context: Context
    ) -> pb.SaveMemoryResponse:
        """Save one statement at once."""
        screened = await self.answering.screened(request, context)
        wanted = self._read(screened, request, "SaveMemory")
        paid = self.vectors
        # Half of the remaining time, so that a statement without a vector can still be written.
        content = wanted.statement.item.content
        made, charges = await paid.embed(
            [(wanted.call.scope, content)],
            SAVING,
            seconds=seconds_left(context, 2 * _EMBEDDING_SECONDS) / 2,
        )
        try:
            vectors = vectors_of(made.model, made.vector_of(content))
            saved, token = await self._store(wanted, vectors, context, tell_near=True)
        finally:
            await paid.settle(SAVING, charges)
        return pb.SaveMemoryResponse(
            memory=memory_message(saved.memory),
            deduplicated=saved.deduplicated,
            near=[memory_message(each) for each in saved.near],
            consistency_token=token,
        )

    async def StreamMemories(
        self, request_iterator: AsyncIterator[pb.StreamMemoriesRequest], context: Context
    ) -> pb.StreamMemoriesResponse:
        """Save any number of statements, independently."""
        reply = pb.StreamMemoriesResponse()

        async def accept(item: tuple[SaveRequest | HithertoError, Vectors | None]) -> None:
            wanted, vectors = item
            if isinstance(wanted, HithertoError):
                raise wanted
            assert vectors is not None
            saved, reply.consistency_token = await self._store(wanted, vectors, context)
            reply.deduplicated_count += saved.deduplicated
            if len(reply.memory_ids) < MAX_IDS:
                reply.memory_ids.append(str(saved.memory.memory_id))

        paid = self.vectors
        unpaid: dict[Scope, Charge] = {}

        async def settle() -> None:
            charges = dict(unpaid)
            unpaid.clear()
            await paid.settle(IMPORT, charges)

        async def embed(batch: Sequence[SaveRequest | HithertoError]) -> list[Vectors | None]:
            # Everything embedded before is stored by now, and its users are known.
            await settle()
            made, charges = await paid.embed(
                [
                    (each.call.scope, each.statement.item.content)
                    for each in batch
                    if isinstance(each, SaveRequest)
                ],
                IMPORT,
                seconds=seconds_left(context, _EMBEDDING_SECONDS),
            )
            unpaid.update(charges)
            return [
                vectors_of(made.model, made.vector_of(each.statement.item.content))
                if isinstance(each, SaveRequest)
                else None
                for each in batch
            ]

        try:
            async with aclosing(
                read_ahead(
                    self._screened(request_iterator, context), self._read_item, embed, most=_AHEAD
                )
            ) as items:
                taken = await take_all(items, accept)
        finally:
            await settle()
        reply.saved_count, reply.rejected_count = taken.accepted, taken.rejected
        reply.errors.extend(taken.errors)
        return reply

    async def UpdateMemory(
        self, request: pb.UpdateMemoryRequest, context: Context
    ) -> pb.UpdateMemoryResponse:
        """Correct a memory."""
        sent, request = request, await self.answering.screened(request, context)
        checks, user_id = checks_of(request)
        memory_id = checks.uuid("memory_id", request.memory_id)
        correction = read_correction(checks, request)
        call = self.answering.admit(checks, user_id, sent)
        paid, content = self.vectors, correcting.new_content(correction)
        made, charges = await paid.embed(
            [] if content is None else [(call.scope, content)],
            CORRECTION,
            seconds=seconds_left(context, 2 * _EMBEDDING_SECONDS) / 2,
        )
        found = None if content is None else made.vector_of(content)
        vector = None if found is None else (made.model, found)

        async def change(user: UserRows) -> Carried:
            return await carrying.correct_along(
                user,
                memory_id,
                correction,
                vector,
                actor=call.principal.subject,
                reconciling=self.saving.reconciling,
                threshold=self.saving.threshold(),
                carry_along=request.carry_along,
            )

        try:
            carried, token = await self._carry(call, change, context)
        finally:
            await paid.settle(CORRECTION, charges)
        return pb.UpdateMemoryResponse(**_carried(carried, token))

    async def ForgetMemory(
        self, request: pb.ForgetMemoryRequest, context: Context
    ) -> pb.ForgetMemoryResponse:
        """Forget a memory."""
        sent, request = request, await self.answering.screened(request, context)
        checks, user_id, memory_id, reason = _named(request)
        call = self.answering.admit(checks, user_id, sent)
        carried, token = await self._carry(
            call,
            lambda user: carrying.forget(
                user,
                memory_id,
                reason=reason,
                actor=call.principal.subject,
                threshold=self.saving.threshold(),
                carry_along=request.carry_along,
            ),
            context,
        )
        return pb.ForgetMemoryResponse(**_carried(carried, token))

    async def RestoreMemory(
        self, request: pb.RestoreMemoryRequest, context: Context
    ) -> pb.RestoreMemoryResponse:
        """Restore a forgotten, archived or joined memory, with the role hitherto_removal."""
        sent, request = request, await self.answering.screened(request, context)
        checks, user_id, memory_id, reason = _named(request)
        call = self.answering.admit(checks, user_id, sent)
        made, token = await self._change(
            call,
            lambda user: restore(user, memory_id, reason=reason, actor=call.principal.subject),
            context,
            database=self.answering.removal,
        )
        return pb.RestoreMemoryResponse(memory=memory_message(made), consistency_token=token)

    async def ReviewMemory(
        self, request: pb.ReviewMemoryRequest, context: Context
    ) -> pb.ReviewMemoryResponse:
        """Decide about a quarantined memory."""
        sent, request = request, await self.answering.screened(request, context)
        checks, user_id, memory_id, reason = _named(request)
        decision = checks.one_of("decision", request.decision, _DECISIONS)
        if decision is None and request.decision == 0:
            checks.add("decision", "is required: APPROVE or REJECT")
        call = self.answering.admit(checks, user_id, sent)
        made, token = await self._change(
            call,
            lambda user: statuses.review(
                user,
                memory_id,
                approve=decision == "approve",
                reason=reason,
                actor=call.principal.subject,
            ),
            context,
        )
        return pb.ReviewMemoryResponse(memory=memory_message(made), consistency_token=token)

    def _read(
        self,
        request: pb.SaveMemoryRequest,
        sent: pb.SaveMemoryRequest,
        rpc: str,
        *,
        prefix: str = "",
    ) -> SaveRequest:
        """A checked request, without secrets, and as it was sent."""
        checks = Checks()
        user_id = checks.identifier(f"{prefix}user_id", request.user_id)
        statement = read_statement(checks, request, prefix)
        identity = self.answering.identity(checks, sent, rpc=rpc, prefix=prefix)
        principal = current_call().principal
        scope = principal.scope(user_id)
        principal.check_origin(f"{prefix}origin", statement.origin)
        return SaveRequest(UserCall(principal, scope, identity), statement)

    async def _screened(
        self, requests: AsyncIterator[pb.StreamMemoriesRequest], context: Context
    ) -> AsyncIterator[tuple[pb.StreamMemoriesRequest, pb.StreamMemoriesRequest]]:
        """The items of a stream without secrets, and as they were sent."""
        async for sent in requests:
            yield await self.answering.screened(sent, context), sent

    def _read_item(
        self, given: tuple[pb.StreamMemoriesRequest, pb.StreamMemoriesRequest]
    ) -> SaveRequest | HithertoError:
        """A checked item of a stream, or the reason for its refusal."""
        request, sent = given
        try:
            return self._read(request.item, sent.item, "StreamMemories", prefix="item.")
        except HithertoError as error:
            return error

    async def _store(
        self,
        wanted: SaveRequest,
        vectors: Vectors,
        context: Context,
        *,
        tell_near: bool = False,
    ) -> tuple[Saved, str]:
        saving, call = self.saving, wanted.call

        async def change(user: UserRows) -> Saved:
            actor = call.principal.subject
            saved = await saving.save(user, wanted.statement, vectors, actor=actor)
            return await saving.with_near(user, saved) if tell_near else saved

        async def again(user: UserRows, ids: Sequence[str]) -> Saved:
            memory_id, deduplicated = json.loads(ids[0])
            held = await editing.read_one(user, UUID(memory_id))
            saved = Saved(held.memory, deduplicated)
            return await saving.with_near(user, saved) if tell_near else saved

        made, token = await self.answering.change_user(
            call,
            change,
            again,
            context,
            ids=lambda saved: [json.dumps([str(saved.memory.memory_id), saved.deduplicated])],
            touched=lambda saved: [str(saved.memory.memory_id)],
        )
        self.signals.wake()
        return made, token

    async def _carry(
        self, call: UserCall, change: Callable[[UserRows], Awaitable[Carried]], context: Context
    ) -> tuple[Carried, str]:
        async def again(user: UserRows, ids: Sequence[str]) -> Carried:
            return await carrying.still_stating(user, UUID(ids[0]), self.saving.threshold())

        return await self.answering.change_user(
            call,
            change,
            again,
            context,
            ids=lambda carried: [str(carried.memory.memory_id)],
        )

    async def _change(
        self,
        call: UserCall,
        change: Callable[[UserRows], Awaitable[Memory]],
        context: Context,
        *,
        database: Database | None = None,
    ) -> tuple[Memory, str]:
        async def again(user: UserRows, ids: Sequence[str]) -> Memory:
            return (await editing.read_one(user, UUID(ids[0]))).memory

        return await self.answering.change_user(
            call,
            change,
            again,
            context,
            ids=lambda memory: [str(memory.memory_id)],
            database=database,
        )


def _carried(made: Carried, token: str) -> dict[str, Any]:
    return {
        "memory": memory_message(made.memory),
        "also_states": map(_place, made.also_states),
        "carried_along": map(_place, made.carried_along),
        "consistency_token": token,
    }


def _place(place: carrying.Place) -> pb.AlsoStates:
    return pb.AlsoStates(**{place.field: place.name, "text": place.text})


def _named(
    request: pb.ForgetMemoryRequest | pb.RestoreMemoryRequest | pb.ReviewMemoryRequest,
) -> tuple[Checks, str, UUID, str]:
    """The common part of the calls on one memory: user, memory and reason."""
    checks, user_id = checks_of(request)
    memory_id = checks.uuid("memory_id", request.memory_id)
    reason = checks.text("reason", request.reason, max_bytes=4 * MAX_REASON)
    if len(reason) > MAX_REASON:
        checks.add("reason", f"must have at most {MAX_REASON} characters")
    return checks, user_id, memory_id, reason
