"""The language model and the embedder, each behind a circuit breaker of this process.

A refusal, or something else in place of an answer, may concern the one request or everything that
this installation sends: a status alone does not tell. A harmless request, sent at once, does. If it
fails too, the installation is at fault (`ModelMisconfigured`), and not the job.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from hitherto_extraction.provider.protocol import ChatModel, Completion, Prompt
from hitherto_shared.circuit_breaker import CircuitBreaker
from hitherto_shared.embeddings.protocol import Embedder, EmbeddingBatch
from hitherto_shared.model_api import (
    ModelError,
    ModelMisconfigured,
    ModelRefused,
    ModelUnavailable,
    ModelUsage,
)

Asked = TypeVar("Asked")

_HARMLESS_TEXT = "Hello"


class GuardedChatModel:
    """A language model that is not called while it is known to be unreachable.

    Args:
        inner: The model.
        breaker: Its circuit breaker.
        harmless: A prompt that any working model answers, to classify a refusal.
    """

    def __init__(self, inner: ChatModel, breaker: CircuitBreaker, harmless: Prompt) -> None:
        self.extractor = inner.extractor
        self.model = inner.model
        self._inner = inner
        self._breaker = breaker
        self._harmless = harmless

    async def complete(self, prompt: Prompt) -> Completion:
        """Request once, unless the circuit breaker is open.

        Raises:
            ModelError: As raised by the model; ModelUnavailable also without a call, and
                ModelMisconfigured if it refuses a harmless prompt as well.
        """
        return await self._breaker.call(
            lambda: _classify_rejection(
                lambda: self._inner.complete(prompt),
                self._try_harmless,
                "check OPENAI_BASE_URL and MEMORY_EXTRACTION_MODEL",
            )
        )

    async def _try_harmless(self) -> Sequence[ModelUsage]:
        return [await self._inner.complete(self._harmless)]

    async def close(self) -> None:
        """Release connections."""
        await self._inner.close()


class GuardedEmbedder(Embedder):
    """An embedder that is not called while it is known to be unreachable."""

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
        """Embed, unless the circuit breaker is open.

        Raises:
            ModelError: As raised by the embedder; ModelUnavailable also without a call, and
                ModelMisconfigured if it fails with a harmless text as well.
        """
        return await self._breaker.call(
            lambda: _classify_rejection(
                lambda: self._inner.embed(texts, timeout=timeout),
                lambda: self._try_harmless(timeout),
                "check OPENAI_BASE_URL, EMBEDDING_MODEL and EMBEDDING_DIMENSIONS",
            )
        )

    async def _try_harmless(self, timeout: float | None) -> Sequence[ModelUsage]:
        await self._inner.embed([_HARMLESS_TEXT], timeout=timeout)
        return ()

    async def close(self) -> None:
        """Release connections and threads."""
        await self._inner.close()


async def _classify_rejection(
    ask: Callable[[], Awaitable[Asked]],
    try_harmless: Callable[[], Awaitable[Sequence[ModelUsage]]],
    advice: str,
) -> Asked:
    """The answer of `ask`; an ambiguous error is classified first.

    Raises:
        ModelMisconfigured: The harmless request met an ambiguous error too.
        ModelUnavailable: The model became unreachable meanwhile.
        ModelError: As raised by `ask`: the harmless request was answered.
    """
    try:
        return await ask()
    except ModelError as error:
        if not error.doubtful:
            raise
        doubt = error
    try:
        spent = await try_harmless()
    except ModelUnavailable as error:
        error.spent = [*doubt.spent, *error.spent]
        raise
    except ModelError as error:
        doubt.spent = [*doubt.spent, *error.spent]
        if not error.doubtful:
            raise doubt from None
        text = str(doubt)
        found = ModelMisconfigured(
            (text if ": check" in text else f"{text}: {advice}")
            + "; a harmless request failed too",
            status=doubt.status if isinstance(doubt, ModelRefused) else 0,
        )
        # The calls are counted, but no model has read their texts.
        found.spent = [
            replace(each, input_tokens=0, output_tokens=0)
            for each in doubt.spent
            if isinstance(each, Completion)
        ]
        raise found from None
    doubt.spent = [*doubt.spent, *spent]
    raise doubt
