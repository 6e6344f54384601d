"""The vector of a question: cached, requested once for concurrent callers, within a time limit."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from weakref import WeakSet

from hitherto_shared.embeddings.protocol import Embedder, EmbeddingBatch, Vector
from hitherto_shared.embeddings.registry import Embedders
from hitherto_shared.model_api import ModelError, ModelUnavailable
from hitherto_shared.text.normalise import nfc

logger = logging.getLogger("hitherto.models")

_MAX_CHARACTERS = 4_000
"""Maximum per question; further text does not change its direction."""
_MAX_CALLS = 32
"""With fewer, callers of a slow server also wait for each other's calls."""
_MAX_BATCH = 64
_SAY_AGAIN_SECONDS = 60.0


Paid = Callable[[str, EmbeddingBatch, Sequence[tuple[str, str]]], None]
"""Called after each model call with the model, its reply, and the texts with the tenant of each."""


@dataclass(frozen=True, slots=True)
class QueryVector:
    """The vector, or the state and reason of the semantic leg without one."""

    vector: Vector | None
    state: str  # "ran", "skipped", "timed_out" or "failed"
    reason: str = ""


class Embedding:
    """A question on its way to the model and back.

    It needs no task: a call goes on whether or not anybody waits for it. A question that waits for
    a call is sent only if somebody still holds one of these that is `wanted`.

    Args:
        vector: The vector, once the model has answered.
        timeout: Time limit of the wait from now on, in seconds.
        without: Notes that there is no vector, and why.
    """

    __slots__ = ("__weakref__", "_seconds", "_until", "_vector", "_without", "wanted")

    def __init__(
        self,
        vector: asyncio.Future[Vector],
        timeout: float,
        without: Callable[[str, str], QueryVector],
    ) -> None:
        self._vector = vector
        self._seconds = timeout
        self._until = asyncio.get_running_loop().time() + timeout
        self._without = without
        self.wanted = True
        """False once its wait is over, because there is a vector or because its caller left."""

    async def result(self) -> QueryVector:
        """The vector, or why there is none within the time limit."""
        vector = self._vector
        if not vector.done():
            left = self._until - asyncio.get_running_loop().time()
            try:
                await asyncio.wait((vector,), timeout=max(left, 0.0))
            finally:
                self.wanted = False
        if not vector.done():
            return self._without("timed_out", f"no embedding within {self._seconds * 1000:.0f} ms")
        try:
            return QueryVector(vector.result(), "ran")
        except ModelError as error:
            return self._without("failed", str(error))


@dataclass(slots=True)
class _Asked:
    """A question without its vector: who pays, and who still wants it."""

    tenant_id: str
    vector: asyncio.Future[Vector]
    askers: WeakSet[Embedding] = field(default_factory=WeakSet)


class QueryEmbedder:
    """Embeds questions with the active model.

    A question that is already being embedded is not requested again. Several calls run at once;
    questions that arrive while all of them are busy travel together in the next call, without those
    whose callers have left. A slow server thus receives batches of what is wanted, and a hanging
    call delays only its own callers.

    Args:
        embedder: The model.
        cache_size: Number of cached vectors; the most recently used stay.
        call_seconds: Time limit of one call. It is longer than callers wait, so that a late reply
            is cached for the next caller.
        paid: Called with the usage of each call, unless the model is local.
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
        self._asked: dict[str, _Asked] = {}
        self._queue: deque[str] = deque()
        self._calls: set[asyncio.Task[None]] = set()
        self._without = 0
        self._say_from = 0.0

    async def embed(self, query: str, *, timeout: float, tenant_id: str = "") -> QueryVector:
        """The vector of `query` within `timeout` seconds, or why there is none."""
        return await self.begin(query, timeout=timeout, tenant_id=tenant_id).result()

    def begin(self, query: str, *, timeout: float, tenant_id: str = "") -> Embedding:
        """Start to embed `query`.

        If several callers request the same question at once, the first caller's tenant pays.
        """
        text = nfc(query)[:_MAX_CHARACTERS].strip()
        known = self._cache.get(text)
        if known is None:
            asked = self._asked.get(text) or self._ask(tenant_id, text)
            embedding = Embedding(asked.vector, timeout, self._none)
            asked.askers.add(embedding)
            return embedding
        self._cache.move_to_end(text)
        vector: asyncio.Future[Vector] = asyncio.get_running_loop().create_future()
        vector.set_result(known)
        return Embedding(vector, timeout, self._none)

    async def close(self) -> None:
        """Stop embedding."""
        self._queue.clear()
        for call in self._calls:
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        for asked in self._asked.values():
            asked.vector.set_exception(ModelUnavailable("the service is stopping"))
        self._asked.clear()
        await self._embedder.close()

    def _none(self, state: str, reason: str) -> QueryVector:
        """No vector; the log gets the reason at most once a minute."""
        self._without += 1
        if time.monotonic() >= self._say_from:
            logger.warning(
                "questions are searched without their vector: %s",
                reason,
                extra={"questions": self._without},
            )
            self._say_from, self._without = time.monotonic() + _SAY_AGAIN_SECONDS, 0
        return QueryVector(None, state, reason)

    def _ask(self, tenant_id: str, text: str) -> _Asked:
        asked = _Asked(tenant_id, asyncio.get_running_loop().create_future())
        # No caller may be left to receive a failure after all of them timed out.
        asked.vector.add_done_callback(lambda f: f.cancelled() or f.exception())
        self._asked[text] = asked
        self._queue.append(text)
        if len(self._calls) < _MAX_CALLS:
            call = asyncio.create_task(self._call_until_empty(), name="query-embedder")
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)
        return asked

    def _next_batch(self) -> list[str]:
        """The next questions that somebody waits for; the others are dropped."""
        texts: list[str] = []
        while self._queue and len(texts) < _MAX_BATCH:
            text = self._queue.popleft()
            if any(asker.wanted for asker in self._asked[text].askers):
                texts.append(text)
            else:
                self._asked.pop(text).vector.cancel()
        return texts

    async def _call_until_empty(self) -> None:
        while texts := self._next_batch():
            try:
                batch = await self._embedder.embed(texts, timeout=self._call_seconds)
            except BaseException as error:
                failure = (
                    error
                    if isinstance(error, ModelError)
                    else ModelUnavailable("the embedder stopped in the middle of the call")
                )
                for text in texts:
                    self._asked.pop(text).vector.set_exception(failure)
                if not isinstance(error, ModelError):
                    raise
                continue
            if self._paid is not None:
                asked = [(self._asked[text].tenant_id, text) for text in texts]
                self._paid(self._embedder.name, batch, asked)
            for text, vector in zip(texts, batch.vectors, strict=True):
                self._remember(text, vector)
                self._asked.pop(text).vector.set_result(vector)

    def _remember(self, text: str, vector: Vector) -> None:
        self._cache[text] = vector
        if len(self._cache) > self._cache_size:
            self._cache.popitem(last=False)


class QueryEmbedders:
    """A `QueryEmbedder` for the active model, which every search names."""

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
        """The model that was active at the last request."""

    def begin(
        self, model: tuple[str, int], query: str, *, timeout: float, tenant_id: str = ""
    ) -> Embedding | QueryVector:
        """Start to embed `query` under `model`, or why that is impossible; `tenant_id` pays."""
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
        return asked.begin(query, timeout=timeout, tenant_id=tenant_id)

    async def close(self) -> None:
        """Stop embedding."""
        for asked in self._made.values():
            await asked.close()
        await self._embedders.close()
