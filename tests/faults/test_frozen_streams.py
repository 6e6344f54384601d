"""Every stream of the contract ends by itself and in time while Postgres is frozen (row 16)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc

from tests.e2e.methods import METHODS, OFFERED
from tests.e2e.requests import message, transcript
from tests.faults.processes import Processes, Service, stub
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
        self, writing: grpc.aio.Channel, reading: grpc.aio.Channel, job_id: str, lines: list[bytes]
    ) -> None:
        self._channels = {"RetrievalService": reading}
        self._writing = writing
        self._job_id = job_id
        self._lines = lines
        self.frozen = asyncio.Event()
        self.begun: set[str] = set()

    def _start(self, rpc: str, *given: Any) -> Any:
        channel = self._channels.get(rpc.partition("/")[0], self._writing)
        return stub(channel, rpc)(*given)

    async def _read(self, name: str, rpc: str, **fields: Any) -> None:
        async for _ in self._start(rpc, METHODS[rpc].request(**fields)):
            self.begun.add(name)
            if rpc.endswith("ExportUser"):
                await self.frozen.wait()

    async def _write(self, name: str, rpc: str, first: Any, second: Any) -> None:
        """One item before, one once Postgres is frozen."""

        async def items() -> AsyncIterator[Any]:
            yield METHODS[rpc].request(**first)
            self.begun.add(name)
            await self.frozen.wait()
            yield METHODS[rpc].request(**second)

        await self._start(rpc, items())

    async def watch(self, name: str) -> None:
        """WatchJob of a job that does not end."""
        await self._read(name, "ExtractionService/WatchJob", job_id=self._job_id)

    async def changes(self, name: str) -> None:
        """WatchMemories of a user whom nothing happens to."""
        await self._read(name, "RetrievalService/WatchMemories", user_id="ana")

    async def export(self, name: str) -> None:
        """ExportUser, read on only once Postgres is frozen."""
        # One export of a user goes on at a time.
        user = "large" if name == "ExportUser" else "ana"
        await self._read(name, "PrivacyService/ExportUser", user_id=user)

    async def transcripts(self, name: str) -> None:
        item = {"transcript": transcript()}
        await self._write(name, "ExtractionService/StreamTranscripts", item, item)

    async def memories(self, name: str) -> None:
        item = {"item": {"user_id": "ana", "content": "Likes tea."}}
        await self._write(name, "MemoryService/StreamMemories", item, item)

    async def restore(self, name: str) -> None:
        """ImportUser: the user before, the rest once Postgres is frozen."""
        pieces = self._lines[0], b"".join(self._lines[1:])
        first, second = ({"user_id": name, "data": piece} for piece in pieces)
        await self._write(name, "PrivacyService/ImportUser", first, second)

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
    try:
        await stream
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def exported_lines(extraction: Service, channel: grpc.aio.Channel) -> list[bytes]:
    """The export of a user with one memory: the user, the memory and its own, the manifest."""
    await extraction.ask("MemoryService/SaveMemory", user_id="bo", content="Likes tea.")
    export = "PrivacyService/ExportUser"
    going = stub(channel, export)(METHODS[export].request(user_id="bo"))
    return b"".join([reply.data async for reply in going]).splitlines(keepends=True)


async def test_every_stream_ends_while_postgres_is_frozen(
    private: Processes, model: ScriptedModel
) -> None:
    extraction = await private.start("extraction")
    retrieval = await private.start("retrieval")
    async with (
        extraction.channel(*SMALL_WINDOWS) as channel,
        retrieval.channel(*SMALL_WINDOWS) as reading,
    ):
        model.delay = 3_600.0
        long = transcript(*(message("word " * 10_000) for _ in range(MESSAGES)), user="large")
        submit = "ExtractionService/SubmitTranscripts"
        accepted = await extraction.ask(submit, transcripts=[long])
        lines = await exported_lines(extraction, channel)
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
