"""A small embedding server of the demo's own, which can be stopped.

It offers the embedder that the environment names in the way of OpenAI's API, so that one can see
what becomes of a search when the server of its model is gone.
"""

from __future__ import annotations

import asyncio
import base64
import threading
from typing import Any, Self

import numpy as np
from aiohttp import web

from hitherto_shared.embeddings.protocol import Embedder

_START_SECONDS = 30.0


class DemoModelServer:
    """Serves `POST /v1/embeddings` on a free port of this machine, in a thread of its own.

    The embedder is closed with the server.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="model-server")
        application = web.Application()
        application.router.add_post("/v1/embeddings", self._embeddings)
        self._runner = web.AppRunner(application, access_log=None)
        self._port = 0

    @property
    def settings(self) -> dict[str, str]:
        """What a service needs to know to embed here."""
        return {
            "HITHERTO_EMBEDDER": "openai",
            "OPENAI_BASE_URL": f"http://127.0.0.1:{self._port}/v1",
            "OPENAI_API_KEY": "not-needed",
            "EMBEDDING_MODEL": self._embedder.name,
            "EMBEDDING_DIMENSIONS": str(self._embedder.dimensions),
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
        }

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(_START_SECONDS)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Close the port and every connection; a second time does nothing."""
        if self._loop.is_closed():
            return
        try:
            asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(_START_SECONDS)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _open(self) -> None:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self._port = self._runner.addresses[0][1]

    async def _close(self) -> None:
        await self._runner.cleanup()
        await self._embedder.close()

    async def _embeddings(self, request: web.Request) -> web.Response:
        asked: dict[str, Any] = await request.json()
        batch = await self._embedder.embed(asked["input"])
        data = [
            {"object": "embedding", "index": index, "embedding": _base64(vector)}
            for index, vector in enumerate(batch.vectors)
        ]
        usage = {"prompt_tokens": batch.tokens, "total_tokens": batch.tokens}
        return web.json_response(
            {"object": "list", "model": self._embedder.name, "data": data, "usage": usage}
        )


def _base64(vector: Any) -> str:
    return base64.b64encode(np.asarray(vector, dtype="<f4").tobytes()).decode("ascii")
