"""Replies that are endless, packed, elsewhere, or no HTTP."""

from __future__ import annotations

import asyncio
import gzip

import pytest

from hitherto_shared.embeddings.openai_api import OpenAIEmbedder
from hitherto_shared.model_api import ModelMisconfigured, ModelUnavailable
from tests.integration.embeddings.raw_server import RawServer, embedding, right
from tests.scripted_model import ScriptedModel, StatusFault, http


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
