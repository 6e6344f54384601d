"""The form of a chat request, which differs from server to server.

A request begins with the richest form. `after` finds the next simpler one by what a refusal names,
`simpler` lists those to try with a harmless prompt if a refusal says nothing that is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hitherto_extraction.provider.protocol import Prompt
from hitherto_shared.model_server import RequestRejected

_BOUNDS = ("maxLength", "maxItems")
# What servers report that cannot constrain a model to these: by name, or because the grammar of the
# schema becomes too large.
_ABOUT_BOUNDS = ("maxlength", "maxitems", "grammar", "repetition")


@dataclass(frozen=True, slots=True)
class Dialect:
    """The form that one server accepts.

    `response_format` is a JSON schema, which limits every text and list so that a server with
    constrained decoding cannot run on. If a server refuses the limits, the schema is sent without
    them. If it refuses this form, the older one is sent: the type `json_object` with the schema
    beside it, then `json_object` alone, then only the prompt.
    """

    response_format: str = "json_schema"  # then "json_object", then ""
    schema: bool = True  # whether the schema goes along; for "json_object" beside the type
    bounds: bool = True  # whether the schema says how long texts and lists may be
    token_limit: str = "max_tokens"  # then "max_completion_tokens"
    temperature: bool = True
    system: bool = True  # whether the instructions are a message of their own

    def body(
        self, model: str, prompt: Prompt, *, temperature: float, max_tokens: int
    ) -> dict[str, Any]:
        """The request for a prompt."""
        system, user = _sendable(prompt.system), _sendable(prompt.user)
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        if not self.system:
            messages = [{"role": "user", "content": f"{system}\n\n{user}"}]
        body: dict[str, Any] = {"model": model, "messages": messages, self.token_limit: max_tokens}
        if self.temperature:
            body["temperature"] = temperature
        schema = dict(prompt.schema) if self.bounds else _without_bounds(prompt.schema)
        if self.response_format == "json_schema":
            named = {"name": prompt.task, "strict": False, "schema": schema}
            body["response_format"] = {"type": "json_schema", "json_schema": named}
        elif self.response_format:
            body["response_format"] = {"type": self.response_format}
            if self.schema:
                body["response_format"]["schema"] = schema
        return body

    def after(self, refusal: RequestRejected) -> Dialect | None:
        """The next simpler form to try, or None if the refusal has another cause."""
        if refusal.status not in (400, 422):
            return None
        if self.token_limit == "max_tokens" and refusal.names("max_completion_tokens"):
            return replace(self, token_limit="max_completion_tokens")
        if self.temperature and refusal.names("temperature"):
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

    def simpler(self) -> Iterator[Dialect]:
        """Simpler forms, to try one after another: first with one change each, then with more."""
        plainer = [
            replace(self, bounds=False),
            replace(self, response_format="json_object", schema=False),
            replace(self, response_format="", schema=False),
        ]
        others = [
            replace(self, temperature=False),
            replace(self, token_limit="max_completion_tokens"),
            replace(self, system=False),
        ]
        plain = plainer[-1]
        more = [
            replace(plainer[1], temperature=False),
            replace(plain, temperature=False),
            replace(plain, temperature=False, token_limit="max_completion_tokens"),
            replace(plain, temperature=False, system=False),
            replace(plain, temperature=False, token_limit="max_completion_tokens", system=False),
        ]
        seen = {self}
        for each in (*others[:1], *plainer, *others[1:], *more):
            if each not in seen:
                seen.add(each)
                yield each


def _without_bounds(schema: Any) -> Any:
    """A JSON schema, or a part of one, without the limits on texts and lists."""
    if isinstance(schema, Mapping):
        return {key: _without_bounds(part) for key, part in schema.items() if key not in _BOUNDS}
    return [_without_bounds(part) for part in schema] if isinstance(schema, list) else schema


def _sendable(text: str) -> str:
    """The text without lone surrogates, which UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode()
