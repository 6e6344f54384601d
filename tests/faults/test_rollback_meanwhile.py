"""A roll-back while another process merges or exports: nothing is lost or comes back (row 72)."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc

from hitherto.v1 import extraction_service_pb2 as extraction_pb
from hitherto.v1 import (
    extraction_service_pb2_grpc,
    job_pb2,
    maintenance_service_pb2_grpc,
    memory_service_pb2_grpc,
    privacy_service_pb2_grpc,
)
from hitherto.v1 import maintenance_service_pb2 as maintenance_pb
from hitherto.v1 import memory_service_pb2 as memory_pb
from hitherto.v1 import privacy_service_pb2 as privacy_pb
from tests.e2e.learning import rows
from tests.faults.conftest import Scene
from tests.faults.processes import CHANNEL_OPTIONS, Service
from tests.scripted_model import ChatAnswer, ChatRequest
from tests.scripted_model.answers import merged
from tests.waiting import eventually

WORDS = ["harbours", "glaciers", "orchards", "violins", "lanterns", "meteors"]
ONE = "Ana draws many things"
LIKES = [f"Ana draws {each}" for each in WORDS]
_PADDING = "x" * 8_000
_SECONDS = 120


@asynccontextmanager
async def calling(service: Service) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(service.address, options=CHANNEL_OPTIONS) as channel:
        yield channel


async def save(service: Service, *requests: memory_pb.SaveMemoryRequest) -> None:
    async with calling(service) as channel:
        stub = memory_service_pb2_grpc.MemoryServiceStub(channel)
        for each in requests:
            await stub.SaveMemory(each, timeout=_SECONDS)


async def take_back(service: Service, conversation_id: str) -> dict[str, int]:
    async with calling(service) as channel:
        stub = maintenance_service_pb2_grpc.MaintenanceServiceStub(channel)
        source = maintenance_pb.RollbackSourceRequest(
            user_id="ana", conversation_id=conversation_id
        )
        return dict((await stub.RollbackSource(source, timeout=_SECONDS)).counts)


def told(scene: Scene) -> set[str]:
    """The words of the memories that are told."""
    found = rows(scene.conninfo, "SELECT content FROM memories WHERE status = 'active'")
    return {content for (content,) in found}


async def test_row_72_a_merge_in_another_process_has_nothing_of_what_is_taken_back(
    scene: Scene,
) -> None:
    go = asyncio.Event()

    async def slow(request: ChatRequest) -> ChatAnswer:
        if not request.consolidation:
            return ChatAnswer.of(new_memories=[])
        await go.wait()
        return ChatAnswer.of(memories=[merged(ONE, [each.local_id for each in request.memories])])

    scene.model.script = slow
    merging = await scene.processes.start("extraction", HITHERTO_RECONCILE="false")
    await save(
        merging,
        *(
            memory_pb.SaveMemoryRequest(
                user_id="ana", content=each, tags=["drawing"], conversation_id=f"c{number}"
            )
            for number, each in enumerate(LIKES)
        ),
    )
    async with calling(merging) as channel, asyncio.timeout(_SECONDS):
        maintenance = maintenance_service_pb2_grpc.MaintenanceServiceStub(channel)
        begun = await maintenance.Consolidate(
            maintenance_pb.ConsolidateRequest(user_id="ana", tag="drawing")
        )
        await scene.model.called(1)
        other = await scene.processes.start("extraction", HITHERTO_RECONCILE="false")
        assert (await take_back(other, "c0"))["memories_forgotten"] == 1
        go.set()
        jobs = extraction_service_pb2_grpc.ExtractionServiceStub(channel)

        async def has_ended() -> Any:
            job = (await jobs.GetJob(extraction_pb.GetJobRequest(job_id=begun.job.id))).job
            return job.state == job_pb2.JOB_STATE_SUCCEEDED

        await eventually(has_ended, "the merge to end")
    # The model was asked again, without what is gone.
    assert told(scene) == {ONE}
    found = rows(scene.conninfo, "SELECT content FROM memories WHERE status = 'superseded'")
    assert {content for (content,) in found} == {*LIKES[1:]}
    assert scene.model.calls["chat"] == 2
    await take_back(merging, "c1")
    assert told(scene) == {*LIKES[2:]}


async def test_row_72_an_export_in_another_process_is_of_one_moment(scene: Scene) -> None:
    """Either before a roll-back or after it, whole."""
    one = await scene.processes.start("extraction", HITHERTO_RECONCILE="false")
    other = await scene.processes.start("extraction", HITHERTO_RECONCILE="false")
    many = []
    for number in range(60):
        made = memory_pb.SaveMemoryRequest(
            user_id="ana", content=f"Ana knows verse {number} of song {number * 7}"
        )
        made.conversation_id = "bad" if number % 2 else "good"
        made.metadata.update({"padding": _PADDING})
        many.append(made)
    await save(one, *many)
    data = b""
    moment: list[Any] = []
    async with calling(one) as channel, asyncio.timeout(_SECONDS):
        stub = privacy_service_pb2_grpc.PrivacyServiceStub(channel)
        async for reply in stub.ExportUser(privacy_pb.ExportUserRequest(user_id="ana")):
            if not data:
                moment.append(await take_back(other, "bad"))
            data += reply.data
            if reply.HasField("manifest"):
                assert reply.manifest.sha256 == hashlib.sha256(data).hexdigest()
                moment.append(reply.manifest.total_bytes)
    assert moment == [{**moment[0], "memories_forgotten": 30}, len(data)]
    lines = [json.loads(each) for each in data.splitlines()]
    found: dict[str, list[Any]] = {}
    for each in lines:
        found.setdefault(each["table"], []).append(each["row"])
    forgotten = [each for each in found["memories"] if each["status"] == "forgotten"]
    gone = [each for each in found["statements"] if each["taken_back_at"] is not None]
    assert len(found["memories"]) == 60
    assert len(forgotten) == len(gone) == len(found.get("memory_versions", ()))
    assert len(forgotten) in (0, 30)
    assert len(told(scene)) == 30
