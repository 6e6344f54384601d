"""GetMemoryHistory and GetProfileHistory."""

from __future__ import annotations

from collections.abc import Sequence

from hitherto.v1 import history_pb2
from hitherto.v1 import retrieval_service_pb2 as pb
from hitherto_retrieval.handlers.reading import ReadCalls, UserChecks
from hitherto_retrieval.handlers.sealed_history import (
    open_memory_events,
    open_profile_events,
)
from hitherto_retrieval.storage import history, memories
from hitherto_retrieval.storage.history import HistoryEvent
from hitherto_shared.convert import EVENT_KIND_NUMBERS, struct, timestamp
from hitherto_shared.errors import not_found
from hitherto_shared.rpc.call import Context as CallContext
from hitherto_shared.rpc.call import current_call


class HistoryCalls(ReadCalls):
    """Implements the two RPCs."""

    async def GetMemoryHistory(
        self, request: pb.GetMemoryHistoryRequest, context: CallContext
    ) -> pb.GetMemoryHistoryResponse:
        """Every change of a memory, newest first."""
        checks = UserChecks(request)
        memory_id = checks.uuid("memory_id", request.memory_id)
        page = self._pages.open(checks, current_call().principal.tenant_id, request)
        reading = await self._begin(checks, request, context)
        if reading.disabled:
            return pb.GetMemoryHistoryResponse(reason=reading.reason)
        known = await reading.answer(memories.exists(reading.scope, memory_id))
        if reading.empty or not known:
            raise not_found("memory", memory_id)
        found, following = await reading.answer(
            history.of_memory(reading.scope, memory_id, **page.bounds)
        )
        found = await open_memory_events(reading, memory_id, found)
        return pb.GetMemoryHistoryResponse(
            events=_events(found), next_page_token=page.seal(following)
        )

    async def GetProfileHistory(
        self, request: pb.GetProfileHistoryRequest, context: CallContext
    ) -> pb.GetProfileHistoryResponse:
        """Every change of a profile, newest first."""
        checks = UserChecks(request)
        page = self._pages.open(checks, current_call().principal.tenant_id, request)
        reading = await self._begin(checks, request, context)
        if reading.empty:
            return pb.GetProfileHistoryResponse(reason=reading.reason)
        found, following = await reading.answer(history.of_profile(reading.scope, **page.bounds))
        found = await open_profile_events(reading, found)
        return pb.GetProfileHistoryResponse(
            events=_events(found), next_page_token=page.seal(following)
        )


def _events(found: Sequence[HistoryEvent]) -> list[history_pb2.HistoryEvent]:
    return [
        history_pb2.HistoryEvent(
            id=str(event.event_id),
            kind=EVENT_KIND_NUMBERS[event.action],  # type: ignore[arg-type]
            actor=event.actor,
            reason=event.reason,
            job_id=str(event.job_id) if event.job_id else "",
            created_at=timestamp(event.recorded_at),
            version=event.version,
            before=struct(event.before),
            after=struct(event.after),
            related_memory_id=str(event.related) if event.related else "",
        )
        for event in found
    ]
