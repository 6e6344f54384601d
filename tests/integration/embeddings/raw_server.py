"""A server that answers, byte by byte, as a test says, and both clients that ask a model server."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from hitherto_extraction.pipeline.prompt import HARMLESS, build_prompt
from hitherto_extraction.provider.openai_chat import OpenAIChatModel
from hitherto_shared.embeddings.openai_api import OpenAIEmbedder
from hitherto_shared.model_server import ModelServer
from tests.listening import Listener
from tests.scripted_model import ChatAnswer, http, text_vector

KEY = "sk-test-0123456789"
PASSWORD = "pass-9876543210"
USER_TEXT = "my very private sentence"
DIMENSIONS = 8
PROMPT = build_prompt(HARMLESS)
BOUND = 120
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
    if not request.path.endswith("/chat/completions"):
        writer.write(right(request))
        return
    body = json.dumps(ChatAnswer.of(new_memories=[]).body("m")).encode()
    writer.write(http.reply(200, body, content_type="application/json"))


@asynccontextmanager
async def embedding(
    url: str, *, timeout: float = BOUND, **more: Any
) -> AsyncIterator[OpenAIEmbedder]:
    server = ModelServer(url, KEY, **more)
    embedder = OpenAIEmbedder("m", DIMENSIONS, server=server, timeout=timeout)
    try:
        yield embedder
    finally:
        await embedder.close()


@dataclass(frozen=True)
class Asking:
    """A client of either kind.

    Attributes:
        ask: Asks about a text.
        path: Where it asks, from the address of the server on.
    """

    ask: Callable[[str], Awaitable[Any]]
    close: Callable[[], Awaitable[None]]
    path: str


@asynccontextmanager
async def asking(
    kind: str, url: str, *, timeout: float = BOUND, **more: Any
) -> AsyncIterator[Asking]:
    """The client for `chat` or for `embeddings`."""
    if kind == "embeddings":
        async with embedding(url, timeout=timeout, **more) as embedder:
            yield Asking(lambda text: embedder.embed([text]), embedder.close, "/embeddings")
        return
    chat = OpenAIChatModel(model="m", server=ModelServer(url, KEY, **more), timeout=timeout)
    try:
        yield Asking(
            lambda text: chat.complete(replace(PROMPT, user=text)), chat.close, "/chat/completions"
        )
    finally:
        await chat.close()


both = pytest.mark.parametrize("kind", ["chat", "embeddings"])
"""Runs a test with either client: they take the same roads and show as little."""
