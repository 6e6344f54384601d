"""The web server of the console and of MCP over HTTP, which waits for nobody for ever."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_REQUEST_BYTES = 1024 * 1024
"""What the body of a request may hold. The form of a full profile takes less than half of it."""
REQUEST_SECONDS = 30.0
"""How long a client may take to send a request, with its body."""
MOST_WAITING = 200
"""Connections of clients that have not sent all of a request."""
DRAIN_SECONDS = 5


class ImpatientProtocol(H11Protocol):
    """A connection that is closed if its client takes too long to send a request.

    uvicorn waits without limit. Anybody could thus hold all connections that the process may open,
    and the memory of as many bodies.
    """

    _waits_since = 0.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request; if too many wait, one is closed.

        It is the one that waits longest of those from the address from which most wait.
        """
        super().connection_made(transport)
        self._wait()
        waiting = [one for one in self.connections if isinstance(one, type(self)) and one._waits]
        if len(waiting) > MOST_WAITING:
            [(crowd, _)] = Counter(one._address for one in waiting).most_common(1)
            of_crowd = (one for one in waiting if one._address == crowd)
            min(of_crowd, key=lambda one: one._waits_since)._give_up()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._stop()
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

    def _give_up(self) -> None:
        if self._waits:
            self.transport.abort()

    @property
    def _address(self) -> str:
        return self.client[0] if self.client else ""

    @property
    def _waits(self) -> bool:
        """Whether the client has not sent all of a request."""
        sending = self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        return sending and not self.transport.is_closing()


def web_server_config(
    app: ASGIApp,
    host: str,
    port: int,
    certificate_file: str | None = None,
    key_file: str | None = None,
    *,
    proxies: Sequence[str] = (),
    has_own_log: bool = False,
) -> uvicorn.Config:
    """What serves an application.

    What `proxies`, and those on this machine, say of a request is believed: who sent it, and
    whether it came over TLS. `has_own_log` tells that the process has configured logging; else the
    server writes what goes wrong, for people. TLS needs both files, in PEM format.
    """
    return uvicorn.Config(
        app,
        log_config=None if has_own_log else uvicorn.config.LOGGING_CONFIG,
        log_level=None if has_own_log else "warning",
        host=host,
        port=port,
        http=ImpatientProtocol,
        ws="none",
        # Addresses name people.
        access_log=False,
        server_header=False,
        forwarded_allow_ips=["127.0.0.1", "::1", *proxies],
        ssl_certfile=certificate_file,
        ssl_keyfile=key_file,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
