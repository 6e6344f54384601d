"""A chat model behind the OpenAI API or a server that speaks it."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hitherto_extraction.provider.protocol import Completion, Prompt
from hitherto_shared import long_json, metrics
from hitherto_shared.model_api import ModelMisbehaved, PromptTooLong, used_tokens
from hitherto_shared.model_server import RequestRejected, beginning
from hitherto_shared.openai_client import CallRules, OpenAIServer

DEFAULT_TIMEOUT = 60.0
# A call may take a minute and is paid for: the caller's queue decides when to try again.
CHAT_RULES = CallRules(
    model_setting="MEMORY_EXTRACTION_MODEL", resends=False, gzip=True, load=long_json.loads
)
_BOUNDS = ("maxLength", "maxItems")
# What servers report that cannot constrain a model to these: by name, or because the grammar of the
# schema becomes too large.
_ABOUT_BOUNDS = ("maxlength", "maxitems", "grammar", "repetition")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Dialect:
    """The request format that one server accepts.

    Learnt from its refusals, starting with the richest.
    """

    response_format: str = "json_schema"  # then "json_object", then ""
    schema: bool = True  # whether the schema goes along; for "json_object" beside the type
    bounds: bool = True  # whether the schema says how long texts and lists may be
    token_limit: str = "max_tokens"  # then "max_completion_tokens"
    temperature: bool = True

    def after(self, refusal: RequestRejected) -> _Dialect | None:
        """The next simpler format to try, or None if the refusal has another cause."""
        if refusal.status not in (400, 422):
            return None
        if self.token_limit == "max_tokens" and refusal.names("max_completion_tokens"):
            return replace(self, token_limit="max_completion_tokens")
        if self.temperature and refusal.names("'temperature'", '"temperature"'):
            return replace(self, temperature=False)
        if self.schema and refusal.names(*_ABOUT_BOUNDS):
            if self.bounds:
                return replace(self, bounds=False)
            return replace(self, response_format="json_object", schema=False)
        # A 422 comes from servers that validate the body and do not know the field's new form.
        about_format = refusal.names("response_format", "json_schema", "json_object")
        if not self.response_format or not (about_format or refusal.status == 422):
            return None
        if self.response_format == "json_schema":
            return replace(self, response_format="json_object")
        if self.schema and not refusal.names("json_object"):
            return replace(self, schema=False)
        return replace(self, response_format="", schema=False)


class OpenAIChatModel:
    """Calls an OpenAI-compatible server, once per prompt.

    `response_format` is a JSON schema, which limits every text and list so that a server with
    constrained decoding cannot run on. If a server refuses the limits, the schema is sent without
    them. If it refuses this form, the older one is sent: the type `json_object` with the schema
    beside it, then `json_object` alone, then only the prompt. What a server refuses is remembered
    until the process ends. Such a refusal costs a further call, counted in `Completion.calls`.

    Args:
        model: Name of the model, such as `gpt-4o-mini`.
        base_url: Root of the API; empty means OpenAI.
        api_key: The key; a local server may need none.
        timeout: Seconds for one call, to the last byte.

    Raises:
        ValueError: A setting cannot be used; the message names the variable to change.
    """

    extractor = "openai"

    def __init__(
        self,
        *,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        if not model.strip():
            raise ValueError("MEMORY_EXTRACTION_MODEL is empty: set it to the name of a chat model")
        self.model = model
        self._server = OpenAIServer(CHAT_RULES, base_url=base_url, api_key=api_key, timeout=timeout)
        self._dialect = _Dialect()

    async def complete(self, prompt: Prompt) -> Completion:
        """Request once; see `ChatModel.complete` for the errors.

        An answer without text, or a refusal by the model, is a `Completion` with empty text.
        """
        with metrics.measured_model_call("chat", self.model) as call:
            return await self._complete(prompt, call)

    async def _complete(self, prompt: Prompt, call: metrics.ModelCall) -> Completion:
        calls = 0
        dialect = self._dialect
        while True:
            calls += 1
            try:
                reply = await self._server.post("/chat/completions", self._body(prompt, dialect))
            except RequestRejected as refusal:
                simpler = dialect.after(refusal)
                if simpler is None:
                    raise (_too_long(refusal) or refusal) from None
                dialect = simpler
                continue
            except ModelMisbehaved as error:
                sent = (prompt.system, prompt.user)
                spent = (
                    call.used("input", *used_tokens(None, "prompt_tokens", sent)),
                    call.used("output", *used_tokens(None, "completion_tokens", [error.reply])),
                )
                error.spent = [Completion("", self.model, calls, *spent)]
                raise
            if dialect != self._dialect:
                logger.info("the model server accepts only %s; using that from now on", dialect)
                self._dialect = dialect
            return self._completion(prompt, reply, calls, call)

    async def close(self) -> None:
        """Release connections."""
        await self._server.close()

    def _body(self, prompt: Prompt, dialect: _Dialect) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [
                {"role": "system", "content": prompt.system},
                {"role": "user", "content": prompt.user},
            ],
            dialect.token_limit: prompt.max_tokens,
        }
        if dialect.temperature:
            body["temperature"] = prompt.temperature
        schema = dict(prompt.schema) if dialect.bounds else _without_bounds(prompt.schema)
        if dialect.response_format == "json_schema":
            named = {"name": prompt.task, "strict": False, "schema": schema}
            body["response_format"] = {"type": "json_schema", "json_schema": named}
        elif dialect.response_format:
            body["response_format"] = {"type": dialect.response_format}
            if dialect.schema:
                body["response_format"]["schema"] = schema
        return body

    def _completion(
        self, prompt: Prompt, reply: Mapping[str, Any], calls: int, call: metrics.ModelCall
    ) -> Completion:
        choices = reply.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        message = choice.get("message") if isinstance(choice, dict) else None
        usage = reply.get("usage")
        name = reply.get("model")
        text = _text(message) if isinstance(message, dict) else ""
        sent = (prompt.system, prompt.user)
        found = Completion(
            text=text,
            # It is stored with the job, so it must be a plain name.
            model=name[:200]
            if isinstance(name, str) and name and name.isprintable()
            else self.model,
            calls=calls,
            input_tokens=call.used("input", *used_tokens(usage, "prompt_tokens", sent)),
            output_tokens=call.used("output", *used_tokens(usage, "completion_tokens", [text])),
            truncated=isinstance(choice, dict) and choice.get("finish_reason") == "length",
        )
        if not isinstance(message, dict):
            error = ModelMisbehaved(
                "the model server's reply has no choices with a message",
                reply=beginning(json.dumps(reply).encode()),
            )
            error.spent = [found]
            raise error
        return found


def _without_bounds(schema: Any) -> Any:
    """A JSON schema, or a part of one, without the limits on texts and lists."""
    if isinstance(schema, Mapping):
        return {key: _without_bounds(part) for key, part in schema.items() if key not in _BOUNDS}
    return [_without_bounds(part) for part in schema] if isinstance(schema, list) else schema


def _too_long(refusal: RequestRejected) -> PromptTooLong | None:
    """The error for a request that was refused for its length, in the words of known servers."""
    words = ("context_length_exceeded", "maximum context length", "exceed_context_size")
    if refusal.status != 413 and not (refusal.status in (400, 422) and refusal.names(*words)):
        return None
    error = PromptTooLong(
        f"{refusal}; the model cannot take so much text at once: lower HITHERTO_BATCH_TOKENS or "
        "use a model with a larger context"
    )
    error.status = refusal.status
    return error


def _text(message: Mapping[str, Any]) -> str:
    """The message's text; empty for a refusal, missing content, and content of an unknown form."""
    content = message.get("content")
    if message.get("refusal"):
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(part for part in parts if isinstance(part, str))
    return ""
