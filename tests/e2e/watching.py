"""Watching changes, for the end-to-end tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any

import grpc
from google.protobuf.duration_pb2 import Duration

from hitherto.v1 import change_pb2, history_pb2
from hitherto.v1 import retrieval_service_pb2 as pb
from tests.e2e.conftest import Services

PATIENCE_SECONDS = 180.0


def kind_of(change: change_pb2.MemoryChange) -> str:
    """What happened, in a word."""
    name = history_pb2.HistoryEventKind.Name(change.kind)
    return name.removeprefix("HISTORY_EVENT_KIND_").lower()


class Watcher:
    """A stream of changes, open once its first message is there: `async with Watcher(...)`.

    Attributes:
        token: That of the last message.
        consistency_token: That of the last message with changes.
        heard: All changes so far.
    """

    def __init__(
        self,
        services: Services,
        user: str = "ana",
        after: str = "",
        *,
        seconds: int = 60,
        **how: Any,
    ) -> None:
        metadata = how.pop("metadata", None)
        self._request = pb.WatchMemoriesRequest(
            user_id=user, after=after, heartbeat=Duration(seconds=seconds), **how
        )
        self._call: Any = services.retrieval.WatchMemories(self._request, metadata=metadata)
        self.token = ""
        self.consistency_token = ""
        self.heard: list[change_pb2.MemoryChange] = []

    async def __aenter__(self) -> Watcher:
        await self.message()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._call.cancel()

    async def message(self) -> pb.WatchMemoriesResponse:
        """The next message."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            found = await self._call.read()
        if found is grpc.aio.EOF:
            # Raises what ended the stream, if it was an error.
            await self._call.wait_for_connection()
            raise EOFError(await self._call.code())
        assert found.token
        self.token = found.token
        self.heard += found.changes
        if found.changes:
            assert found.consistency_token
            self.consistency_token = found.consistency_token
        message: pb.WatchMemoriesResponse = found
        return message

    async def until(self, heard: Callable[[list[change_pb2.MemoryChange]], bool]) -> Watcher:
        """Read until what was heard is enough."""
        while not heard(self.heard):
            await self.message()
        return self

    async def until_count(self, count: int) -> Watcher:
        """Read until so many changes were heard."""
        return await self.until(lambda heard: len(heard) >= count)
