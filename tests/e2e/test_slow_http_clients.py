"""The console and MCP over HTTP stay open while others hold connections and send nothing (H4)."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
import uvicorn
from starlette.responses import PlainTextResponse
from uvicorn.protocols.http import h11_impl

from hitherto_client import web_server
from hitherto_client.console.target import ConsoleTarget
from hitherto_client.web_server import web_server_config
from tests.certificates import Authority
from tests.e2e import test_mcp
from tests.e2e.conftest import Services
from tests.e2e.consoles import console_over, served
from tests.e2e.consoles import web_server as a_web_server
from tests.waiting import eventually

BEGINNINGS = {
    "nothing": b"",
    "half a head": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: ",
    "half a body": (
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer x\r\n"
        b"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
        b"Content-Length: 1000\r\n\r\n{"
    ),
    "half a second request": (
        b"GET /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "
    ),
}
PATIENCE_SECONDS = 120.0


@pytest.fixture(params=["console", "mcp"])
async def address(request: pytest.FixtureRequest, services: Services) -> AsyncIterator[str]:
    """Where one of the two listens."""
    async with AsyncExitStack() as stack:
        starting = console_over if request.param == "console" else test_mcp.served
        yield await stack.enter_async_context(starting(services))


async def begun(
    address: str, beginning: bytes, source: str = ""
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection over which no more than the beginning of a request is sent."""
    where = urlsplit(address)
    reader, writer = await asyncio.open_connection(
        where.hostname, where.port, local_addr=(source, 0) if source else None
    )
    writer.write(beginning)
    await writer.drain()
    return reader, writer


async def closed(reader: asyncio.StreamReader) -> None:
    """Wait until the other side has closed."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        try:
            await reader.read()
        except ConnectionResetError:
            return


async def test_an_unfinished_request_is_not_waited_for(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_server, "REQUEST_SECONDS", 0.2)
    for name, beginning in BEGINNINGS.items():
        print(name)  # The last one that pytest shows is the one that hangs.
        reader, writer = await begun(address, beginning)
        await closed(reader)
        writer.close()


async def test_of_many_that_send_nothing_the_oldest_is_closed(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_server, "MOST_WAITING", 3)
    silent = [await begun(address, b"") for _ in range(4)]
    await closed(silent[0][0])
    async with httpx2.AsyncClient(trust_env=False, timeout=PATIENCE_SECONDS) as http:
        assert (await http.get(address)).status_code in (303, 200, 401)
    for _, writer in silent:
        writer.close()


@pytest.mark.parametrize(
    ("one", "many"), [("127.0.0.1", "127.0.0.2"), ("2001:db8:0:8::1", "2001:db8:0:7::{:x}")]
)
async def test_a_crowd_at_one_address_closes_its_own_and_no_other_s(
    address: str, monkeypatch: pytest.MonkeyPatch, one: str, many: str
) -> None:
    """Who has one address of IPv6 has its network of 64 bits, and no larger one."""

    def seen(transport: asyncio.Transport) -> tuple[str, int]:
        host, port = transport.get_extra_info("peername")
        return (many if host == "127.0.0.2" else one).format(port), port

    monkeypatch.setattr(h11_impl, "get_remote_addr", seen)
    monkeypatch.setattr(web_server, "MOST_WAITING", 3)
    reader, writer = await begun(address, BEGINNINGS["half a head"])
    crowd = [await begun(address, b"", "127.0.0.2") for _ in range(6)]
    for each, _ in crowd[:4]:
        await closed(each)
    writer.write(b"x\r\n\r\n")
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert (await reader.readline()).startswith(b"HTTP/1.1 ")
    for open_one in (writer, *(each for _, each in crowd)):
        open_one.close()


@pytest.mark.parametrize("at_the_end", [b"keep-alive", b"close"])
async def test_a_reply_that_is_not_read_is_not_kept(
    monkeypatch: pytest.MonkeyPatch, at_the_end: bytes
) -> None:
    """Also after the connection's end, when what was not sent is kept for the client."""
    state = uvicorn.server.ServerState()
    monkeypatch.setattr(uvicorn.server, "ServerState", lambda: state)
    monkeypatch.setattr(web_server, "MOST_WAITING", 3)
    monkeypatch.setattr(web_server, "UNREAD_SECONDS", 3_600.0)
    asking = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: " + at_the_end + b"\r\n\r\n"
    size = 32 * 1024 * 1024  # more than the buffers of two sockets hold
    app = PlainTextResponse(b"x" * size)
    async with a_web_server(lambda port: web_server_config(app, "127.0.0.1", port)) as port:

        async def answered() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            reader, writer = await begun(f"http://127.0.0.1:{port}", asking)
            await reader.readuntil(b"\r\n\r\n")
            return reader, writer

        async with asyncio.timeout(PATIENCE_SECONDS):
            unread = [await answered()]
            [oldest] = state.connections
            unread += [await answered() for _ in range(3)]
            await eventually(lambda: oldest not in state.connections, "a place")
            assert len(state.connections) == 3
            # Whoever reads on gets all.
            assert len(await unread[-1][0].readexactly(size)) == size
        for _, writer in unread:
            writer.close()
        await eventually(lambda: not state.connections)
        monkeypatch.setattr(web_server, "UNREAD_SECONDS", 0.2)
        _, writer = await answered()
        await eventually(lambda: not state.connections, "the end of a reply that is not read")
        writer.close()


async def test_unfinished_handshakes_are_bounded_like_unfinished_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a client sends nothing, or the beginning of its first message."""
    # The event loop gives up a handshake too, though any number of others may wait meanwhile.
    monkeypatch.setattr("asyncio.constants.SSL_HANDSHAKE_TIMEOUT", 3_600.0)
    monkeypatch.setattr(web_server, "MOST_WAITING", 3)
    authority = Authority(tmp_path, "ours")
    trusted = ssl.create_default_context(cafile=authority.file)
    target = ConsoleTarget("127.0.0.1:1", "127.0.0.1:1")  # no page is asked for
    state = uvicorn.server.ServerState()
    monkeypatch.setattr(uvicorn.server, "ServerState", lambda: state)
    async with served(target, authority.pair("console")) as url:
        silent = [await begun(url, beginning) for beginning in (b"", b"\x16\x03\x01", b"", b"")]
        await closed(silent[0][0])
        async with httpx2.AsyncClient(trust_env=False, verify=trusted) as http:
            assert (await http.get(f"{url}/nowhere", timeout=PATIENCE_SECONDS)).status_code == 404
        await closed(silent[1][0])
        monkeypatch.setattr(web_server, "REQUEST_SECONDS", 0.2)
        silent.append(await begun(url, b"\x16\x03\x01"))
        await closed(silent[-1][0])
        for _, writer in silent:
            writer.close()
        # The end of the server would wait for those that it still knows.
        left = "connections are left whose handshake failed"
        await eventually(lambda: not state.connections, left, seconds=PATIENCE_SECONDS)


async def test_an_end_of_tls_that_is_not_answered_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asyncio.constants, "SSL_SHUTDOWN_TIMEOUT", 10 * PATIENCE_SECONDS)
    authority = Authority(tmp_path, "ours")
    trusted = ssl.create_default_context(cafile=authority.file)
    target = ConsoleTarget("127.0.0.1:1", "127.0.0.1:1")  # no page is asked for
    async with served(target, authority.pair("console")) as url:
        reader, writer = await begun(url, b"")
        heard, said = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = trusted.wrap_bio(heard, said, server_hostname="127.0.0.1")
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                writer.write(said.read())
                heard.write(await reader.read(65_536))
        tls.write(b"no request\r\n\r\n")
        writer.write(said.read())
        await closed(reader)
        writer.close()
