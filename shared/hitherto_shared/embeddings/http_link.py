"""A connection to a model server that carries one request after another.

A request is one write and a reply one future: there is no stream, no task and no timer per call.
The caller limits the time, and abandons the connection if it does not wait for the end of a reply.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import cast

import aiohappyeyeballs
from yarl import URL

from hitherto_shared.embeddings.http_reply import MostBytes, NotHttp, Reply

_AT_ONCE = 256 * 1024
"""Bytes written to the transport at a time, so that other tasks can run during a large request."""
_NEXT_ADDRESS_SECONDS = 0.25
"""Delay after which the next address of a server is tried in parallel."""


class ServerDisconnectedError(ConnectionError):
    """The connection ended before the reply did."""


class HttpConnection(asyncio.Protocol):
    """One connection, for one request at a time; see `connected`.

    Attributes:
        heard: Whether any part of the last reply has arrived.
        free_since: Since when it is idle, by the loop's clock.
        gone: Done once the connection has ended.
    """

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.heard = False
        self.free_since = 0.0
        self.gone: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._reply: Reply | None = None
        self._waiting: asyncio.Future[Reply] | None = None
        self._resumed: asyncio.Future[None] | None = None

    @property
    def usable(self) -> bool:
        """Whether a request can be sent over it, as far as known."""
        return self._transport is not None and not self._transport.is_closing()

    async def ask(self, request: bytes, most: MostBytes, *, tunnel: bool = False) -> Reply:
        """Send a request; returns the reply, complete or cut off.

        The connection is closed if its reply is not `reusable`, or if this fails or is cancelled.

        Raises:
            ServerDisconnectedError: The connection ended first.
            OSError: The system's error, or the reply is not HTTP.
        """
        if self._transport is None or not self.usable:
            raise ServerDisconnectedError
        reply = self._reply = Reply(most, tunnel=tunnel)
        waiting = self._waiting = self._loop.create_future()
        try:
            if len(request) <= _AT_ONCE:
                self._transport.write(request)
            else:
                await self._send_in_pieces(self._transport, request, waiting)
            await waiting
        except BaseException:
            # Even if the complete reply arrived just when its caller was cancelled.
            reply.reusable = False
            raise
        finally:
            self._reply = self._waiting = None
            self.heard = reply.begun
            if waiting.done() and not waiting.cancelled():
                # No caller may be left to receive an error.
                waiting.exception()
            if not reply.reusable:
                self.end()
        return reply

    async def secured(self, context: ssl.SSLContext, host: str) -> None:
        """Start TLS with the server at the other end of a tunnel."""
        assert self._transport is not None
        transport = await self._loop.start_tls(self._transport, self, context, server_hostname=host)
        if transport is None:
            raise ServerDisconnectedError
        self._transport = transport

    def end(self) -> None:
        """Close the connection, and fail the waiting call."""
        if self._transport is not None:
            self._transport.abort()
        self._fail(ServerDisconnectedError())

    async def _send_in_pieces(
        self, transport: asyncio.Transport, request: bytes, waiting: asyncio.Future[Reply]
    ) -> None:
        view = memoryview(request)
        for start in range(0, len(request), _AT_ONCE):
            # The server may reply, or disconnect, before it has received everything.
            if waiting.done():
                return
            transport.write(view[start : start + _AT_ONCE])
            if self._resumed is not None:
                await asyncio.wait((self._resumed, waiting), return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.sleep(0)

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is there."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        reply = self._reply
        if reply is None or reply.complete:
            # Unrequested: whatever it is, it cannot be distinguished from the next reply.
            self.end()
            return
        try:
            complete = reply.feed(data)
        except OSError as error:
            self._fail(error)
            return
        if complete:
            self._answered(reply)

    def eof_received(self) -> bool:
        """The server sends no more."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """The connection has ended."""
        if not self.gone.done():
            self.gone.set_result(None)
        self.resume_writing()
        if (reply := self._reply) is None:
            return
        if error is None and reply.begun:
            try:
                reply.end()
            except NotHttp:
                self._fail(ServerDisconnectedError())
            else:
                self._answered(reply)
            return
        self._fail(error if isinstance(error, OSError) else ServerDisconnectedError())

    def pause_writing(self) -> None:
        """The server reads more slowly than we write."""
        self._resumed = self._loop.create_future()

    def resume_writing(self) -> None:
        """It has caught up."""
        resumed, self._resumed = self._resumed, None
        if resumed is not None and not resumed.done():
            resumed.set_result(None)

    def _answered(self, reply: Reply) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(reply)

    def _fail(self, error: OSError) -> None:
        if self._reply is not None:
            self._reply.reusable = False
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error)


async def connected(url: URL, *, tls: ssl.SSLContext | None) -> HttpConnection:
    """A connection to the server of `url`; with `tls` if it is spoken with this very server.

    Raises:
        OSError: It could not be made.
        UnicodeError: The name cannot be looked up.
    """
    loop = asyncio.get_running_loop()
    assert url.raw_host is not None
    assert url.port is not None
    found = await loop.getaddrinfo(url.raw_host, url.port, type=socket.SOCK_STREAM)
    address = await aiohappyeyeballs.start_connection(
        found, happy_eyeballs_delay=_NEXT_ADDRESS_SECONDS, interleave=1, loop=loop
    )
    try:
        _, link = await loop.create_connection(
            HttpConnection, sock=address, ssl=tls, server_hostname=url.raw_host if tls else None
        )
    except BaseException:
        address.close()
        raise
    return link
