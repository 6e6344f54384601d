"""The process that calls: as many callers as it is told, each sending when its last reply is there.

    python -m benchmarks.retrieval.caller

It takes one JSON object a line over TCP, `CallerLoad`, and answers each with one line,
`CallerResult`. Every caller has a connection of its own, as callers in different processes have.
Replies are neither read nor kept but for a few, which are looked at once the clock has stopped. It
prints `port N` once it listens, and ends with its standard input.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import grpc
import uvloop

from benchmarks.retrieval.requests import RequestStream

LINE_BYTES = 1 << 26
_CALL_SECONDS = 30.0
_LOOKED_AT = 8
"""Of so many replies one is looked at."""


@dataclass(frozen=True, slots=True)
class CallerLoad:
    """What is to be sent, by how many callers, whereto and how long.

    Attributes:
        port: Of 127.0.0.1.
        callers: Each has one request on its way.
        seconds: After these no more requests are sent.
        asking: The fields of a `RequestStream`.
        key: The API key that is sent along; empty: none.
    """

    port: int
    callers: int
    seconds: float
    asking: Mapping[str, Any]
    key: str = ""


@dataclass(frozen=True, slots=True)
class CallerResult:
    """What came of it.

    Attributes:
        ms: How long each call took, in no order.
        seconds: From the first request to the last reply.
        cpu_seconds: What this process spent on it.
        looked_at: How many replies were looked at.
        faults: How many of these were not as they should be, by what was wrong.
        error: The first call that failed, if one did; nothing is sent after it.
    """

    ms: Sequence[float]
    seconds: float
    cpu_seconds: float
    looked_at: int
    faults: Mapping[str, int]
    error: str = ""


class Callers:
    """Keeps connections to one port between pieces of work."""

    def __init__(self) -> None:
        self._channels: dict[tuple[int, int], grpc.aio.Channel] = {}

    async def work(self, work: CallerLoad) -> CallerResult:
        """Send and wait for the last reply."""
        asking = RequestStream(**work.asking)
        following = asking.requests()
        metadata = [("authorization", f"Bearer {work.key}")] if work.key else []
        ms: list[float] = []
        kept: list[bytes] = []
        errors: list[str] = []

        async def call_again_and_again(call: Callable[..., Any]) -> None:
            while time.perf_counter() < end and not errors:
                request = following()
                before = time.perf_counter()
                try:
                    reply = await call(request, metadata=metadata, timeout=_CALL_SECONDS)
                except grpc.aio.AioRpcError as error:
                    errors.append(f"{error.code().name}: {error.details()}")
                    return
                ms.append(1_000 * (time.perf_counter() - before))
                if len(ms) % _LOOKED_AT == 0:
                    kept.append(reply)

        calls: list[Callable[..., Any]] = [
            self._channel(work.port, number).unary_unary(asking.method)
            for number in range(work.callers)
        ]
        spent, began = time.process_time(), time.perf_counter()
        end = began + work.seconds
        await asyncio.gather(*(call_again_and_again(call) for call in calls))
        seconds = time.perf_counter() - began
        spent = time.process_time() - spent
        faults = Counter(fault for reply in kept if (fault := asking.fault(reply)))
        return CallerResult(
            ms=[round(value, 4) for value in ms],
            seconds=seconds,
            cpu_seconds=spent,
            looked_at=len(kept),
            faults=dict(faults),
            error=errors[0] if errors else "",
        )

    async def close(self) -> None:
        """Close the connections."""
        for channel in self._channels.values():
            await channel.close()

    def _channel(self, port: int, number: int) -> grpc.aio.Channel:
        key = (port, number)
        if key not in self._channels:
            self._channels[key] = grpc.aio.insecure_channel(
                f"127.0.0.1:{port}",
                options=[
                    # Otherwise all callers would share one connection.
                    ("grpc.use_local_subchannel_pool", 1),
                    ("grpc.max_receive_message_length", -1),
                ],
            )
        return self._channels[key]


async def serve() -> None:
    """Work until standard input ends."""
    callers = Callers()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            seen = await callers.work(CallerLoad(**json.loads(line)))
            writer.write(json.dumps(asdict(seen)).encode() + b"\n")
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0, limit=LINE_BYTES)
    print(f"port {server.sockets[0].getsockname()[1]}", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.close()
    await callers.close()


if __name__ == "__main__":
    uvloop.run(serve())
