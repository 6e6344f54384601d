"""Through proxies and TLS: the same roads, the same trust and as little shown by both clients."""

from __future__ import annotations

import asyncio
import base64
import gc
import io
import json
import logging
import socket
import ssl
import traceback
import warnings
from collections.abc import Callable, Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import uvloop

from hitherto_shared.model_api import (
    ModelError,
    ModelMisbehaved,
    ModelMisconfigured,
    ModelUnavailable,
)
from tests.integration.embeddings.raw_server import (
    BOUND,
    KEY,
    PASSWORD,
    USER_TEXT,
    RawServer,
    answer,
    asking,
    both,
    embedding,
)
from tests.scripted_model import Fault, Hang, RawReply, Reset, ScriptedModel, StatusFault, http


def basic(user: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{PASSWORD}".encode()).decode()


@both
async def test_a_request_says_who_asks_and_keeps_no_cookie(kind: str) -> None:
    async def with_cookie(
        request: http.Request, reader: asyncio.StreamReader, writer: Any, number: int
    ) -> None:
        held: Any = io.BytesIO()
        await answer(request, reader, held, number)
        cookie = b"\r\nSet-Cookie: a=b; Path=/\r\n\r\n"
        writer.write(held.getvalue().replace(b"\r\n\r\n", cookie, 1))

    more: dict[str, Any] = {"headers": {"X-A": "b"}, "extra": {"reasoning_effort": "low"}}
    async with RawServer(with_cookie) as server:
        # By name: cookies of an address in numbers would be dropped in any case.
        url = server.url.replace("127.0.0.1", "localhost")
        async with asking(kind, url, **more) as client:
            for _ in range(2):
                await client.ask("a")

    first, second = server.requests
    assert (first.path, first.headers["authorization"]) == (f"/v1{client.path}", f"Bearer {KEY}")
    assert first.headers["x-a"] == "b"
    assert json.loads(first.body)["reasoning_effort"] == "low"
    assert "cookie" not in second.headers
    assert server.connections == 1


@both
async def test_a_user_and_password_in_the_address_are_sent_in_place_of_the_key(kind: str) -> None:
    async with RawServer(answer) as server:
        url = server.url.replace("127.0.0.1", f"some%20one:{PASSWORD}@127.0.0.1")
        async with asking(kind, url) as client:
            await client.ask("a")

    assert server.requests[0].headers["authorization"] == basic("some one")


@both
async def test_the_proxy_of_the_environment_is_used(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with RawServer(answer) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://some%20one:{PASSWORD}@127.0.0.1:{proxy.port}")
        async with asking(kind, "http://models.invalid/v1") as client:
            for _ in range(2):
                await client.ask("a")

    for request in proxy.requests:
        assert request.path == f"http://models.invalid/v1{client.path}"
        assert request.headers["proxy-authorization"] == basic("some one")
        assert request.headers["authorization"] == f"Bearer {KEY}"
    assert (len(proxy.requests), proxy.connections) == (2, 1)


@both
async def test_no_proxy_goes_past_it(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.invalid:1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    async with RawServer(answer) as server, asking(kind, server.url) as client:
        await client.ask("a")


@both
async def test_tls_trusts_the_authority_that_the_environment_names(
    kind: str, certificate: Path, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with RawServer(answer, tls) as server, asking(kind, server.url) as client:
        for _ in range(2):
            await client.ask("a")

        assert server.connections == 1


@both
async def test_tls_with_a_stranger_is_an_outage_and_sends_nothing(
    kind: str, tls: ssl.SSLContext
) -> None:
    async with RawServer(answer, tls) as server, asking(kind, server.url) as client:
        with pytest.raises(ModelUnavailable, match="check OPENAI_BASE_URL"):
            await client.ask("a")

        assert server.requests == []


@both
@pytest.mark.parametrize("host", ["127.0.0.1", "models.invalid"])
async def test_who_cannot_be_reached_is_told_without_the_address(kind: str, host: str) -> None:
    with closing(socket.socket()) as reserved:
        # Bound and not listening: connecting is refused, and nobody else can take the port.
        reserved.bind(("127.0.0.1", 0))
        address = f"http://someone:{PASSWORD}@{host}:{reserved.getsockname()[1]}/v1"
        async with asking(kind, address) as client:
            with pytest.raises(ModelUnavailable, match=r"failed \(\w+\); check OPENAI") as caught:
                await client.ask("a")

    shown = "".join(traceback.format_exception(caught.value))
    assert PASSWORD not in shown
    assert host not in shown or kind == "chat"


FAULTS: list[Fault] = [
    StatusFault(401, code=USER_TEXT),
    StatusFault(401, code=KEY, message=f"bad: {USER_TEXT} {KEY}"),
    StatusFault(400, message=f"bad: {USER_TEXT} {KEY}"),
    StatusFault(500, body=f"{USER_TEXT} {KEY}".encode()),
    StatusFault(302, headers={"Location": f"http://{PASSWORD}/"}),
    StatusFault(429, headers={"X-Echo": f"Bearer {KEY}"}),
    RawReply(f"{USER_TEXT} {KEY}".encode()),
    RawReply.huge(announce_length=True),
    Reset(),
    Reset(after=150),
    Hang(),
]


@both
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
async def test_neither_keys_nor_texts_are_ever_shown(
    server: ScriptedModel, kind: str, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for endpoint in ("chat", "embeddings"):
        server.always(fault, endpoint=endpoint)
    url = server.base_url.replace("127.0.0.1", f"someone:{PASSWORD}@127.0.0.1")
    patience = 0.5 if fault == Hang() else BOUND
    for address in (server.base_url, url):
        async with asking(kind, address, timeout=patience) as client:
            with pytest.raises(ModelError) as caught:
                await client.ask(USER_TEXT)

        shown = "".join(traceback.format_exception(caught.value)) + caplog.text
        for secret in (USER_TEXT, KEY, PASSWORD):
            assert secret not in shown


@both
@pytest.mark.parametrize("status", [200, 500], ids=["success", "error page"])
async def test_an_endless_body_is_cut_off_and_its_connection_dropped(
    kind: str, status: int
) -> None:
    sent = 0

    async def endless(
        _: http.Request, __: asyncio.StreamReader, writer: asyncio.StreamWriter, ___: int
    ) -> None:
        nonlocal sent
        writer.write(http.head(status, {"Transfer-Encoding": "chunked"}))
        while True:
            writer.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
            await writer.drain()
            sent += 0x10000

    told = "larger than" if status == 200 else "answered 500"
    async with RawServer(endless) as server, asking(kind, server.url) as client:
        async with asyncio.timeout(BOUND):
            with pytest.raises(ModelMisbehaved if status == 200 else ModelUnavailable, match=told):
                await client.ask("a")
            await server.gone.wait()

    # Besides what was read, the buffers of both sides hold some megabytes.
    assert sent < 32 * 2**20


@both
@pytest.mark.parametrize("status", [302, 308])
async def test_a_redirect_is_not_followed(kind: str, status: int) -> None:
    async with RawServer(answer) as other:

        async def elsewhere(
            _: http.Request, __: asyncio.StreamReader, writer: asyncio.StreamWriter, ___: int
        ) -> None:
            headers = {"Location": f"{other.url}/elsewhere", "Content-Length": "0"}
            writer.write(http.head(status, headers))

        async with RawServer(elsewhere) as server, asking(kind, server.url) as client:
            with pytest.raises(ModelMisconfigured, match=f"{status}: check OPENAI_BASE_URL"):
                await client.ask("a")

    assert len(server.requests) == 1
    assert other.connections == 0


@both
async def test_a_closed_client_reaches_nobody(kind: str) -> None:
    async with RawServer(answer) as server, asking(kind, server.url) as client:
        await client.ask("a")
        for _ in range(2):
            await client.close()

        with pytest.raises(ModelUnavailable, match="closed"):
            await client.ask("a")
    assert len(server.requests) == 1


async def _some_calls_each_way(kind: str, tls: ssl.SSLContext) -> None:
    for context in (None, tls):
        async with RawServer(answer, context) as server, asking(kind, server.url) as client:
            await asyncio.gather(*(client.ask("a") for _ in range(5)))


@both
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_closing_leaves_nothing_behind(
    kind: str,
    run: Callable[[Coroutine[Any, Any, None]], None],
    certificate: Path,
    tls: ssl.SSLContext,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    gc.collect()

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        run(_some_calls_each_way(kind, tls))
        gc.collect()

    assert [str(warning.message) for warning in seen] == []


@both
@pytest.mark.parametrize(
    ("scheme", "status"),
    # Without a tunnel nobody can tell other answers of the proxy from the server's.
    [("https", 407), ("https", 403), ("https", 503), ("https", 0), ("http", 407), ("http", 0)],
)
async def test_a_proxy_at_fault_is_named(
    kind: str, scheme: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its variable; a status of 0 is a proxy that does not listen."""

    async def refuse(
        _: http.Request, __: asyncio.StreamReader, writer: asyncio.StreamWriter, ___: int
    ) -> None:
        writer.write(http.head(status, {"Content-Length": "0"}))

    variable = f"{scheme.upper()}_PROXY"
    async with RawServer(refuse) as proxy:
        monkeypatch.setenv(variable, f"http://canary:{PASSWORD}@127.0.0.1:{proxy.port}")
        if not status:
            await proxy.__aexit__()
        async with asking(kind, f"{scheme}://models.invalid/v1") as client:
            with pytest.raises(ModelUnavailable, match=f"check {variable}.*NO_PROXY") as caught:
                await client.ask("a")

    told = str(caught.value)
    assert isinstance(caught.value, ModelMisconfigured) == (status in (407, 403))
    assert "canary" not in told
    assert PASSWORD not in told
    assert f"proxy answered {status}" in told or not status


async def test_passwords_of_netrc_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("default login somebody password else\n")
    monkeypatch.setenv("NETRC", str(netrc))
    async with RawServer(answer) as server, embedding(server.url) as embedder:
        await embedder.embed(["a"])

    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


async def test_tls_goes_through_a_proxy_as_a_tunnel(
    certificate: Path, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    tunnels: list[str] = []

    async def tunnel(
        request: http.Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: int
    ) -> None:
        tunnels.append(f"{request.method} {request.path}")
        assert "authorization" not in request.headers, "the key is for the server alone"
        inner, outer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_pipe(reader, outer))
                both.create_task(_pipe(inner, writer))
        finally:
            outer.transport.abort()
            writer.transport.abort()

    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with RawServer(answer, tls) as server, RawServer(tunnel) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
        async with embedding(server.url) as embedder:
            for _ in range(2):
                assert len((await embedder.embed(["a"])).vectors) == 1

        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert tunnels == [f"CONNECT 127.0.0.1:{server.port}"]


async def _time_up_in_the_handshake() -> None:
    left = 0
    all_gone = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal left
        await reader.read()
        writer.close()
        left += 1
        if left == 5:
            all_gone.set()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with embedding(f"https://127.0.0.1:{port}/v1") as embedder:
            calls = [embedder.embed(["a"], timeout=0.3) for _ in range(5)]
            ends = await asyncio.gather(*calls, return_exceptions=True)
            assert all(isinstance(end, ModelUnavailable) for end in ends), ends
            # What was given up is closed then and there, not when the embedder is.
            async with asyncio.timeout(BOUND):
                await all_gone.wait()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_time_up_in_the_middle_of_a_handshake_leaves_no_connection(
    run: Callable[[Coroutine[Any, Any, None]], None],
) -> None:
    run(_time_up_in_the_handshake())


async def _pipe(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    try:
        while piece := await source.read(2**16):
            target.write(piece)
            await target.drain()
    except ConnectionError:
        pass
    finally:
        target.close()
