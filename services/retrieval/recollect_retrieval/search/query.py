"""The vector of a question: cached, asked for once however many wait, never later than allowed."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from recollect_shared.embeddings.protocol import Embedder, Vector
from recollect_shared.model_api import ModelError
from recollect_shared.text.normalise import nfc

_MAX_CHARACTERS = 4_000
"""Of a question; what is longer adds nothing to its direction."""


@dataclass(frozen=True, slots=True)
class QueryVector:
    """The vector, or the state and reason of the semantic leg without it."""

    vector: Vector | None
    state: str  # "ran", "skipped", "timed_out" or "failed"
    reason: str = ""


class QueryEmbedder:
    """Embeds questions with the active model.

    Calls that come while one is on its way wait and travel together in the next, so that a slow
    server is asked for batches and not for a queue of single texts.
    """

    def __init__(self, embedder: Embedder, *, cache_size: int) -> None:
        self.embedder = embedder
        self._cache: OrderedDict[str, Vector] = OrderedDict()
        self._cache_size = cache_size
        self._waiting: dict[str, asyncio.Future[Vector]] = {}
        self._sender: asyncio.Task[None] | None = None

    async def embed(self, query: str, *, timeout: float) -> QueryVector:
        """The vector of `query` within `timeout` seconds, or why there is none."""
        text = nfc(query)[:_MAX_CHARACTERS].strip()
        known = self._cache.get(text)
        if known is not None:
            self._cache.move_to_end(text)
            return QueryVector(known, "ran")
        future = self._waiting.get(text)
        if future is None:
            future = asyncio.get_running_loop().create_future()
            # Nobody may be left to hear of a failure when everybody's time was up.
            future.add_done_callback(lambda f: f.cancelled() or f.exception())
            self._waiting[text] = future
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send(), name="query-embedder")
        try:
            async with asyncio.timeout(timeout):
                return QueryVector(await asyncio.shield(future), "ran")
        except TimeoutError:
            return QueryVector(None, "timed_out", f"no embedding within {timeout * 1000:.0f} ms")
        except ModelError as error:
            return QueryVector(None, "failed", str(error))

    async def close(self) -> None:
        """Stop asking."""
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.gather(self._sender, return_exceptions=True)
        await self.embedder.close()

    async def _send(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, {}
            texts = list(batch)
            try:
                vectors: Sequence[Vector] = (await self.embedder.embed(texts)).vectors
            except BaseException as error:
                for future in batch.values():
                    if not future.done():
                        failure = error if isinstance(error, ModelError) else ModelError("stopped")
                        future.set_exception(failure)
                if not isinstance(error, ModelError):
                    raise
                continue
            for text, vector in zip(texts, vectors, strict=True):
                self._remember(text, vector)
                if not batch[text].done():
                    batch[text].set_result(vector)

    def _remember(self, text: str, vector: Vector) -> None:
        self._cache[text] = vector
        if len(self._cache) > self._cache_size:
            self._cache.popitem(last=False)
