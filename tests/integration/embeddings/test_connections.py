"""How calls share connections, and what becomes of a request whose connection is lost.

Outages that embeddings share with chat are in `tests/integration/test_providers.py`.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import subprocess
import sys

import numpy as np
import pytest

from hitherto_shared.embeddings.openai_api import OpenAIEmbedder
from hitherto_shared.model_api import ModelMisconfigured, ModelUnavailable
from hitherto_shared.model_server import ModelServer
from tests.integration.embeddings.raw_server import (
    BOUND,
    DIMENSIONS,
    KEY,
    RawServer,
    answer,
    embedding,
    right,
)
from tests.scripted_model import Hang, ScriptedModel, StatusFault, http, text_vector


async def test_more_calls_at_once_than_the_pool_has(
    server: ScriptedModel, embedder: OpenAIEmbedder
) -> None:
    number = 300
    async with asyncio.timeout(2 * BOUND):
        batches = await asyncio.gather(*(embedder.embed([f"text {n}"]) for n in range(number)))

    for n, batch in enumerate(batches):
        assert np.allclose(batch.vectors[0], text_vector(f"text {n}", DIMENSIONS), atol=1e-6)
    assert server.calls == {"embeddings": number}


async def test_a_connection_that_the_server_closed_while_idle_fails_no_call() -> None:
    async def once(
        request: http.Request, _: asyncio.StreamReader, writer: asyncio.StreamWriter, __: int
    ) -> None:
        # It does not say `Connection: close`: the client takes the connection for usable.
        writer.write(right(request))
        await writer.drain()
        writer.close()

    async with RawServer(once) as server, embedding(server.url) as embedder:
        for n in range(1, 6):
            await embedder.embed(["a"])
            async with asyncio.timeout(BOUND):
                await server.gone.wait()
            server.gone.clear()
            assert server.connections == n


# JSON of a control character is six times as long as the character.
@pytest.mark.parametrize("texts", [["b"], ["\x01" * 8000] * 70], ids=["short", "megabytes"])
@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
async def test_a_request_lost_on_a_reused_connection_is_sent_again(
    reset: bool, texts: list[str]
) -> None:
    async def first_of_a_connection(
        request: http.Request, _: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        if number == 1:
            writer.write(right(request))
        elif reset:
            http.reset(writer)
        else:
            writer.close()

    async with RawServer(first_of_a_connection) as server, embedding(server.url) as embedder:
        await embedder.embed(["a"])
        batch = await embedder.embed(texts)

        assert (len(server.requests), server.connections) == (3, 2)
    assert server.requests[1].body == server.requests[2].body
    assert json.loads(server.requests[2].body)["input"] == texts
    assert batch.calls == 1
    assert np.allclose(batch.vectors[-1], text_vector(texts[-1], DIMENSIONS), atol=1e-6)


async def test_a_lost_request_is_sent_again_once_only() -> None:
    async def very_first(
        request: http.Request, _: asyncio.StreamReader, writer: asyncio.StreamWriter, __: int
    ) -> None:
        if len(server.requests) == 1:
            writer.write(right(request))
        else:
            writer.close()

    async with RawServer(very_first) as server, embedding(server.url) as embedder:
        await embedder.embed(["a"])
        with pytest.raises(ModelUnavailable, match="ServerDisconnectedError"):
            await embedder.embed(["b"])

        assert len(server.requests) == 3


@pytest.mark.parametrize("part", ["head", "half"])
async def test_what_was_answered_in_part_is_not_sent_again(part: str) -> None:
    async def half(
        request: http.Request, _: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        whole = right(request)
        if number > 1:
            end = whole.index(b"\r\n\r\n") + 4
            whole = whole[:end] if part == "head" else whole[: (end + len(whole)) // 2]
        writer.write(whole)
        if number > 1:
            await writer.drain()
            writer.close()

    async with RawServer(half) as server, embedding(server.url) as embedder:
        await embedder.embed(["a"])
        with pytest.raises(ModelUnavailable, match="connection to the model server failed"):
            await embedder.embed(["a"])

        assert len(server.requests) == 2


async def test_calls_cancelled_in_the_middle_leave_the_pool_usable(
    server: ScriptedModel, embedder: OpenAIEmbedder
) -> None:
    server.always(Hang(), endpoint="embeddings")
    calls = [asyncio.create_task(embedder.embed(["a"])) for _ in range(200)]
    async with asyncio.timeout(2 * BOUND):
        await server.called(200, endpoint="embeddings")
        for call in calls:
            call.cancel()
        ends = await asyncio.gather(*calls, return_exceptions=True)
        server.always(None, endpoint="embeddings")

        assert all(isinstance(end, asyncio.CancelledError) for end in ends)
        # With one place of the pool not given back, the last of these would wait forever.
        batches = await asyncio.gather(*(embedder.embed(["b"]) for _ in range(200)))

    assert len(batches) == 200


async def test_a_call_cancelled_in_its_body_does_not_spoil_the_next() -> None:
    begun = asyncio.Event()

    async def half(
        request: http.Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: int
    ) -> None:
        whole = right(request)
        if len(server.requests) > 1:
            writer.write(whole)
            return
        writer.write(whole[:-10])
        await writer.drain()
        begun.set()
        await reader.read()

    async with RawServer(half) as server, embedding(server.url) as embedder:
        call = asyncio.create_task(embedder.embed(["a"]))
        async with asyncio.timeout(BOUND):
            await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

        batch = await embedder.embed(["b"])
    assert np.allclose(batch.vectors[0], text_vector("b", DIMENSIONS), atol=1e-6)


async def test_a_deadline_passed_before_the_call_asks_nobody(
    server: ScriptedModel, embedder: OpenAIEmbedder
) -> None:
    with pytest.raises(ModelUnavailable, match="within 0 seconds"):
        await embedder.embed(["a"], timeout=0.0)

    assert not server.calls


async def test_closing_ends_a_call_under_way(
    server: ScriptedModel, embedder: OpenAIEmbedder
) -> None:
    server.queue(Hang(), endpoint="embeddings")
    call = asyncio.create_task(embedder.embed(["a"]))
    async with asyncio.timeout(BOUND):
        await server.called(1, endpoint="embeddings")
        await embedder.close()
        with pytest.raises(ModelUnavailable):
            await call


# What the embedder's own way to its server sends, and what it leaves behind.


async def test_the_request_says_what_it_wants_and_who_asks() -> None:
    async with RawServer(answer) as server, embedding(server.url) as embedder:
        batch = await embedder.embed(["cà phê sữa đá 🎉"])

    request = server.requests[0]
    assert (request.method, request.path) == ("POST", "/v1/embeddings")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["accept-encoding"] == "identity"
    assert request.headers["user-agent"] == "hitherto"
    assert request.headers["host"] == f"127.0.0.1:{server.port}"
    assert json.loads(request.body)["input"] == ["cà phê sữa đá 🎉"]
    assert "cà phê sữa đá 🎉".encode() in request.body, "not escaped: smaller and cheaper"
    assert np.allclose(batch.vectors[0], text_vector("cà phê sữa đá 🎉", DIMENSIONS), atol=1e-6)


async def test_organisation_and_project_come_from_the_environment_as_for_chat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    async with RawServer(answer) as server, embedding(server.url) as embedder:
        await embedder.embed(["a"])

    headers = server.requests[0].headers
    assert (headers["openai-organization"], headers["openai-project"]) == ("org-1", "proj-1")


@pytest.mark.parametrize("tail", ["/v1", "/v1/", "/v1#part"])
async def test_the_address_may_end_in_a_slash(tail: str) -> None:
    async with (
        RawServer(answer) as server,
        embedding(f"http://127.0.0.1:{server.port}{tail}") as embedder,
    ):
        await embedder.embed(["a"])

    assert server.requests[0].path == "/v1/embeddings"


@pytest.mark.parametrize("url", ["http://[::1", "http://h:99999/v1", "http://:80/v1", "http://@/"])
def test_an_address_that_is_none_names_the_variable(url: str) -> None:
    with pytest.raises(ValueError, match="OPENAI_BASE_URL"):
        OpenAIEmbedder("m", DIMENSIONS, server=ModelServer(url))


async def test_an_embedder_that_was_never_asked_closes_quietly(server: ScriptedModel) -> None:
    async with embedding(server.base_url):
        pass

    assert not server.calls


def test_the_openai_client_is_not_loaded_for_embeddings() -> None:
    program = (
        "import sys\n"
        "from hitherto_shared.embeddings.openai_api import OpenAIEmbedder\n"
        "from hitherto_shared.model_server import ModelServer\n"
        "OpenAIEmbedder('m', 8, server=ModelServer('http://127.0.0.1:1/v1'))\n"
        "print('openai' in sys.modules)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert done.stdout.strip() == "False", done.stderr


# Replies that are endless, packed, elsewhere, or no HTTP.


async def test_an_error_page_says_enough_also_where_it_is_compressed(
    server: ScriptedModel, embedder: OpenAIEmbedder
) -> None:
    page = gzip.compress(b"<html>come back later</html>")
    server.queue(
        StatusFault(503, retry_after="7", body=page, headers={"Content-Encoding": "gzip"}),
        StatusFault(401, body=page, headers={"Content-Encoding": "br"}),
        endpoint="embeddings",
    )

    with pytest.raises(ModelUnavailable, match="answered 503") as caught:
        await embedder.embed(["a"])
    with pytest.raises(ModelMisconfigured, match="OPENAI_API_KEY"):
        await embedder.embed(["a"])

    assert caught.value.retry_after == 7


async def test_the_encoding_of_no_encoding_is_fine() -> None:
    async def identity(
        request: http.Request, _: asyncio.StreamReader, writer: asyncio.StreamWriter, __: int
    ) -> None:
        extra = b"\r\nContent-Encoding: identity\r\n\r\n"
        writer.write(right(request).replace(b"\r\n\r\n", extra, 1))

    async with RawServer(identity) as server, embedding(server.url) as embedder:
        assert len((await embedder.embed(["a"])).vectors) == 1


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: nine\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
async def test_what_is_not_http_is_a_failed_connection(raw: bytes) -> None:
    async def other_protocol(
        _: http.Request, __: asyncio.StreamReader, writer: asyncio.StreamWriter, ___: int
    ) -> None:
        writer.write(raw)
        await writer.drain()
        writer.close()

    async with RawServer(other_protocol) as server, embedding(server.url) as embedder:
        with pytest.raises(ModelUnavailable, match="connection to the model server failed"):
            await embedder.embed(["a"])
