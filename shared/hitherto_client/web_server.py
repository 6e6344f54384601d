"""The web server of the console and of MCP over HTTP, which waits for nobody for ever."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import math
import os
import ssl
from asyncio.sslproto import SSLProtocol
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import h11
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.utils import get_remote_addr

logger = logging.getLogger("uvicorn.error")

MOST_REQUEST_BYTES = 1024 * 1024
"""What the body of a request may hold. The form of a full profile takes less than half of it."""
REQUEST_SECONDS = 30.0
"""How long a client may take to send a request, with its body."""
UNREAD_SECONDS = 60.0
"""How long a client may read nothing of what is left of a reply."""
MOST_WAITING = 200
"""Connections of clients that have not sent all of a request, or not read what was sent."""
DRAIN_SECONDS = 5
TLS_END_SECONDS = 2.0
"""How long a client may take to answer the end of TLS. Such connections count nowhere."""


class ImpatientProtocol(H11Protocol):
    """A connection that is closed if its client takes too long to send a request or read a reply.

    uvicorn waits without limit, and the event loop waits a minute for any number of TLS handshakes.
    Anybody could thus hold all connections that the process may open, and the memory of as many
    bodies. So a handshake takes place here, and counts as a request that is not sent.
    """

    tls: ssl.SSLContext | None = None
    _handshake: asyncio.Future[None] | None = None
    _waits_since = 0.0
    _timer: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None
    """Runs while the client has not read all that was sent, also after the connection's end."""
    _address = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        if self.tls is None or self._handshake is not None:
            super().connection_made(transport)
            # What is not read pauses at its second byte: TLS would pause at 0 for nothing.
            transport.set_write_buffer_limits(high=1)
        else:
            self.transport, self.client = transport, get_remote_addr(transport)
            self.connections.add(self)
            self._handshake = self.loop.create_future()
            self._handshake.add_done_callback(self._shook_hands)
            # `start_tls` would leave it to chance who gets the first bytes.
            secured = SSLProtocol(
                self.loop,
                self,
                self.tls,
                self._handshake,
                server_side=True,
                ssl_shutdown_timeout=TLS_END_SECONDS,
            )
            transport.set_protocol(secured)
            secured.connection_made(transport)
        self._address = neighbourhood(self.client[0] if self.client else "")
        self._wait()
        self._thin_out()

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        self._waits_since = self.loop.time()
        self._expect_less_than(math.inf)
        self._thin_out()

    def resume_writing(self) -> None:
        """Wait no longer: the client has read what there was."""
        self._stop_reading()
        super().resume_writing()

    def _expect_less_than(self, unread: float) -> None:
        left = self.transport.get_write_buffer_size()
        if left < unread:
            self._reading = self.loop.call_later(UNREAD_SECONDS, self._expect_less_than, left)
        else:
            self.transport.abort()

    def _thin_out(self) -> None:
        """If too many wait, close the longest of those at the address from which most wait."""
        waiting = [
            one for one in self.connections if isinstance(one, ImpatientProtocol) and one._waits
        ]
        if len(waiting) > MOST_WAITING:
            [(crowd, _)] = Counter(one._address for one in waiting).most_common(1)
            of_crowd = (one for one in waiting if one._address == crowd)
            min(of_crowd, key=lambda one: one._waits_since).transport.abort()

    def _shook_hands(self, handshake: asyncio.Future[None]) -> None:
        """Forget a connection whose handshake failed: only the others are lost."""
        if handshake.exception() or self.flow is None:
            self._stop()
            self.connections.discard(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._stop()
        self._stop_reading()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._wait()
        super().on_response_complete()

    def _wait(self) -> None:
        self._stop()
        self._waits_since = self.loop.time()
        self._timer = self.loop.call_later(REQUEST_SECONDS, self._give_up)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _give_up(self) -> None:
        if self._sends:
            self.transport.abort()

    @property
    def _sends(self) -> bool:
        """Whether the client has not sent all of a request."""
        sending = self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        return sending and not self.transport.is_closing()

    @property
    def _waits(self) -> bool:
        return self._sends or self._reading is not None


def neighbourhood(address: str) -> str:
    """What counts as one address: of IPv6 a /64, which every client has for itself."""
    try:
        found = ipaddress.IPv6Address(address)
    except ValueError:
        return address
    return address if found.ipv4_mapped else str(ipaddress.ip_network((found, 64), strict=False))


class ServedCertificate:
    """A certificate and its key: after one of the files was replaced, new connections use both.

    What cannot be used is logged, and what was read before it stays in use.
    """

    def __init__(self, certificate: str, key: str) -> None:
        """Read both files, in PEM format.

        Raises:
            ValueError: They cannot be used.
        """
        self._files = (certificate, key)
        self._stamps = self._stamp()
        try:
            self.context = self._newest = self._read()
        except OSError as error:
            raise ValueError(self._refusal(error)) from None
        self.context.sni_callback = self._choose

    def _choose(self, connection: ssl.SSLObject, name: str | None, first: ssl.SSLContext) -> None:
        """OpenSSL asks for each connection, whether or not it names a host."""
        found = self._stamp()
        if found != self._stamps:
            # Once for each change: the key is often written after the certificate.
            try:
                self._newest = self._read(password=b"")
            except (ssl.SSLError, FileNotFoundError, PermissionError) as error:
                logger.warning("what replaced a file for TLS is not used: %s", self._refusal(error))
            except OSError:
                # It passes, such as a lack of descriptors: the next connection tries again.
                found = self._stamps
            self._stamps = found
        connection.context = self._newest

    def _read(self, password: bytes | None = None) -> ssl.SSLContext:
        for file in self._files:
            # OpenSSL does not say which one is missing, or not ours to read.
            Path(file).open("rb").close()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # Without a password, OpenSSL asks at the terminal.
        context.load_cert_chain(*self._files, None if password is None else lambda: password)
        return context

    def _refusal(self, error: OSError) -> str:
        if not isinstance(error, ssl.SSLError):
            return f"{error.filename}: {error.strerror}"
        certificate, key = self._files
        why = error.reason or "it cannot be read"
        return f"{certificate} and {key} hold no certificate with its key in PEM ({why})"

    def _stamp(self) -> tuple[tuple[int, ...] | None, ...]:
        """What changes when a file is replaced or written."""
        return tuple(map(_stamp, self._files))


def _stamp(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    # Of a change of rights, only the last tells.
    return found.st_ino, found.st_mtime_ns, found.st_size, found.st_ctime_ns


def refuse_two_lengths(app: ASGIApp) -> ASGIApp:
    """Answer 400 to a request with both Content-Length and Transfer-Encoding, and close.

    A proxy may see its end elsewhere, and take what follows for a request of somebody else.
    """
    refused = PlainTextResponse(
        "Send Content-Length or Transfer-Encoding, not both.\n", 400, {"connection": "close"}
    )

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        names = {name for name, _ in scope.get("headers", ())}
        two = {b"content-length", b"transfer-encoding"} <= names
        await (refused if two else app)(scope, receive, send)

    return checked


def web_server_config(
    app: ASGIApp,
    host: str,
    port: int,
    certificate: ServedCertificate | None = None,
    *,
    proxies: Sequence[str] = (),
    has_own_log: bool = False,
) -> uvicorn.Config:
    """What serves an application.

    What `proxies`, and those on this machine, say of a request is believed: who sent it, and
    whether it came over TLS. `has_own_log` tells that the process has configured logging; else the
    server writes what goes wrong, for people. Without a certificate, it serves without TLS.
    """
    # Left to itself, uvicorn would let the event loop accept TLS.
    tls = certificate.context if certificate else None
    return uvicorn.Config(
        refuse_two_lengths(app),
        log_config=None if has_own_log else uvicorn.config.LOGGING_CONFIG,
        log_level=None if has_own_log else "warning",
        host=host,
        port=port,
        http=type("_Protocol", (ImpatientProtocol,), {"tls": tls}),
        ws="none",
        # Addresses name people.
        access_log=False,
        server_header=False,
        forwarded_allow_ips=["127.0.0.1", "::1", *proxies],
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
