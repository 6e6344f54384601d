"""Through proxies and TLS: the same roads, and the same trust, as the openai client's."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from hitherto_shared.model_api import ModelMisconfigured, ModelUnavailable
from tests.integration.embeddings.raw_server import (
    BOUND,
    KEY,
    PASSWORD,
    RawServer,
    answer,
    embedding,
)
from tests.integration.embeddings.test_chat_roads import PROMPT, chatting
from tests.scripted_model import ScriptedModel, http


async def test_the_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with RawServer(answer) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://some%20one:{PASSWORD}@127.0.0.1:{proxy.port}")
        async with embedding("http://models.invalid/v1") as embedder:
            for _ in range(2):
                await embedder.embed(["a"])

    expected = "Basic " + base64.b64encode(f"some one:{PASSWORD}".encode()).decode()
    for request in proxy.requests:
        assert request.path == "http://models.invalid/v1/embeddings"
        assert request.headers["proxy-authorization"] == expected
        assert request.headers["authorization"] == f"Bearer {KEY}"
    assert (len(proxy.requests), proxy.connections) == (2, 1)


async def test_no_proxy_goes_past_it(
    server: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.invalid:1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    async with embedding(server.base_url) as embedder:
        assert len((await embedder.embed(["a"])).vectors) == 1


async def test_passwords_of_netrc_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("default login somebody password else\n")
    monkeypatch.setenv("NETRC", str(netrc))
    async with RawServer(answer) as server, embedding(server.url) as embedder:
        await embedder.embed(["a"])

    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


async def test_tls_trusts_the_authority_that_the_environment_names(
    certificate: Path, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with RawServer(answer, tls) as server, embedding(server.url) as embedder:
        for _ in range(2):
            assert len((await embedder.embed(["a"])).vectors) == 1

        assert server.connections == 1


async def test_tls_with_a_stranger_is_an_outage_and_sends_nothing(tls: ssl.SSLContext) -> None:
    async with RawServer(answer, tls) as server, embedding(server.url) as embedder:
        with pytest.raises(ModelUnavailable, match=r"failed \(\w*Cert\w*\); check OPENAI_BASE_URL"):
            await embedder.embed(["a"])

        assert server.requests == []


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


@pytest.mark.parametrize("kind", ["chat", "embeddings"])
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
        url = f"{scheme}://models.invalid/v1"
        async with chatting(url) as chat, embedding(url) as embedder:
            call = chat.complete(PROMPT) if kind == "chat" else embedder.embed(["a"])
            with pytest.raises(ModelUnavailable, match=f"check {variable}.*NO_PROXY") as caught:
                await call

    told = str(caught.value)
    assert isinstance(caught.value, ModelMisconfigured) == (status in (407, 403))
    assert "canary" not in told
    assert PASSWORD not in told
    assert f"proxy answered {status}" in told or not status


async def _pipe(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    try:
        while piece := await source.read(2**16):
            target.write(piece)
            await target.drain()
    except ConnectionError:
        pass
    finally:
        target.close()
