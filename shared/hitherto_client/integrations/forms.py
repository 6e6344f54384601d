"""The forms of models' APIs: where their requests have messages, and replies words."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hitherto_client.integrations.exchange import (
    ModelExchange,
    Utterance,
    field,
    joined,
    text_of,
    without_blocks,
)


class AnswerSoFar(ABC):
    """What a model answered, whole or event by event."""

    def __init__(self, *, tools: bool) -> None:
        self._tools = tools
        self._text: list[str] = []
        self._calls: dict[int, list[str]] = {}
        self.complete = False
        """Whether the model came to an end."""

    @abstractmethod
    def read(self, whole: Any) -> None:
        """Take a whole reply."""

    @abstractmethod
    def note(self, event: Any) -> None:
        """Take the next event of a stream."""

    def utterances(self) -> Iterator[Utterance]:
        """The words of the reply, and the tool calls if these are kept."""
        yield Utterance("assistant", "".join(self._text))
        if self._tools:
            for name, arguments in self._calls.values():
                yield Utterance("tool", f"{name}({arguments})", name)

    def _call(self, place: int, name: str | None, arguments: str | None) -> None:
        call = self._calls.setdefault(place, ["", ""])
        call[0] += name or ""
        call[1] += arguments or ""


class Form(ABC):
    """How requests of one kind are read and extended. A request is never changed, only copied."""

    key: str
    """The argument with the messages."""
    reply: type[AnswerSoFar]

    def whole(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The request, with messages that can be read more than once."""
        messages = request[self.key]
        if not isinstance(messages, str | list | tuple) and hasattr(messages, "__iter__"):
            messages = list(messages)
        return {**request, self.key: messages}

    @abstractmethod
    def exchange(self, request: Mapping[str, Any], *, tools: bool) -> ModelExchange:
        """What the request says; results of tools only with `tools`."""

    @abstractmethod
    def with_block(self, request: Mapping[str, Any], block: str) -> dict[str, Any]:
        """The request with a block of memory in its instructions, in place of an earlier one."""


class ChatReply(AnswerSoFar):
    """A reply of `chat.completions`: its first choice."""

    def read(self, whole: Any) -> None:
        """Take a whole reply."""
        for choice in whole.choices[:1]:
            self._take(choice, choice.message)
            self.complete = True

    def note(self, event: Any) -> None:
        """Take the next event of a stream."""
        for choice in field(event, "choices") or ():
            if choice.index == 0 and choice.delta is not None:
                self._take(choice, choice.delta)
                self.complete = self.complete or choice.finish_reason is not None

    def _take(self, choice: Any, said: Any) -> None:
        self._text.append(said.content or field(said, "refusal") or "")
        for number, call in enumerate(field(said, "tool_calls") or ()):
            function = field(call, "function") or field(call, "custom")
            place = field(call, "index")
            self._call(
                number if place is None else place,
                field(function, "name"),
                field(function, "arguments") or field(function, "input"),
            )


class ResponsesReply(AnswerSoFar):
    """A reply of `responses`."""

    def read(self, whole: Any) -> None:
        """Take a whole reply."""
        self._text = [whole.output_text or _refusal(whole)]
        calls = [item for item in whole.output if item.type == "function_call"]
        self._calls = {n: [call.name, call.arguments] for n, call in enumerate(calls)}
        self.complete = whole.status == "completed"

    def note(self, event: Any) -> None:
        """Take the next event of a stream."""
        if event.type in ("response.output_text.delta", "response.refusal.delta"):
            self._text.append(event.delta)
        elif event.type in ("response.completed", "response.incomplete", "response.failed"):
            self.read(event.response)


def _refusal(response: Any) -> str:
    parts = (part for item in response.output for part in field(item, "content") or ())
    return "".join(part.refusal for part in parts if field(part, "type") == "refusal")


class ChatForm(Form):
    """`chat.completions`: the instructions are the first message."""

    key = "messages"
    reply = ChatReply

    def exchange(self, request: Mapping[str, Any], *, tools: bool) -> ModelExchange:
        """What the request says."""
        return ModelExchange(_chat_utterances(request["messages"], tools))

    def with_block(self, request: Mapping[str, Any], block: str) -> dict[str, Any]:
        """The request with a block of memory."""
        messages = list(request["messages"])
        first: Any = messages[0] if messages else None
        if field(first, "role") not in ("system", "developer"):
            return {**request, "messages": [{"role": "system", "content": block}, *messages]}
        content = field(first, "content")
        extended = (
            joined(content, block)
            if isinstance(content, str)
            else [*(content or ()), {"type": "text", "text": block}]
        )
        fields = first if isinstance(first, Mapping) else first.model_dump(exclude_none=True)
        messages[0] = {**fields, "content": extended}
        return {**request, "messages": messages}


class ResponsesForm(Form):
    """`responses`: the instructions are an argument."""

    key = "input"
    reply = ResponsesReply

    def exchange(self, request: Mapping[str, Any], *, tools: bool) -> ModelExchange:
        """What the request says."""
        named = (request.get("previous_response_id"), request.get("conversation"))
        thread = next((_id(one) for one in named if _id(one)), "")
        given = request["input"]
        if isinstance(given, str):
            return ModelExchange([Utterance("user", given)], thread=thread)
        return ModelExchange(_response_utterances(given, tools), thread=thread)

    def with_block(self, request: Mapping[str, Any], block: str) -> dict[str, Any]:
        """The request with a block of memory."""
        given = request.get("instructions")
        instructions = given if isinstance(given, str) else ""
        return {**request, "instructions": joined(instructions, block)}


def _id(named: Any) -> str:
    """The id of a conversation or response that a request continues; empty if it names none."""
    found = named if isinstance(named, str) else field(named, "id")
    return found if isinstance(found, str) else ""


def _chat_utterances(messages: Any, tools: bool) -> Iterator[Utterance]:
    for message in messages:
        role = field(message, "role")
        text = text_of(field(message, "content"))
        if role in ("user", "assistant"):
            yield Utterance(role, text)
        elif role in ("tool", "function") and tools:
            yield Utterance("tool", text, field(message, "name") or "")


def _response_utterances(items: Any, tools: bool) -> Iterator[Utterance]:
    for item in items:
        kind = field(item, "type") or "message"
        role = field(item, "role")
        if kind == "message" and role in ("user", "assistant"):
            yield Utterance(role, text_of(field(item, "content")))
        elif kind == "function_call":
            yield Utterance("assistant", "")
        elif kind == "function_call_output" and tools:
            yield Utterance("tool", text_of(field(item, "output")))


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
        return ModelExchange(_message_utterances(messages, tools))

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


def _message_utterances(messages: Iterable[Any], tools: bool) -> Iterator[Utterance]:
    for message in messages:
        role, content = field(message, "role"), field(message, "content")
        if role in ("user", "assistant"):
            yield Utterance(role, text_of(content))
        for part in content if tools and not isinstance(content, str) else ():
            if field(part, "type") == "tool_result":
                yield Utterance("tool", text_of(field(part, "content")))
