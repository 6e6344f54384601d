"""The language model and the embedder, each behind a circuit breaker of this process."""

from __future__ import annotations

from collections.abc import Sequence

from hitherto_extraction.provider.protocol import ChatModel, Completion, Prompt
from hitherto_shared.circuit_breaker import CircuitBreaker
from hitherto_shared.embeddings.protocol import Embedder, EmbeddingBatch


class GuardedChatModel(ChatModel):
    """A language model that is not asked while it is known to be out of reach."""

    def __init__(self, inner: ChatModel, breaker: CircuitBreaker) -> None:
        self._inner = inner
        self._breaker = breaker

    @property
    def extractor(self) -> str:
        """As the model's."""
        return self._inner.extractor

    @property
    def model(self) -> str:
        """As the model's."""
        return self._inner.model

    async def complete(self, prompt: Prompt) -> Completion:
        """Ask once, unless the model is being left alone.

        Raises:
            ModelError: As the model does; ModelUnavailable also without asking it.
        """
        return await self._breaker.call(lambda: self._inner.complete(prompt))

    async def close(self) -> None:
        """Release connections."""
        await self._inner.close()


class GuardedEmbedder(Embedder):
    """An embedder that is not asked while it is known to be out of reach."""

    def __init__(self, inner: Embedder, breaker: CircuitBreaker) -> None:
        self._inner = inner
        self._breaker = breaker

    @property
    def name(self) -> str:
        """As the embedder's."""
        return self._inner.name

    @property
    def dimensions(self) -> int:
        """As the embedder's."""
        return self._inner.dimensions

    @property
    def dedupe_threshold(self) -> float:
        """As the embedder's."""
        return self._inner.dedupe_threshold

    @property
    def offline(self) -> bool:
        """As the embedder's."""
        return self._inner.offline

    async def embed(self, texts: Sequence[str], *, timeout: float | None = None) -> EmbeddingBatch:
        """Embed, unless the embedder is being left alone.

        Raises:
            ModelError: As the embedder does; ModelUnavailable also without asking it.
        """
        return await self._breaker.call(lambda: self._inner.embed(texts, timeout=timeout))

    async def close(self) -> None:
        """Release connections and threads."""
        await self._inner.close()
