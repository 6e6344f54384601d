"""Serves the metrics of a process over HTTP, in threads that nobody can hold for long."""

from __future__ import annotations

import logging
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from socketserver import ThreadingMixIn
from threading import Lock, Thread
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

REQUEST_SECONDS = 30.0
"""How long a connection may last."""
MOST_CONNECTIONS = 32
"""Each has a thread of the service. Above that, the oldest from the busiest address is closed."""

logger = logging.getLogger("hitherto.metrics")


class _PageHandler(WSGIRequestHandler):
    server: _PageServer

    def parse_request(self) -> bool:
        """Read the head of a request; of one that was cut it is no request."""
        return super().parse_request() and self.connection in self.server.began

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


class _PageServer(ThreadingMixIn, WSGIServer):
    """A thread per connection, as in prometheus_client, but few and not for ever."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], registry: CollectorRegistry) -> None:
        self.address_family, _, _, _, found = socket.getaddrinfo(
            *address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        self.began: dict[socket.socket, float] = {}
        self._addresses: dict[socket.socket, str] = {}
        self._lock = Lock()
        super().__init__((str(found[0]), address[1]), _PageHandler)
        self.set_app(make_wsgi_app(registry))

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own."""
        with self._lock:
            if len(self.began) >= MOST_CONNECTIONS:
                [(crowd, _)] = Counter(self._addresses.values()).most_common(1)
                self._cut(next(one for one in self.began if self._addresses[one] == crowd))
            self.began[request] = time.monotonic()
            self._addresses[request] = str(client_address[0])
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """End a connection."""
        with self._lock:
            self.began.pop(request, None)
            self._addresses.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Cut the connections that last too long; called twice a second."""
        with self._lock:
            for request, began in list(self.began.items()):
                if time.monotonic() - began > REQUEST_SECONDS:
                    self._cut(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that went away."""

    def _cut(self, request: socket.socket) -> None:
        """Let the thread of a connection find its end."""
        del self.began[request], self._addresses[request]
        with suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)


@contextmanager
def served_page(listen: str, registry: CollectorRegistry) -> Iterator[None]:
    """Serve a registry at `http://listen/metrics` meanwhile.

    Raises:
        ValueError: The address cannot be used; something else may listen there.
    """
    host, _, port = listen.rpartition(":")
    try:
        server = _PageServer((host.strip("[]"), int(port)), registry)
    except (OSError, OverflowError) as error:
        raise ValueError(f"HITHERTO_METRICS_LISTEN: cannot listen on {listen}: {error}") from None
    thread = Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    logger.info("metrics on port %d", server.server_port)
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
