"""A chat model behind the OpenAI API or a server that speaks it.

What this server accepts is learnt from its refusals (`dialect`); how its replies say what they say
differs from vendor to vendor as well, and is read here.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hitherto_extraction.provider.dialect import Dialect
from hitherto_extraction.provider.protocol import Completion, Prompt
from hitherto_extraction.provider.reply_text import only_reasons
from hitherto_shared import metrics
from hitherto_shared.model_api import (
    ContentRefused,
    ModelError,
    ModelMisbehaved,
    ModelRefused,
    ModelUnavailable,
    PromptTooLong,
    used_tokens,
)
from hitherto_shared.model_server import OF_THE_CONTENT, ModelServer, RequestRejected, beginning

DEFAULT_TIMEOUT = 60.0
_MORE_ROOM = 4
"""How many times the tokens are asked for where thinking leaves none for the answer."""
_OF_THE_LENGTH = ("context_length_exceeded", "maximum context length", "exceed_context_size")
_FEWEST_CUT = 512
"""Tokens below which no server cuts a prompt: a smaller count is a wrong one."""
_BYTES_OF_A_TOKEN = 8
"""Twice what a token of any language has on average."""

logger = logging.getLogger(__name__)


class OpenAIChatModel:
    """Calls an OpenAI-compatible server, once per prompt.

    A refusal that names a part of the form costs a further call, counted in `Completion.calls`; the
    simpler form is remembered until the process ends. So is a higher limit of tokens, if a model
    has spent the whole limit on thinking.

    Raises:
        ValueError: A setting cannot be used; the message names the variable to change.
    """

    extractor = "openai"

    def __init__(
        self,
        *,
        model: str,
        server: ModelServer,
        timeout: float = DEFAULT_TIMEOUT,
        temperature: float = 0.3,
        max_tokens: int = 4000,
    ) -> None:
        from hitherto_extraction.provider.openai_client import ChatServer  # noqa: PLC0415

        if not model.strip():
            raise ValueError("MEMORY_EXTRACTION_MODEL is empty: set it to the name of a chat model")
        self.model = model
        self.server = server
        self._http = ChatServer(server, timeout=timeout)
        self._temperature = temperature
        self._max_tokens = max_tokens
        self._dialect = Dialect()
        self._room = 1
        self._warned = False

    async def complete(self, prompt: Prompt) -> Completion:
        """Request once; again, with a higher limit of tokens, if the model has only thought.

        An answer without text is a `Completion` with empty text. The errors are those of
        `ChatModel.complete`.
        """
        first = await self._asked(prompt, self._dialect, self._room)
        if self._room > 1 or not (first.truncated and only_reasons(first.text)):
            return first
        try:
            second = await self._asked(prompt, self._dialect, _MORE_ROOM)
        except ModelRefused:
            return first
        if not (second.truncated and only_reasons(second.text)):
            self._room = _MORE_ROOM
            logger.warning(
                "the model spends its tokens on thinking; replies may have %d times "
                "MEMORY_EXTRACTION_MAX_TOKENS from now on", _MORE_ROOM
            )  # fmt: skip
        return replace(
            second,
            calls=first.calls + second.calls,
            input_tokens=first.input_tokens + second.input_tokens,
            output_tokens=first.output_tokens + second.output_tokens,
        )

    async def simplify(self, harmless: Prompt) -> bool:
        """Look for a simpler form in which a harmless prompt passes, and keep it.

        Whether there is one, and the usual form is refused still. An outage meanwhile is raised.
        """
        usual = self._dialect
        for dialect in usual.simpler():
            if await self._passes(harmless, dialect):
                # A server that has recovered meanwhile takes the usual form, which is then kept.
                return not await self._passes(harmless, usual)
        return False

    async def _passes(self, harmless: Prompt, dialect: Dialect) -> bool:
        try:
            await self._asked(harmless, dialect)
        except ModelUnavailable as error:
            if error.status != 500 and not error.doubtful:
                raise
        except ModelError:
            pass
        else:
            return True
        return False

    async def close(self) -> None:
        """Release connections."""
        await self._http.close()

    async def _asked(self, prompt: Prompt, dialect: Dialect, room: int = 1) -> Completion:
        """The answer to a prompt, which may have so many times the usual tokens."""
        with metrics.measured_model_call("chat", self.model) as call:
            return await self._ask(prompt, dialect, room * self._max_tokens, call)

    async def _ask(
        self, prompt: Prompt, dialect: Dialect, max_tokens: int, call: metrics.ModelCall
    ) -> Completion:
        calls = 0
        while True:
            calls += 1
            try:
                reply = await self._http.post(
                    dialect.body(
                        self.model, prompt, temperature=self._temperature, max_tokens=max_tokens
                    )
                )
            except RequestRejected as refusal:
                simpler = dialect.after(refusal)
                if simpler is None:
                    raise (_of_the_text(refusal) or refusal) from None
                dialect = simpler
                continue
            except ModelMisbehaved as error:
                sent = (prompt.system, prompt.user)
                spent = (
                    call.used("input", *used_tokens(None, "prompt_tokens", sent)),
                    call.used("output", *used_tokens(None, "completion_tokens", [error.reply])),
                )
                found = error if error.doubtful else ContentRefused(str(error))
                found.spent = [Completion("", self.model, calls, *spent)]
                raise found from None
            if dialect != self._dialect:
                logger.info("the model server accepts only %s; using that from now on", dialect)
                self._dialect = dialect
            return self._completion(prompt, reply, calls, call)

    def _completion(
        self, prompt: Prompt, reply: Mapping[str, Any], calls: int, call: metrics.ModelCall
    ) -> Completion:
        choices = reply.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        message = choice.get("message") if isinstance(choice, dict) else None
        reason = choice.get("finish_reason") if isinstance(choice, dict) else None
        reason = reason.casefold() if isinstance(reason, str) else ""
        # `length`, `max_tokens`, `MAX_TOKENS`, `model_length`, by the vendor.
        truncated = "length" in reason or "token" in reason
        usage = reply.get("usage")
        name = reply.get("model")
        text = _text(message, stopped=not truncated) if isinstance(message, dict) else ""
        sent = (prompt.system, prompt.user)
        read, estimated = used_tokens(usage, "prompt_tokens", sent)
        found = Completion(
            text=text,
            # It is stored with the job, so it must be a plain name.
            model=name[:200]
            if isinstance(name, str) and name and name.isprintable()
            else self.model,
            calls=calls,
            input_tokens=call.used("input", read, estimated),
            output_tokens=call.used("output", *used_tokens(usage, "completion_tokens", [text])),
            truncated=truncated,
            filtered=not text
            and isinstance(message, dict)
            and ("filter" in reason or bool(message.get("refusal"))),
            unread=not estimated and self._was_cut(sent, read),
        )
        if not isinstance(message, dict):
            error = ModelMisbehaved(
                "the model server's reply has no choices with a message",
                reply=beginning(json.dumps(reply).encode()),
            )
            error.spent = [found]
            raise error
        return found

    def _was_cut(self, sent: tuple[str, ...], read: int) -> bool:
        """Whether the server has read less than was sent, by its own count of tokens.

        Some servers cut a prompt at their context, a power of two, without a word.
        """
        size = sum(len(text.encode("utf-8", "replace")) for text in sent)
        if read < _FEWEST_CUT:
            return False
        whole_context = read.bit_count() == 1 and read < size // (_BYTES_OF_A_TOKEN // 2)
        if not whole_context and read >= size // _BYTES_OF_A_TOKEN:
            return False
        if not self._warned:
            self._warned = True
            logger.warning(
                "the model server has read %d tokens of a prompt of about %d: it cuts long prompts "
                "silently. Raise its context (OLLAMA_CONTEXT_LENGTH for Ollama, -c for llama.cpp, "
                "the context length in LM Studio), or lower HITHERTO_BATCH_TOKENS and "
                "HITHERTO_PROMPT_MEMORIES", read, size // (_BYTES_OF_A_TOKEN // 2)
            )  # fmt: skip
        return True


def _of_the_text(refusal: RequestRejected) -> ModelRefused | None:
    """The error for a request that was refused for its length or its content, by known words."""
    if refusal.names(*OF_THE_CONTENT):
        found: ModelRefused = ContentRefused(str(refusal))
    elif refusal.status in (413, 429, 500) or (
        refusal.status in (400, 422) and refusal.names(*_OF_THE_LENGTH)
    ):
        found = PromptTooLong(
            f"{refusal}; the model cannot take so much text at once: lower HITHERTO_BATCH_TOKENS "
            "or use a model with a larger context"
        )
        # Some fail on a schema in the words for a text: a harmless request tells which it is.
        found.doubtful = refusal.status in (429, 500)
    else:
        return None
    found.status = refusal.status
    return found


def _text(message: Mapping[str, Any], *, stopped: bool) -> str:
    """The answer in a message; empty for a refusal, and for content of an unknown form.

    Some servers put it into the call of a tool, or, if the model did not mark its end, all of it
    into the reasoning. That counts only if the model has `stopped` by itself, and the reasoning is
    the bare object: otherwise it is a draft.
    """
    if message.get("refusal"):
        return ""
    content = _joined(message.get("content"))
    if content.strip():
        return content
    calls = message.get("tool_calls")
    first = calls[0] if isinstance(calls, list) and calls else message
    function = first.get("function") if isinstance(first, dict) else None
    for call in (function, message.get("function_call")):
        arguments = call.get("arguments") if isinstance(call, dict) else None
        if isinstance(arguments, str) and arguments.strip():
            return arguments
        if isinstance(arguments, dict) and arguments:
            return json.dumps(arguments)
    for name in ("reasoning_content", "reasoning"):
        reasoning = message.get(name)
        bare = reasoning.strip() if isinstance(reasoning, str) else ""
        if stopped and bare.startswith("{") and bare.endswith("}"):
            return bare
    return content


def _joined(content: object) -> str:
    """The text of a content that is a text, or a list of parts."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""
