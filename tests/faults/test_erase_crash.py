"""Kill -9 in the middle of EraseUser (H2, faults.md row 56)."""

from __future__ import annotations

import asyncio

import grpc
import psycopg

from hitherto.v1 import (
    memory_service_pb2,
    memory_service_pb2_grpc,
    privacy_service_pb2,
    privacy_service_pb2_grpc,
)
from tests.e2e.canaries import naming
from tests.faults.processes import CHANNEL_OPTIONS, Processes, Service
from tests.scripted_model import ScriptedModel
from tests.waiting import eventually

USER = "kanari-person"
COUNT = 40


def _privacy(channel: grpc.aio.Channel) -> privacy_service_pb2_grpc.PrivacyServiceAsyncStub:
    return privacy_service_pb2_grpc.PrivacyServiceStub(channel)


def _memories(channel: grpc.aio.Channel) -> memory_service_pb2_grpc.MemoryServiceAsyncStub:
    return memory_service_pb2_grpc.MemoryServiceStub(channel)


def _open(service: Service) -> grpc.aio.Channel:
    return grpc.aio.insecure_channel(service.address, options=CHANNEL_OPTIONS)


async def test_row_56_killed_between_two_tables(
    shared: Processes, model: ScriptedModel, superuser_conninfo: str
) -> None:
    """The fence outlives the process, and the receipt of the next call covers what it had done."""
    extraction = await shared.start("extraction")
    async with _open(extraction) as channel:
        for n in range(COUNT):
            await _memories(channel).SaveMemory(
                memory_service_pb2.SaveMemoryRequest(
                    user_id=USER, content=f"canary:w{n} The user owns book number {n}."
                )
            )
        with psycopg.connect(superuser_conninfo) as reader:
            # Memories go after all that stands below them: the erase waits here, half done.
            reader.execute("SELECT 1 FROM memories WHERE user_id = %s FOR KEY SHARE", [USER])
            going = asyncio.ensure_future(
                _privacy(channel).EraseUser(privacy_service_pb2.EraseUserRequest(user_id=USER))
            )
            with psycopg.connect(superuser_conninfo, autocommit=True) as looking:
                await eventually(
                    lambda: looking.execute(
                        "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                        " AND query LIKE '%DELETE FROM \"memories\"%'"
                    ).fetchone(),
                    "the erase to reach the memories",
                )
                extraction.kill()
                assert await asyncio.gather(going, return_exceptions=True)
                left = looking.execute("SELECT count(*) FROM memory_embeddings").fetchone()
                assert left == (0,)
    assert naming(superuser_conninfo, USER)
    extraction = await shared.start("extraction")
    async with _open(extraction) as channel:
        try:
            await _memories(channel).SaveMemory(
                memory_service_pb2.SaveMemoryRequest(user_id=USER, content="canary:again")
            )
            raise AssertionError("the fence has not outlived the process")
        except grpc.aio.AioRpcError as error:
            assert error.code() == grpc.StatusCode.FAILED_PRECONDITION  # noqa: PT017
        reply = await _privacy(channel).EraseUser(
            privacy_service_pb2.EraseUserRequest(user_id=USER)
        )
    assert reply.receipt.counts["memories"] == COUNT
    assert reply.receipt.counts["memory_embeddings"] == COUNT
    assert reply.receipt.counts["history"] == COUNT
    assert reply.receipt.counts["users"] == 1
    assert naming(superuser_conninfo, USER, "canary:") == {}
