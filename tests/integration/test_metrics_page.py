"""The page of metrics, asked by many who finish no request."""

from __future__ import annotations

import socket
import threading
import urllib.request
from collections.abc import Iterator

import pytest

from hitherto_shared import metrics, metrics_page
from tests.listening import free_port

PATIENCE_SECONDS = 120.0


@pytest.fixture
def host() -> str:
    """The address at which this process shows its metrics."""
    return "127.0.0.1"


@pytest.fixture
def port(host: str) -> Iterator[int]:
    """Where this process shows its metrics."""
    number = free_port()
    with metrics.shown(f"{host}:{number}"):
        yield number


def begun(port: int, source: str = "127.0.0.1") -> socket.socket:
    """A connection over which half a request is sent."""
    connection = socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS, (source, 0))
    connection.sendall(b"GET /metrics HTTP/1.1\r\nX-Long: ")
    return connection


@pytest.mark.parametrize("host", ["localhost", "0.0.0.0", "*"])
def test_the_page_is_served_at_every_form_of_an_address(port: int) -> None:
    address = f"http://localhost:{port}/metrics"
    with urllib.request.urlopen(address, timeout=PATIENCE_SECONDS) as reply:
        assert b"hitherto_rpcs" in reply.read()


def test_threads_of_unfinished_requests_are_few(port: int) -> None:
    threads = threading.active_count()
    connections = [begun(port) for _ in range(metrics_page.MOST_CONNECTIONS + 8)]
    address = f"http://127.0.0.1:{port}/metrics"
    with urllib.request.urlopen(address, timeout=PATIENCE_SECONDS) as reply:
        assert b"hitherto_rpcs" in reply.read()
    # The oldest have heard that nobody waits for the rest.
    assert [connection.recv(1) for connection in connections[:9]] == [b""] * 9
    assert threading.active_count() <= threads + metrics_page.MOST_CONNECTIONS + 1
    for connection in connections:
        connection.close()


def test_a_crowd_at_one_address_cuts_its_own_and_no_other_s(port: int) -> None:
    first = begun(port)
    crowd = [begun(port, "127.0.0.2") for _ in range(metrics_page.MOST_CONNECTIONS + 4)]
    assert [connection.recv(1) for connection in crowd[:5]] == [b""] * 5
    first.sendall(b"\r\n\r\n")
    assert first.recv(12) == b"HTTP/1.0 200"
    for connection in (first, *crowd):
        connection.close()


def test_an_unfinished_request_is_not_waited_for(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_page, "REQUEST_SECONDS", 0.2)
    with begun(port) as connection:
        assert connection.recv(1) == b""
