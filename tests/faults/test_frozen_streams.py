"""Every stream of the contract ends by itself and in time while Postgres is frozen (row 16)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc

from hitherto.v1 import (
    extraction_service_pb2,
    extraction_service_pb2_grpc,
    memory_service_pb2,
    memory_service_pb2_grpc,
    privacy_service_pb2,
    privacy_service_pb2_grpc,
    retrieval_service_pb2,
    retrieval_service_pb2_grpc,
)
from tests.e2e.methods import OFFERED
from tests.e2e.requests import message, transcript
from tests.faults.processes import CHANNEL_OPTIONS, Processes
from tests.scripted_model import ScriptedModel
from tests.waiting import eventually

BOUND_SECONDS = 30.0
"""What the service promises is less; a busy machine takes its time."""
ENDS = {grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE}
MESSAGES = 60
# A reader who waits must hold up the export: no window grows until it holds all of it.
SMALL_WINDOWS = (("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65_536))


class Streams:
    """Every stream there is, begun before Postgres is frozen and again while it is."""

    def __init__(
        self,
        channel: grpc.aio.Channel,
        reading: grpc.aio.Channel,
        job_id: str,
        lines: list[bytes],
    ) -> None:
        self._retrieval: Any = retrieval_service_pb2_grpc.RetrievalServiceStub(reading)
        self._extraction: Any = extraction_service_pb2_grpc.ExtractionServiceStub(channel)
        self._memory: Any = memory_service_pb2_grpc.MemoryServiceStub(channel)
        self._privacy: Any = privacy_service_pb2_grpc.PrivacyServiceStub(channel)
        self._job_id = job_id
        self._lines = lines
        self.frozen = asyncio.Event()
        self.begun: set[str] = set()

    async def watch(self, name: str) -> None:
        """WatchJob of a job that does not end."""
        asked = extraction_service_pb2.WatchJobRequest(job_id=self._job_id)
        async for _ in self._extraction.WatchJob(asked):
            self.begun.add(name)

    async def changes(self, name: str) -> None:
        """WatchMemories of a user whom nothing happens to."""
        asked = retrieval_service_pb2.WatchMemoriesRequest(user_id="ana")
        async for _ in self._retrieval.WatchMemories(asked):
            self.begun.add(name)

    async def export(self, name: str) -> None:
        """ExportUser, read on only once Postgres is frozen."""
        # One export of a user goes on at a time.
        user = "large" if name == "ExportUser" else "ana"
        asked = privacy_service_pb2.ExportUserRequest(user_id=user)
        async for _ in self._privacy.ExportUser(asked):
            self.begun.add(name)
            await self.frozen.wait()

    async def transcripts(self, name: str) -> None:
        """StreamTranscripts: one before, one once Postgres is frozen."""

        async def items() -> AsyncIterator[Any]:
            yield extraction_service_pb2.StreamTranscriptsRequest(transcript=transcript())
            self.begun.add(name)
            await self.frozen.wait()
            yield extraction_service_pb2.StreamTranscriptsRequest(transcript=transcript())

        await self._extraction.StreamTranscripts(items())

    async def memories(self, name: str) -> None:
        """StreamMemories, likewise."""
        item = memory_service_pb2.SaveMemoryRequest(user_id="ana", content="Likes tea.")

        async def items() -> AsyncIterator[Any]:
            yield memory_service_pb2.StreamMemoriesRequest(item=item)
            self.begun.add(name)
            await self.frozen.wait()
            yield memory_service_pb2.StreamMemoriesRequest(item=item)

        await self._memory.StreamMemories(items())

    async def restore(self, name: str) -> None:
        """ImportUser: the user before, the rest once Postgres is frozen."""

        async def pieces() -> AsyncIterator[Any]:
            yield privacy_service_pb2.ImportUserRequest(user_id=name, data=self._lines[0])
            self.begun.add(name)
            await self.frozen.wait()
            yield privacy_service_pb2.ImportUserRequest(
                user_id=name, data=b"".join(self._lines[1:])
            )

        await self._privacy.ImportUser(pieces())

    @property
    def all(self) -> dict[str, Any]:
        """By name of the method."""
        return {
            "WatchJob": self.watch,
            "WatchMemories": self.changes,
            "ExportUser": self.export,
            "ImportUser": self.restore,
            "StreamTranscripts": self.transcripts,
            "StreamMemories": self.memories,
        }


async def ending(stream: Any) -> grpc.StatusCode:
    """How a stream ends."""
    try:
        await stream
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def exported_lines(channel: grpc.aio.Channel) -> list[bytes]:
    """The export of a user with one memory: the user, the memory and its own, the manifest."""
    memory: Any = memory_service_pb2_grpc.MemoryServiceStub(channel)
    await memory.SaveMemory(
        memory_service_pb2.SaveMemoryRequest(user_id="bo", content="Likes tea.")
    )
    privacy: Any = privacy_service_pb2_grpc.PrivacyServiceStub(channel)
    asked = privacy_service_pb2.ExportUserRequest(user_id="bo")
    data = b"".join([reply.data async for reply in privacy.ExportUser(asked)])
    return data.splitlines(keepends=True)


async def test_every_stream_ends_while_postgres_is_frozen(
    private: Processes, model: ScriptedModel
) -> None:
    extraction = await private.start("extraction")
    options = [*CHANNEL_OPTIONS, *SMALL_WINDOWS]
    retrieval = await private.start("retrieval")
    async with (
        grpc.aio.insecure_channel(extraction.address, options=options) as channel,
        grpc.aio.insecure_channel(retrieval.address, options=options) as reading,
    ):
        submit: Any = extraction_service_pb2_grpc.ExtractionServiceStub(channel).SubmitTranscripts
        model.delay = 3_600.0
        accepted = await submit(
            extraction_service_pb2.SubmitTranscriptsRequest(
                transcripts=[
                    transcript(
                        *(message("word " * 10_000) for _ in range(MESSAGES)),
                        user="large",
                    )
                ]
            )
        )
        lines = await exported_lines(channel)
        streams = Streams(channel, reading, accepted.jobs[0].id, lines)
        offered = {
            method.name.partition("/")[2]
            for method in OFFERED
            if method.client_streaming or method.server_streaming
        }
        assert set(streams.all) == offered
        going = {
            name: asyncio.create_task(ending(stream(name))) for name, stream in streams.all.items()
        }
        await eventually(lambda: streams.begun == offered, "all streams to begin")
        private.freeze()
        try:
            streams.frozen.set()
            going |= {
                f"{name}, begun later": asyncio.create_task(ending(stream(f"{name} later")))
                for name, stream in streams.all.items()
            }
            await asyncio.wait(going.values(), timeout=BOUND_SECONDS)
            ended = {name: task.result() if task.done() else None for name, task in going.items()}
        finally:
            private.thaw()
        assert set(ended.values()) <= ENDS, ended
        again = Streams(channel, reading, accepted.jobs[0].id, lines)
        again.frozen.set()

        async def exported() -> bool:
            return await ending(again.export("after")) is grpc.StatusCode.OK

        await eventually(exported, "an export after the thaw")
        assert "Traceback" not in extraction.said
