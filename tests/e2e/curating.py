"""Saving and changing memories by hand, and looking at what became of them, for the tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any, cast

import psycopg
from google.protobuf import field_mask_pb2, json_format, struct_pb2

from hitherto.v1 import history_pb2, job_pb2, memory_pb2
from hitherto.v1 import memory_service_pb2 as pb
from tests.e2e.conftest import Services
from tests.e2e.learning import ended, rows
from tests.e2e.masks import masked
from tests.e2e.methods import ask

APPROVE = pb.REVIEW_DECISION_APPROVE
REJECT = pb.REVIEW_DECISION_REJECT


def statement(content: str, **fields: Any) -> pb.SaveMemoryRequest:
    """A request to save; `context` and `metadata` may be dicts, `user` is the user's id."""
    free = {name: fields.pop(name) for name in ("context", "metadata") if name in fields}
    request = pb.SaveMemoryRequest(user_id=fields.pop("user", "ana"), content=content, **fields)
    for name, value in free.items():
        getattr(request, name).update(value)
    return request


async def save(services: Services, content: str, **fields: Any) -> pb.SaveMemoryResponse:
    return await services.memory.SaveMemory(statement(content, **fields))


async def stream(
    services: Services, requests: Iterable[pb.SaveMemoryRequest]
) -> pb.StreamMemoriesResponse:
    """Save many on one stream."""

    async def sent() -> AsyncIterator[pb.StreamMemoriesRequest]:
        for request in requests:
            yield pb.StreamMemoriesRequest(item=request)

    return await services.memory.StreamMemories(sent())


async def update(
    services: Services,
    memory_id: str,
    *paths: str,
    user: str = "ana",
    version: int = 0,
    key: str = "",
    **fields: Any,
) -> memory_pb2.Memory:
    """Correct a memory; without `paths`, every given field."""
    free = {name: fields.pop(name) for name in ("context", "metadata") if name in fields}
    request = pb.UpdateMemoryRequest(
        user_id=user,
        memory_id=memory_id,
        memory=memory_pb2.Memory(**fields),
        version=version,
        idempotency_key=key,
    )
    for name, value in free.items():
        getattr(request.memory, name).update(value)
    if paths:
        request.update_mask.CopyFrom(field_mask_pb2.FieldMask(paths=paths))
    return (await services.memory.UpdateMemory(masked(request))).memory


async def forget(services: Services, memory_id: str, *, reason: str = "") -> memory_pb2.Memory:
    reply = await ask(services, "ForgetMemory", memory_id=memory_id, reason=reason)
    return cast(memory_pb2.Memory, reply.memory)


async def restore(services: Services, memory_id: str, *, reason: str = "") -> memory_pb2.Memory:
    reply = await ask(services, "RestoreMemory", memory_id=memory_id, reason=reason)
    return cast(memory_pb2.Memory, reply.memory)


async def review(
    services: Services, memory_id: str, decision: Any, *, reason: str = ""
) -> memory_pb2.Memory:
    """Decide about a memory of Ana's."""
    decided = {"memory_id": memory_id, "decision": decision, "reason": reason}
    return cast(memory_pb2.Memory, (await ask(services, "ReviewMemory", **decided)).memory)


async def found(services: Services, query: str, *, user: str = "ana") -> list[str]:
    """What a search finds, the best first."""
    reply = await ask(services, "SearchMemories", user_id=user, query=query)
    return [result.memory.content for result in reply.results]


async def checks(services: Services, *, user: str = "ana") -> list[job_pb2.Job]:
    """The user's jobs that read no conversation, once they have ended, the oldest first."""
    listed = await ask(services, "ListJobs", user_id=user, page_size=200)
    about_memories = [job for job in reversed(listed.jobs) if not job.conversation_id]
    done = [await ended(services, job.id) for job in about_memories]
    for job in done:
        assert job.state == job_pb2.JOB_STATE_SUCCEEDED, job.error
    return done


def history(conninfo: str, memory_id: str) -> list[tuple[Any, ...]]:
    """Action, version, reason and actor of every entry of a memory, the oldest first."""
    return rows(
        conninfo,
        "SELECT action, version, reason, actor FROM history"
        f" WHERE memory_id = '{memory_id}' ORDER BY recorded_at, event_id",
    )


def change(conninfo: str, statement: str, **values: Any) -> None:
    """Put the test's database into a state that would take long to come about."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute(statement.encode(), values)


async def events(services: Services, memory_id: str) -> list[history_pb2.HistoryEvent]:
    """What happened to a memory of ana's, newest first."""
    return [*(await ask(services, "GetMemoryHistory", memory_id=memory_id)).events]


def plain(value: struct_pb2.Struct) -> dict[str, Any]:
    return json_format.MessageToDict(value)
