"""The connections of the door to both services, and its calls over them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import grpc
from starlette.types import Receive

from hitherto_client._async.connection import open_channel
from hitherto_client.calls import Endpoint
from hitherto_client.http_door.connect_error import ConnectError, from_grpc, refusal
from hitherto_client.http_door.incoming import ClientGone, gone
from hitherto_client.http_door.methods import DoorMethod

MAX_STREAMS = 200
"""Streams that are open at the same time. A connection carries 256 calls by default."""
_WATCH_AFTER_SECONDS = 0.05
"""Calls that take longer are cancelled when their client leaves; shorter ones are not worth it."""


class DoorChannels:
    """Calls any RPC with bytes, over connections that are opened by the first call."""

    def __init__(
        self,
        endpoints: Iterable[Endpoint],
        tls: grpc.ChannelCredentials | None,
        methods: Mapping[str, DoorMethod],
    ) -> None:
        self._endpoints = tuple(endpoints)
        self._tls = tls
        self._methods = methods
        self._opened: list[grpc.aio.Channel] = []
        self._stubs: dict[str, Any] = {}
        self._streams = 0

    def call(self, method: DoorMethod) -> Any:
        """What calls an RPC with serialized requests and returns serialized replies."""
        if not self._stubs:
            self._open()
        return self._stubs[method.path]

    def _open(self) -> None:
        for endpoint in self._endpoints:
            # Streams have a connection of their own: many that wait must not keep others waiting.
            for streams in (False, True):
                channel = open_channel(endpoint, self._tls)
                self._opened.append(channel)
                for method in self._methods.values():
                    if (method.service, method.streams) == (endpoint.service, streams):
                        self._stubs[method.path] = _stub(channel, method)

    @contextmanager
    def stream(self) -> Iterator[Callable[[], None]]:
        """Around a stream; what it yields ends the stream's place before that."""
        if self._streams >= MAX_STREAMS:
            raise refusal(
                "resource_exhausted",
                f"{MAX_STREAMS} streams are open: try again, or ask without a stream",
                "OVERLOADED",
                {"limit": "streams"},
                retry_after=5,
            )
        self._streams += 1
        held = True

        def leave() -> None:
            nonlocal held
            self._streams -= held
            held = False

        try:
            yield leave
        finally:
            leave()

    async def close(self) -> None:
        """Close the connections; calls in flight fail."""
        opened, self._opened = self._opened, []
        self._stubs = {}
        for channel in opened:
            await channel.close()


def _stub(channel: grpc.aio.Channel, method: DoorMethod) -> Any:
    kinds = ("unary", "stream")
    kind = f"{kinds[method.takes_stream]}_{kinds[method.gives_stream]}"
    return getattr(channel, kind)(method.path)


class Watched:
    """Around a call whose request has been read: it ends when its client closes the connection.

    It also turns the errors of gRPC into those of the protocol.
    """

    __slots__ = ("_call", "_gone", "_method", "_receive", "_task", "_timer")

    def __init__(self, call: Any, method: DoorMethod, receive: Receive) -> None:
        self._call = call
        self._method = method
        self._receive = receive
        self._gone = False
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_WATCH_AFTER_SECONDS, self._begin)

    def _begin(self) -> None:
        self._task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        await gone(self._receive)
        self._gone = True
        self._call.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
        if error is None:
            return
        self._call.cancel()
        if self._gone:
            raise ClientGone from None
        if isinstance(error, grpc.aio.AioRpcError):
            raise from_grpc(error, self._method.service) from None
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and not task.cancelling():
            # gRPC says so when its connection is closed, as at the end of the process.
            raise ConnectError("unavailable", "the door is closing: try again") from None
