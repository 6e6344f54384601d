"""The vector of a question: cached, asked for once however many wait, never later than allowed."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hitherto_shared.embeddings.protocol import Embedder, EmbeddingBatch, Vector
from hitherto_shared.embeddings.shelf import Embedders
from hitherto_shared.model_api import ModelError, ModelUnavailable
from hitherto_shared.text.normalise import nfc

_MAX_CHARACTERS = 4_000
"""Of a question; what is longer adds nothing to its direction."""
_MAX_CALLS = 32
"""With fewer, callers of a server that takes its time wait for each other's calls as well."""
_MAX_BATCH = 64


Paid = Callable[[str, EmbeddingBatch, Sequence[tuple[str, str]]], None]
"""Told of a call: the model, what it answered, and the texts, each with the tenant who asked."""


@dataclass(frozen=True, slots=True)
class QueryVector:
    """The vector, or the state and reason of the semantic leg without it."""

    vector: Vector | None
    state: str  # "ran", "skipped", "timed_out" or "failed"
    reason: str = ""


class QueryEmbedder:
    """Embeds questions with the active model.

    A question that somebody already asks for is not asked for again. Some calls run at once; what
    comes while all of them are on their way travels together in the next, so that a slow server is
    asked for batches, and a call that hangs holds up nobody but its own askers.

    Args:
        embedder: The model.
        cache_size: How many vectors are kept, those used last.
        call_seconds: How long one call may take. Longer than askers wait, so that an answer too
            late for them is there for the next one who asks.
        paid: Told what calls used, unless the model works on this machine alone.
    """

    def __init__(
        self,
        embedder: Embedder,
        *,
        cache_size: int,
        call_seconds: float,
        paid: Paid | None = None,
    ) -> None:
        self._embedder = embedder
        self._paid = None if embedder.offline else paid
        self._cache: OrderedDict[str, Vector] = OrderedDict()
        self._cache_size = cache_size
        self._call_seconds = call_seconds
        self._asked: dict[str, asyncio.Future[Vector]] = {}
        self._queue: list[tuple[str, str]] = []
        self._calls: set[asyncio.Task[None]] = set()

    @property
    def model(self) -> tuple[str, int]:
        """Name and dimensions of the model."""
        return self._embedder.name, self._embedder.dimensions

    async def embed(self, query: str, *, timeout: float, tenant_id: str = "") -> QueryVector:
        """The vector of `query` within `timeout` seconds, or why there is none.

        Of those who ask for the same at once, the tenant who asked first pays.
        """
        text = nfc(query)[:_MAX_CHARACTERS].strip()
        known = self._cache.get(text)
        if known is not None:
            self._cache.move_to_end(text)
            return QueryVector(known, "ran")
        future = self._asked.get(text) or self._ask(tenant_id, text)
        try:
            async with asyncio.timeout(timeout):
                return QueryVector(await asyncio.shield(future), "ran")
        except TimeoutError:
            return QueryVector(None, "timed_out", f"no embedding within {timeout * 1000:.0f} ms")
        except ModelError as error:
            return QueryVector(None, "failed", str(error))

    async def close(self) -> None:
        """Stop asking."""
        self._queue.clear()
        for call in self._calls:
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        for future in self._asked.values():
            future.set_exception(ModelUnavailable("the service is stopping"))
        self._asked.clear()
        await self._embedder.close()

    def _ask(self, tenant_id: str, text: str) -> asyncio.Future[Vector]:
        future: asyncio.Future[Vector] = asyncio.get_running_loop().create_future()
        # Nobody may be left to hear of a failure when everybody's time was up.
        future.add_done_callback(lambda f: f.cancelled() or f.exception())
        self._asked[text] = future
        self._queue.append((tenant_id, text))
        if len(self._calls) < _MAX_CALLS:
            call = asyncio.create_task(self._call_until_empty(), name="query-embedder")
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)
        return future

    async def _call_until_empty(self) -> None:
        while self._queue:
            asked, self._queue = self._queue[:_MAX_BATCH], self._queue[_MAX_BATCH:]
            texts = [text for _, text in asked]
            try:
                batch = await self._embedder.embed(texts, timeout=self._call_seconds)
            except BaseException as error:
                failure = (
                    error
                    if isinstance(error, ModelError)
                    else ModelUnavailable("the embedder stopped in the middle of the call")
                )
                for text in texts:
                    self._asked.pop(text).set_exception(failure)
                if not isinstance(error, ModelError):
                    raise
                continue
            if self._paid is not None:
                self._paid(self._embedder.name, batch, asked)
            for text, vector in zip(texts, batch.vectors, strict=True):
                self._remember(text, vector)
                self._asked.pop(text).set_result(vector)

    def _remember(self, text: str, vector: Vector) -> None:
        self._cache[text] = vector
        if len(self._cache) > self._cache_size:
            self._cache.popitem(last=False)


class QueryEmbedders:
    """A `QueryEmbedder` for whichever model is the active one; asked for by name at every search.

    Args:
        embedders: The models this process has a way to.
        cache_size: See `QueryEmbedder`.
        call_seconds: See `QueryEmbedder`.
        paid: See `QueryEmbedder`.
    """

    def __init__(
        self,
        embedders: Embedders,
        *,
        cache_size: int,
        call_seconds: float,
        paid: Paid | None = None,
    ) -> None:
        self._embedders = embedders
        self._paid = paid
        self._cache_size = cache_size
        self._call_seconds = call_seconds
        self._made: dict[tuple[str, int], QueryEmbedder] = {}
        self.likely = (embedders.configured.name, embedders.configured.dimensions)
        """The model that was in force when it was last asked for."""

    async def embed(
        self, model: tuple[str, int], query: str, *, timeout: float, tenant_id: str = ""
    ) -> QueryVector:
        """The vector of `query` under `model`, or why there is none; `tenant_id` pays."""
        self.likely = model
        asked = self._made.get(model)
        if asked is None:
            embedder = self._embedders.find(*model)
            if embedder is None:
                return QueryVector(None, "skipped", self._embedders.why_not(*model))
            asked = self._made[model] = QueryEmbedder(
                embedder,
                cache_size=self._cache_size,
                call_seconds=self._call_seconds,
                paid=self._paid,
            )
        return await asked.embed(query, timeout=timeout, tenant_id=tenant_id)

    async def close(self) -> None:
        """Stop asking."""
        for asked in self._made.values():
            await asked.close()
        await self._embedders.close()
