"""Listening sockets of the tests' own servers, which no connection outlives, and free ports."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Self

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

_TURNS_OF_AN_ACCEPT = 10
"""Turns of the loop that a connection needs from accept() to its handler, and some more."""


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Listener:
    """Serves connections to 127.0.0.1, each in a task, as an async context manager.

    Args:
        serve: What happens on a connection, which is cut when this ends. Clients may leave in the
            middle of an answer, so that a ConnectionError is no failure.
        port: The port; 0 takes a free one.
        tls: Certificate and key, if the connections are encrypted.

    Attributes:
        port: The port listened on, once it listens.
    """

    def __init__(self, serve: Serve, *, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self._serve = serve
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = port

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._accept, "127.0.0.1", self.port, ssl=self._tls
        )
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_exception: object) -> None:
        """Stop listening and cut every connection, hanging ones included."""
        # No more accepts; then what is accepted but not handed over yet becomes a connection. A
        # server that closes in between leaves its socket open (asyncio before Python 3.13).
        for accepting in self._server.sockets:
            asyncio.get_running_loop().remove_reader(accepting.fileno())
        for _ in range(_TURNS_OF_AN_ACCEPT):
            await asyncio.sleep(0)
        self._server.close()
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def cut(self) -> None:
        """Cut every connection; new ones are taken."""
        for task in self._tasks:
            task.cancel()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._served(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # Cut, not closed: an unread answer of 50 MB must not hold the connection open. It happens
        # here because a task that is cancelled before its first step runs no `finally`.
        task.add_done_callback(lambda _: writer.transport.abort())

    async def _served(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await self._serve(reader, writer)
