"""A gRPC service of one method that neither reads nor writes messages: what floors are made of."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

import grpc

METHOD = "/hitherto.benchmark.Floor/Take"

Take = Callable[[bytes], Awaitable[bytes]]
"""Makes the bytes of a reply of those of a request."""


class BareService(grpc.GenericRpcHandler):
    """Answers the one method."""

    def __init__(self, take: Take) -> None:
        self._take = take

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        """The handler of the method, without any reading of messages."""
        if handler_call_details.method != METHOD:
            return None
        return grpc.unary_unary_rpc_method_handler(self._answer)

    async def _answer(self, request: bytes, _: object) -> bytes:
        return await self._take(request)


async def serve(take: Take) -> None:
    """Answer on a free port of 127.0.0.1, which is printed, until standard input ends."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers([BareService(take)])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"port {port}", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await server.stop(None)
