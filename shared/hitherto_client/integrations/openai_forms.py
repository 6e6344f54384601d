"""The two forms of OpenAI's API: where a request has its messages, and a reply its words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hitherto_client.integrations.exchange import ModelExchange, Utterance
from hitherto_client.integrations.forms import AnswerSoFar, Form
from hitherto_client.integrations.wording import field, joined, text_of


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
