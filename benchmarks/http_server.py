"""The least HTTP/1.1 that a client of a model needs: bodies with a length, kept connections."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import cast

Answer = Callable[[str, bytes], tuple[int, bytes]]
"""The status and the body (JSON) of the reply to a request, by its path and body."""


async def serve(answer: Answer, delay: Callable[[str], float] = lambda _: 0.0) -> None:
    """Answer on a free port of 127.0.0.1, which is printed, until standard input ends.

    Args:
        answer: What is answered.
        delay: Seconds to hold back the reply to a path; others are answered meanwhile.
    """
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(answer, delay), "127.0.0.1", 0)
    print(f"port {server.sockets[0].getsockname()[1]}", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


class _Connection(asyncio.Protocol):
    """One connection: requests with a length in, replies with a length out."""

    def __init__(self, answer: Answer, delay: Callable[[str], float]) -> None:
        self._answer = answer
        self._delay = delay
        self._held = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Answer every request that is whole."""
        self._held += data
        while (end := self._held.find(b"\r\n\r\n")) >= 0:
            head = self._held[:end].decode("latin-1")
            stop = end + 4 + _length(head)
            if len(self._held) < stop:
                return
            body = bytes(self._held[end + 4 : stop])
            del self._held[:stop]
            path = head.split(" ", 2)[1]
            seconds = self._delay(path)
            reply = _reply(*self._answer(path, body))
            if seconds > 0:
                asyncio.get_running_loop().call_later(seconds, self._write, reply)
            else:
                self._write(reply)

    def _write(self, reply: bytes) -> None:
        # Whoever waited too long is gone.
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(reply)


def _reply(status: int, body: bytes) -> bytes:
    return (
        b"HTTP/1.1 %d OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        % (status, len(body))
        + body
    )


def _length(head: str) -> int:
    for line in head.split("\r\n")[1:]:
        field, _, value = line.partition(":")
        if field.lower() == "content-length":
            return int(value)
    return 0
