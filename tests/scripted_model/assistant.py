"""A scripted assistant: OpenAI's chat completions and responses, Anthropic's messages, Gemini."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from tests.listening import Listener
from tests.scripted_model import gemini, http, messages


@dataclass(frozen=True, slots=True)
class AssistantRequest:
    """One request to the model."""

    path: str
    body: Mapping[str, Any]

    @property
    def instructions(self) -> str:
        """What the model is told before the conversation."""
        if "systemInstruction" in self.body:
            return gemini.text_of(self.body["systemInstruction"])
        if "system" in self.body:
            return _text(self.body["system"])
        if "messages" not in self.body:
            return str(self.body.get("instructions") or "")
        told = [m["content"] for m in self.body["messages"] if m["role"] in ("system", "developer")]
        return "\n".join(text if isinstance(text, str) else json.dumps(text) for text in told)

    @property
    def history(self) -> list[tuple[str, str]]:
        """Roles and texts of the conversation."""
        if "contents" in self.body:
            return gemini.history(self.body)
        given = self.body.get("messages", self.body.get("input"))
        if isinstance(given, str):
            return [("user", given)]
        return [
            (item["role"], _text(item.get("content")))
            for item in given or ()
            if item.get("role") in ("user", "assistant")
        ]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the assistant says.

    Attributes:
        text: Its words; a stream sends them one by one.
        calls: Functions that it calls: id, name and arguments as JSON.
        status: An error in place of an answer.
        cut_after: Words after which a stream's connection is cut.
        held_after: Words after which a stream waits until `release`.
    """

    text: str = ""
    calls: tuple[tuple[str, str, str], ...] = ()
    status: int = 200
    cut_after: int | None = None
    held_after: int | None = None


class ScriptedAssistant:
    """An OpenAI-compatible server on a free port, as an async context manager.

    Attributes:
        script: Answers a request when nothing is queued.
        requests: What it was asked.
    """

    def __init__(self, script: Callable[[AssistantRequest], Answer] | None = None) -> None:
        self.script = script or (lambda request: Answer(f"You said: {request.history[-1][1]}"))
        self.requests: list[AssistantRequest] = []
        self.release = asyncio.Event()
        self._queue: deque[Answer] = deque()
        self._listener = Listener(self._serve)
        self._made = 0

    async def __aenter__(self) -> Self:
        await self._listener.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening and cut every connection."""
        await self._listener.__aexit__()

    @property
    def base_url(self) -> str:
        """What `base_url` of a client is to be."""
        return f"http://127.0.0.1:{self._listener.port}/v1"

    def queue(self, *answers: Answer) -> None:
        """Give these answers to the next requests."""
        self._queue.extend(answers)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await http.read_request(reader)) is not None:
            await self._answer(request, writer)

    async def _answer(self, request: http.Request, writer: asyncio.StreamWriter) -> None:
        if request.path == "/v1/models":
            models = [{"id": "scripted", "object": "model", "created": 0, "owned_by": "tests"}]
            await _send(writer, _reply({"object": "list", "data": models}))
            return
        asked = AssistantRequest(request.path, json.loads(request.body))
        self.requests.append(asked)
        self._made += 1
        answer = self._queue.popleft() if self._queue else self.script(asked)
        if answer.status != 200:
            refusal = {"error": {"message": "scripted", "type": "server_error", "code": None}}
            await _send(writer, _reply(refusal, answer.status))
            return
        chat = request.path.endswith("/chat/completions")
        if not asked.body.get("stream"):
            await _send(writer, _reply(_whole(self._made, asked, answer)))
            return
        await _send(writer, http.head(200, _STREAM_HEADERS))
        events = _stream(self._made, asked, answer)
        async for event in self._paced(events, answer):
            if event is None:
                http.reset(writer)
                raise ConnectionResetError
            name = "" if chat else f"event: {event['type']}\n"
            await _send_chunk(writer, f"{name}data: {json.dumps(event)}\n\n")
        if chat:
            await _send_chunk(writer, "data: [DONE]\n\n")
        await _send(writer, b"0\r\n\r\n")

    async def _paced(
        self, events: Iterator[dict[str, Any]], answer: Answer
    ) -> AsyncIterator[dict[str, Any] | None]:
        """The events, and None where the connection is to be cut."""
        words = 0
        for event in events:
            if _says_something(event):
                if words == answer.cut_after:
                    yield None
                if words == answer.held_after:
                    await self.release.wait()
                words += 1
            yield event


_STREAM_HEADERS = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"}


def _text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part.get("text", "") for part in content)


def _says_something(event: Mapping[str, Any]) -> bool:
    if "choices" in event:
        return any(choice["delta"].get("content") for choice in event["choices"])
    return event["type"] in ("response.output_text.delta", "content_block_delta")


def _whole(number: int, request: AssistantRequest, answer: Answer) -> dict[str, Any]:
    if request.path.endswith(":generateContent"):
        return gemini.reply(answer.text, answer.calls)
    if request.path.endswith("/messages"):
        return messages.message(number, answer.text, answer.calls)
    whole = _completion if request.path.endswith("/chat/completions") else _response
    return whole(number, request, answer)


def _stream(number: int, request: AssistantRequest, answer: Answer) -> Iterator[dict[str, Any]]:
    if request.path.endswith("/messages"):
        return messages.events(number, _words(answer.text), answer.calls)
    if request.path.endswith("/chat/completions"):
        return _chunks(number, answer)
    return _events(number, request, answer)


def _words(text: str) -> list[str]:
    return (
        [word if n == 0 else f" {word}" for n, word in enumerate(text.split(" "))] if text else []
    )


def _reply(body: Mapping[str, Any], status: int = 200) -> bytes:
    return http.reply(status, json.dumps(body).encode(), content_type="application/json")


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()


async def _send_chunk(writer: asyncio.StreamWriter, text: str) -> None:
    data = text.encode()
    await _send(writer, b"%x\r\n%b\r\n" % (len(data), data))


# --- chat completions ----------------------------------------------------------------------------


def _calls(answer: Answer) -> list[dict[str, Any]]:
    return [
        {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for id, name, arguments in answer.calls
    ]


def _completion(number: int, request: AssistantRequest, answer: Answer) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
    if answer.calls:
        message["tool_calls"] = _calls(answer)
    reason = "tool_calls" if answer.calls else "stop"
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1_750_000_000,
        "model": "scripted",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def _chunks(number: int, answer: Answer) -> Iterator[dict[str, Any]]:
    def chunk(delta: Mapping[str, Any], reason: str | None = None) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion.chunk",
            "created": 1_750_000_000,
            "model": "scripted",
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        }

    yield chunk({"role": "assistant", "content": ""})
    for word in _words(answer.text):
        yield chunk({"content": word})
    for index, call in enumerate(_calls(answer)):
        arguments = call["function"]["arguments"]
        begun = {**call["function"], "arguments": ""}
        yield chunk({"tool_calls": [{**call, "index": index, "function": begun}]})
        for part in (arguments[:5], arguments[5:]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
    yield chunk({}, "tool_calls" if answer.calls else "stop")


# --- responses -----------------------------------------------------------------------------------


def _response(
    number: int, request: AssistantRequest, answer: Answer, status: str = "completed"
) -> dict[str, Any]:
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1_750_000_000,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": request.body.get("instructions"),
        "metadata": {},
        "model": "scripted",
        "output": _output(number, answer) if status == "completed" else [],
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": {
            "input_tokens": 1,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 2,
        },
    }


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _output(number: int, answer: Answer) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if answer.text:
        found.append(_message(number, "completed", [_part(answer.text)]))
    for id, name, arguments in answer.calls:
        found.append(
            {
                "id": f"fc_{number}_{id}",
                "type": "function_call",
                "status": "completed",
                "call_id": id,
                "name": name,
                "arguments": arguments,
            }
        )
    return found


def _message(number: int, status: str, content: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": content,
    }


def _events(number: int, request: AssistantRequest, answer: Answer) -> Iterator[dict[str, Any]]:
    count = 0

    def event(kind: str, **fields: Any) -> dict[str, Any]:
        nonlocal count
        count += 1
        return {"type": f"response.{kind}", "sequence_number": count - 1, **fields}

    yield event("created", response=_response(number, request, answer, "in_progress"))
    place = 0
    if answer.text:
        at = {"item_id": f"msg_{number}", "output_index": 0, "content_index": 0}
        yield event("output_item.added", output_index=0, item=_message(number, "in_progress", []))
        yield event("content_part.added", **at, part=_part(""))
        for word in _words(answer.text):
            yield event("output_text.delta", **at, delta=word, logprobs=[])
        yield event("output_text.done", **at, text=answer.text, logprobs=[])
        yield event("content_part.done", **at, part=_part(answer.text))
        place = 1
    for index, item in enumerate(_output(number, answer)):
        if index >= place:
            begun = {**item, "arguments": "", "status": "in_progress"}
            yield event("output_item.added", output_index=index, item=begun)
            at = {"item_id": item["id"], "output_index": index}
            yield event("function_call_arguments.delta", **at, delta=item["arguments"])
            named = {"arguments": item["arguments"], "name": item["name"]}
            yield event("function_call_arguments.done", **at, **named)
        yield event("output_item.done", output_index=index, item=item)
    yield event("completed", response=_response(number, request, answer))
