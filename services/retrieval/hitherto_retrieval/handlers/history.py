"""GetMemoryHistory and GetProfileHistory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hitherto.v1 import history_pb2
from hitherto.v1 import retrieval_service_pb2 as pb
from hitherto_retrieval.handlers.reading import ReadCalls, UserChecks, UserReadContext
from hitherto_retrieval.storage import history, memories
from hitherto_retrieval.storage.history import HistoryEvent, ToldVersion
from hitherto_retrieval.storage.statement import Statement
from hitherto_shared.convert import EVENT_KIND_NUMBERS, made, struct, timestamp
from hitherto_shared.encryption.rows import MEMORY
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
        versions = history.versions_of_memory(reading.scope, memory_id, _asked(found))
        return pb.GetMemoryHistoryResponse(
            events=await _events(reading, found, versions), next_page_token=page.seal(following)
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
        versions = history.versions_of_profile(reading.scope, _asked(found))
        return pb.GetProfileHistoryResponse(
            events=await _events(reading, found, versions), next_page_token=page.seal(following)
        )


def _asked(events: Sequence[HistoryEvent]) -> list[int]:
    """The versions that events made, and those before."""
    return sorted({v for event in events for v in (event.version - 1, event.version) if v > 0})


async def _events(
    reading: UserReadContext,
    found: Sequence[HistoryEvent],
    asked: Statement[dict[int, ToldVersion]],
) -> list[history_pb2.HistoryEvent]:
    """Events with what they changed, without values that are sealed and do not open."""
    versions = await reading.answer(asked)
    if any(version.sealed is not None for version in versions.values()):
        await reading.opener.fetch()
    fields = {number: _opened(reading, version) for number, version in versions.items()}
    return [_message(event, *_changed(event, fields)) for event in found]


def _opened(reading: UserReadContext, version: ToldVersion) -> Mapping[str, Any]:
    if version.sealed is None:
        return version.fields
    clear = {name: value for name, value in version.fields.items() if name not in MEMORY.columns}
    return {**clear, **(reading.opener.values(version.sealed, version.place) or {})}


def _changed(
    event: HistoryEvent, versions: Mapping[int, Mapping[str, Any]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields that a change concerns, before and after: all fields for a creation."""
    old, new = versions.get(event.version - 1, {}), versions.get(event.version, {})
    if event.version > 1:
        names = [name for name in new if name in old and old[name] != new[name]]
    else:
        # What was withheld as it was created has a second event.
        names = [*new] if event.action == "created" else ["status"]
    before = {name: old[name] for name in names if name in old}
    after = {name: new[name] for name in names if name in new}
    if event.named_before is not None:
        before["entities"] = event.named_before
    if event.named_after is not None:
        after["entities"] = event.named_after
    return before, after


def _message(
    event: HistoryEvent, before: Mapping[str, Any], after: Mapping[str, Any]
) -> history_pb2.HistoryEvent:
    return made(
        history_pb2.HistoryEvent,
        event,
        id=str(event.event_id),
        kind=EVENT_KIND_NUMBERS[event.action],
        job_id=str(event.job_id) if event.job_id else "",
        created_at=timestamp(event.recorded_at),
        before=struct(before),
        after=struct(after),
        related_memory_id=str(event.related) if event.related else "",
    )
