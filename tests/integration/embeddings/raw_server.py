"""A server that answers, byte by byte, as a test says, and an embedder that asks it."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from hitherto_shared.embeddings.openai_api import OpenAIEmbedder
from hitherto_shared.model_server import ModelServer
from tests.listening import Listener
from tests.scripted_model import http, text_vector

KEY = "sk-test-0123456789"
PASSWORD = "pass-9876543210"
USER_TEXT = "my very private sentence"
DIMENSIONS = 8
BOUND = 30
"""Seconds that only keep a broken test from hanging the run."""

Serve = Callable[[http.Request, asyncio.StreamReader, asyncio.StreamWriter, int], Awaitable[None]]


class RawServer:
    """Answers as a function says, which also gets the number of the request on its connection."""

    def __init__(self, serve: Serve, tls: ssl.SSLContext | None = None) -> None:
        self._serve = serve
        self._tls = tls
        self._listener = Listener(self._connection, tls=tls)
        self.requests: list[http.Request] = []
        self.connections = 0
        self.gone = asyncio.Event()
        """A connection has ended."""

    async def __aenter__(self) -> RawServer:
        await self._listener.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._listener.__aexit__()

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}/v1"

    @property
    def port(self) -> int:
        return self._listener.port

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = 0
        try:
            while not writer.is_closing() and (request := await http.read_request(reader)):
                number += 1
                self.requests.append(request)
                await self._serve(request, reader, writer, number)
                await writer.drain()
        finally:
            self.gone.set()


def right(request: http.Request) -> bytes:
    """The whole reply that the request asks for."""
    texts = json.loads(request.body)["input"]
    data = [
        {
            "index": n,
            "embedding": base64.b64encode(text_vector(text, DIMENSIONS).tobytes()).decode(),
        }
        for n, text in enumerate(texts)
    ]
    return http.reply(200, json.dumps({"data": data}).encode(), content_type="application/json")


async def answer(
    request: http.Request, _: asyncio.StreamReader, writer: asyncio.StreamWriter, __: int
) -> None:
    writer.write(right(request))


@asynccontextmanager
async def embedding(url: str, *, timeout: float = BOUND) -> AsyncIterator[OpenAIEmbedder]:
    embedder = OpenAIEmbedder("m", DIMENSIONS, server=ModelServer(url, KEY), timeout=timeout)
    try:
        yield embedder
    finally:
        await embedder.close()
