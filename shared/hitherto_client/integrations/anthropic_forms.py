"""The form of Anthropic's API: where a request has its messages, and a reply its words."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hitherto_client.integrations.exchange import ModelExchange, Utterance
from hitherto_client.integrations.forms import AnswerSoFar, Form
from hitherto_client.integrations.wording import field, joined, text_of, without_blocks


class MessagesReply(AnswerSoFar):
    """A reply of `messages`."""

    def read(self, whole: Any) -> None:
        """Take a whole reply."""
        self._text = [part.text for part in whole.content if part.type == "text"]
        for place, part in enumerate(whole.content):
            if part.type == "tool_use":
                self._calls[place] = [part.name, json.dumps(part.input, ensure_ascii=False)]
        self.complete = whole.stop_reason is not None

    def note(self, event: Any) -> None:
        """Take the next event of a stream."""
        if event.type == "content_block_start" and event.content_block.type == "tool_use":
            self._call(event.index, event.content_block.name, None)
        elif event.type == "content_block_delta":
            if event.delta.type == "text_delta":
                self._text.append(event.delta.text)
            elif event.delta.type == "input_json_delta":
                self._call(event.index, None, event.delta.partial_json)
        elif event.type == "message_delta":
            self.complete = event.delta.stop_reason is not None


class MessagesForm(Form):
    """`messages`: the instructions are the argument `system`."""

    key = "messages"
    reply = MessagesReply

    def exchange(self, request: Mapping[str, Any], *, tools: bool) -> ModelExchange:
        """What the request says."""
        messages = list(request["messages"])
        # The beginning of the reply, if the request gives it, answers nothing.
        while messages and field(messages[-1], "role") == "assistant":
            messages.pop()
        return ModelExchange(_utterances(messages, tools))

    def with_block(self, request: Mapping[str, Any], block: str) -> dict[str, Any]:
        """The request with a block of memory.

        It follows the parts of the instructions, so that those that are cached stay so.
        """
        system = request.get("system")
        if system and not isinstance(system, str) and isinstance(system, Iterable):
            parts = [part for part in system if without_blocks(text_of([part])).strip()]
            return {**request, "system": [*parts, {"type": "text", "text": block}]}
        instructions = system if isinstance(system, str) else ""
        return {**request, "system": joined(instructions, block)}


def _utterances(messages: Iterable[Any], tools: bool) -> Iterator[Utterance]:
    for message in messages:
        role, content = field(message, "role"), field(message, "content")
        if role in ("user", "assistant"):
            yield Utterance(role, text_of(content))
        for part in content if tools and not isinstance(content, str) else ():
            if field(part, "type") == "tool_result":
                yield Utterance("tool", text_of(field(part, "content")))
