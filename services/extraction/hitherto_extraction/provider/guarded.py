"""The language model and the embedder, each behind a circuit breaker of this process.

A refusal, or something else in place of an answer, may concern the one request or everything that
this installation sends: a status alone does not tell. A harmless request, sent at once, does. If it
fails too, the installation is at fault (`ModelMisconfigured`), and not the job.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from hitherto_extraction.provider.openai_chat import OpenAIChatModel
from hitherto_extraction.provider.protocol import Completion, Prompt
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
_OF_THE_FORM = frozenset({400, 403, 404, 405, 415, 422, 429, 500, 501})
"""Statuses of refusals that a simpler form of request may avoid; 429 and 500 only if what is too
large may be the schema."""
_IN_A_ROW = 2
"""Errors 500 in a row, or to one prompt, from which on a harmless one tells whether all fail."""
_FAILURES_OF_A_PROMPT = 4
"""Errors 500 to one prompt, while others are answered, from which on it is refused."""
_MOST_FAILURES_KEPT = 256

logger = logging.getLogger("hitherto.models")


class GuardedChatModel:
    """A language model that is not called while it is known to be unreachable.

    If a prompt and a harmless one are both refused, simpler forms of the request are tried, before
    the installation counts as misconfigured. If the server fails on one prompt again and again and
    answers a harmless one each time, it refuses that prompt.

    `harmless` is a prompt that any working model answers, to classify a refusal. `url_setting`
    names the variable with the server's address, for messages.
    """

    def __init__(
        self,
        inner: OpenAIChatModel,
        breaker: CircuitBreaker,
        harmless: Prompt,
        *,
        url_setting: str = "OPENAI_BASE_URL",
    ) -> None:
        self.extractor = inner.extractor
        self.model = inner.model
        self._inner = inner
        self._breaker = breaker
        self._harmless = harmless
        self._advice = f"check {url_setting} and MEMORY_EXTRACTION_MODEL"
        self._searched = False
        self._failed_in_a_row = 0
        self._failures: OrderedDict[int, int] = OrderedDict()

    async def complete(self, prompt: Prompt) -> Completion:
        """Request once, unless the circuit breaker is open.

        Raises:
            ModelError: As raised by the model; ModelUnavailable also without a call,
                ModelMisconfigured if it refuses a harmless prompt as well, and ModelRefused if it
                fails on this prompt alone.
        """
        return await self._breaker.call(lambda: self._complete(prompt))

    async def _complete(self, prompt: Prompt) -> Completion:
        try:
            answer = await _classify_rejection(
                lambda: self._inner.complete(prompt),
                lambda: self._try_harmless(prompt),
                self._advice,
            )
        except ModelMisconfigured as error:
            formal = error.asked_harmless and error.status in _OF_THE_FORM
            if formal and await self._simplified(prompt):
                return await self._inner.complete(prompt)
            raise
        except ModelUnavailable as error:
            if error.status != 500:
                raise
            self._failed_in_a_row += 1
            if max(self._failed_in_a_row, self._failed_again(prompt)) < _IN_A_ROW:
                raise
            return await self._after_failures(prompt, error)
        self._failed_in_a_row = 0
        self._searched = False
        self._failures.pop(hash(prompt.user), None)
        return answer

    async def _after_failures(self, prompt: Prompt, error: ModelUnavailable) -> Completion:
        """Tell an outage from a form of request, and from a prompt, that the server fails on."""
        key = hash(prompt.user)
        try:
            await self._try_harmless(prompt)
        except ModelUnavailable as same:
            # What fails while everything does proves nothing about one prompt.
            self._failures.pop(key, None)
            if same.status == 500 and await self._simplified(prompt):
                return await self._inner.complete(prompt)
            raise error from None
        except ModelError:
            raise error from None
        if self._failures.get(key, 0) < _FAILURES_OF_A_PROMPT:
            raise error
        refused = ModelRefused(f"{error}, again and again, and answers other prompts")
        refused.status = error.status
        raise refused from None

    def _failed_again(self, prompt: Prompt) -> int:
        """How often the server has failed on this prompt, this time included."""
        key = hash(prompt.user)
        self._failures[key] = self._failures.pop(key, 0) + 1
        if len(self._failures) > _MOST_FAILURES_KEPT:
            self._failures.popitem(last=False)
        return self._failures[key]

    async def _simplified(self, prompt: Prompt) -> bool:
        """Look once for a simpler form, and again only after the model has answered."""
        if self._searched:
            return False
        self._searched = True
        found = await self._inner.simplify(self._harmless_like(prompt))
        if found:
            logger.warning(
                "the model server refuses the usual form of request; using a simpler one"
            )
        return found

    async def _try_harmless(self, prompt: Prompt) -> Sequence[ModelUsage]:
        return [await self._inner.complete(self._harmless_like(prompt))]

    def _harmless_like(self, prompt: Prompt) -> Prompt:
        """The harmless prompt in the form of `prompt`, whose schema may be what is refused."""
        return replace(self._harmless, task=prompt.task, schema=prompt.schema)

    async def close(self) -> None:
        """Release connections."""
        await self._inner.close()


class GuardedEmbedder(Embedder):
    """An embedder that is not called while it is known to be unreachable."""

    def __init__(
        self, inner: Embedder, breaker: CircuitBreaker, *, url_setting: str = "OPENAI_BASE_URL"
    ) -> None:
        self._inner = inner
        self._breaker = breaker
        self._advice = f"check {url_setting}, EMBEDDING_MODEL and EMBEDDING_DIMENSIONS"

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
                self._advice,
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
    except ModelError as second:
        if isinstance(second, ModelUnavailable) and not second.doubtful:
            second.spent = [*doubt.spent, *second.spent]
            raise
        doubt.spent = [*doubt.spent, *second.spent]
        if not second.doubtful:
            raise _of_the_request(doubt) from None
        text = str(doubt)
        found = ModelMisconfigured(
            (text if ": check" in text else f"{text}: {advice}")
            + "; a harmless request failed too",
            status=doubt.status if isinstance(doubt, ModelRefused | ModelUnavailable) else 0,
        )
        # The calls are counted, but no model has read their texts.
        found.asked_harmless = True
        found.spent = [
            replace(each, input_tokens=0, output_tokens=0)
            for each in doubt.spent
            if isinstance(each, Completion)
        ]
        raise found from None
    doubt.spent = [*doubt.spent, *spent]
    raise _of_the_request(doubt)


def _of_the_request(doubt: ModelError) -> ModelError:
    """The error of a request while a harmless one is answered: the installation is in order."""
    if not isinstance(doubt, ModelMisconfigured):
        return doubt
    refused = ModelRefused(f"{doubt}; a harmless request was answered")
    refused.status = doubt.status
    refused.spent = doubt.spent
    return refused
