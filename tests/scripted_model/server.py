"""The scripted server: counts and keeps what it is asked, answers by script, fails on order."""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from tests.listening import Listener
from tests.scripted_model import http
from tests.scripted_model.answers import ChatAnswer
from tests.scripted_model.faults import (
    EmbeddingFault,
    Fault,
    Hang,
    RawReply,
    RefuseFormat,
    Reset,
    SlowDrip,
    StatusFault,
)
from tests.scripted_model.prompts import ChatRequest
from tests.scripted_model.scripts import Outcome, Script, empty_script
from tests.scripted_model.vectors import text_vector

Endpoint = Literal["chat", "embeddings"]
Vector = NDArray[np.float32]
Embed = Callable[[list[str]], Awaitable[list[Vector] | StatusFault]]

_PATHS: Mapping[str, Endpoint] = {
    "/v1/chat/completions": "chat",
    "/v1/embeddings": "embeddings",
}
_KEPT_REQUESTS = 200
_DEFAULT_DIMENSIONS = 1536


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    """One request to the embeddings endpoint."""

    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def texts(self) -> list[str]:
        """The texts to embed."""
        given = self.body.get("input", [])
        return [given] if isinstance(given, str) else list(given)


class ScriptedModel:
    """An OpenAI-compatible server on a free port of 127.0.0.1, as an async context manager.

    Args:
        script: Answers chat requests when nothing is queued.
        dimensions: Length of embeddings when a request does not say.
        float_only: Ignore a wish for base64, as many local servers do.
        delay: Seconds before every answer, like a model that thinks.
        port: The port; 0 takes a free one.
        embed: Makes the vectors of texts, or says how the call fails, in place of hashed words.

    Attributes:
        script: As the argument.
        embed: As the argument.
        calls: Number of requests by endpoint (`chat`, `embeddings`).
        chat_requests: The last requests to the chat endpoint.
        embedding_requests: The last requests to the embeddings endpoint.
    """

    def __init__(
        self,
        script: Script = empty_script,
        *,
        dimensions: int = _DEFAULT_DIMENSIONS,
        float_only: bool = False,
        delay: float = 0.0,
        port: int = 0,
        embed: Embed | None = None,
    ) -> None:
        self.script = script
        self.dimensions = dimensions
        self.float_only = float_only
        self.delay = delay
        self.calls: Counter[str] = Counter()
        self.chat_requests: deque[ChatRequest] = deque(maxlen=_KEPT_REQUESTS)
        self.embedding_requests: deque[EmbeddingRequest] = deque(maxlen=_KEPT_REQUESTS)
        self._listener = Listener(self._serve, port=port)
        self.embed = embed
        self._embeds_usually = embed
        self._queues: dict[str, deque[Outcome]] = defaultdict(deque)
        self._always: dict[str, Fault] = {}
        self._called = asyncio.Condition()

    async def __aenter__(self) -> Self:
        await self._listener.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening and cut every connection, hanging ones included."""
        await self._listener.__aexit__()

    @property
    def port(self) -> int:
        return self._listener.port

    @property
    def base_url(self) -> str:
        """What `OPENAI_BASE_URL` is to be."""
        return f"http://127.0.0.1:{self.port}/v1"

    def start_over(self, script: Script) -> None:
        """Be as a new server with this script: no calls, nothing queued, no fault, no delay."""
        self.script, self.delay = script, 0.0
        self.embed = self._embeds_usually
        self.calls.clear()
        self.chat_requests.clear()
        self.embedding_requests.clear()
        self._queues.clear()
        self._always.clear()

    def queue(self, *outcomes: Outcome, endpoint: Endpoint = "chat") -> None:
        """Use each outcome for one of the next calls, in order, before the script is asked."""
        self._queues[endpoint].extend(outcomes)

    def always(self, fault: Fault | None, *, endpoint: Endpoint = "chat") -> None:
        """Fail every call of one endpoint in this way, after what is queued; None heals it."""
        if fault is None:
            self._always.pop(endpoint, None)
        else:
            self._always[endpoint] = fault

    async def called(self, times: int, *, endpoint: Endpoint = "chat") -> None:
        """Wait until an endpoint was called so often; the caller sets the bound."""
        async with self._called:
            await self._called.wait_for(lambda: self.calls[endpoint] >= times)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await http.read_request(reader)) is not None:
            await self._answer(request, reader, writer)

    async def _answer(
        self, request: http.Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        endpoint = _PATHS.get(request.path)
        if endpoint is None:
            await _send(writer, self._side_door(request.path))
            return
        async with self._called:
            self.calls[endpoint] += 1
            self._called.notify_all()
        body = json.loads(request.body)
        if self.delay:
            await asyncio.sleep(self.delay)
        if endpoint == "chat":
            chat = ChatRequest(body, request.headers)
            self.chat_requests.append(chat)
            outcome = self._next(endpoint) or await self._scripted(chat)
            await self._deliver_chat(chat, outcome, reader, writer)
        else:
            texts = EmbeddingRequest(body, request.headers)
            self.embedding_requests.append(texts)
            fault = self._next(endpoint)
            if isinstance(fault, ChatAnswer):
                raise TypeError("a ChatAnswer was queued for the embeddings endpoint")
            kind = fault.kind if isinstance(fault, EmbeddingFault) else ""
            made = await self._vectors(texts)
            if isinstance(made, StatusFault):
                fault, made = made, []
            right = _json(self._embeddings(texts, made, kind))
            await _deliver(right, fault, "", reader, writer)

    def _next(self, endpoint: Endpoint) -> Outcome | None:
        queued = self._queues[endpoint]
        return queued.popleft() if queued else self._always.get(endpoint)

    async def _scripted(self, request: ChatRequest) -> Outcome:
        outcome = self.script(request)
        return await outcome if inspect.isawaitable(outcome) else outcome

    async def _deliver_chat(
        self,
        request: ChatRequest,
        outcome: Outcome,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        fault: Fault | None = None
        if not isinstance(outcome, ChatAnswer):
            fault = outcome
            scripted = await self._scripted(request)
            outcome = scripted if isinstance(scripted, ChatAnswer) else empty_script(request)
        right = _json(outcome.body(request.model))
        await _deliver(right, fault, request.response_format, reader, writer)

    async def _vectors(self, request: EmbeddingRequest) -> list[Vector] | StatusFault:
        if self.embed is not None:
            return await self.embed(request.texts)
        size = int(request.body.get("dimensions") or self.dimensions)
        return [text_vector(text, size) for text in request.texts]

    def _embeddings(
        self, request: EmbeddingRequest, vectors: list[Vector], fault: str
    ) -> dict[str, Any]:
        size = int(request.body.get("dimensions") or self.dimensions)
        if fault == "wrong_dimensions":
            size //= 2
            vectors = [text_vector(text, size) for text in request.texts]
        as_base64 = request.body.get("encoding_format") == "base64" and not self.float_only
        _spoil(vectors, fault)
        data: list[dict[str, Any]] = [
            {"object": "embedding", "index": n, "embedding": _encoded(vector, as_base64)}
            for n, vector in enumerate(vectors)
        ]
        if fault == "one_missing":
            data.pop()
        elif fault == "one_more":
            data.append(dict(data[-1], index=len(data)))
        elif fault == "same_index":
            data[0]["index"] = data[-1]["index"] if len(data) > 1 else 1
        elif fault == "no_index":
            del data[0]["index"]
        elif fault == "zero_index":
            for item in data:
                item["index"] = 0
        elif fault in ("text", "nested", "beyond_singles"):
            number = {"text": "0.1", "nested": 0.1, "beyond_singles": 1e300}[fault]
            odd = [number] * size
            data[0]["embedding"] = [odd] if fault == "nested" else odd
        elif fault == "bad_base64":
            data[0]["embedding"] = "*not base64*"
        elif fault == "shuffled":
            data.reverse()
        reply: dict[str, Any] = {"object": "list", "model": request.body.get("model"), "data": data}
        if fault != "no_usage":
            tokens = sum(len(text.split()) for text in request.texts)
            reply["usage"] = {"prompt_tokens": tokens, "total_tokens": tokens}
        return reply

    def _side_door(self, path: str) -> bytes:
        """The list of models; counters, and a delay in ms, for who started a process; or 404."""
        if path == "/v1/models":
            models = [{"id": "scripted", "object": "model", "created": 0, "owned_by": "tests"}]
            return _ok(_json({"object": "list", "data": models}))
        if path == "/calls":
            return _ok(_json(dict(self.calls)))
        if path.startswith("/delay/"):
            self.delay = float(path.removeprefix("/delay/")) / 1_000
            return _ok(b"{}")
        return _error(StatusFault(404, code="not_found", message="no such path"))


def _spoil(vectors: list[NDArray[np.float32]], fault: str) -> None:
    if fault == "nan":
        vectors[-1][0] = np.nan
    elif fault == "infinity":
        vectors[-1][0] = np.inf
    elif fault == "zero":
        vectors[-1][:] = 0.0
    elif fault == "not_normalised":
        vectors[:] = [vector * np.float32(7.5) for vector in vectors]


def _encoded(vector: NDArray[np.float32], as_base64: bool) -> str | list[float]:
    if as_base64:
        return base64.b64encode(vector.astype("<f4").tobytes()).decode()
    return [float(number) for number in vector]


async def _deliver(
    right: bytes,
    fault: Fault | None,
    response_format: str,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Send the right answer, or what the fault makes of it."""
    match fault:
        case StatusFault():
            await _send(writer, _error(fault))
        case Reset(after):
            await _send(writer, _ok(right)[:after])
            http.reset(writer)
        case Hang():
            await reader.read()
        case SlowDrip(seconds, size):
            whole = _ok(right)
            for start in range(0, len(whole), size):
                await _send(writer, whole[start : start + size])
                await asyncio.sleep(seconds)
        case RawReply():
            await _send_raw(writer, fault)
        case RefuseFormat(formats, status) if response_format in formats:
            text = f"Invalid parameter: 'response_format' of type '{response_format}'"
            refusal = StatusFault(status, code="invalid_request_error", message=text)
            await _send(writer, _error(refusal))
        case _:
            await _send(writer, _ok(right))


async def _send_raw(writer: asyncio.StreamWriter, raw: RawReply) -> None:
    headers = {"Content-Type": raw.content_type} | dict(raw.headers)
    if raw.announce_length:
        headers["Content-Length"] = str(len(raw.body) * raw.repeat)
    else:
        headers["Transfer-Encoding"] = "chunked"
    await _send(writer, http.head(200, headers))
    for _ in range(raw.repeat):
        if raw.announce_length:
            await _send(writer, raw.body)
        elif raw.body:
            await _send(writer, b"%x\r\n%b\r\n" % (len(raw.body), raw.body))
    if not raw.announce_length:
        await _send(writer, b"0\r\n\r\n")


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()


def _ok(body: bytes) -> bytes:
    return http.reply(200, body, content_type="application/json")


def _error(fault: StatusFault) -> bytes:
    body = fault.body
    if body is None:
        error = {"message": fault.message, "type": "scripted", "code": fault.code, "param": None}
        body = _json({"error": error})
    headers = dict(fault.headers)
    if fault.retry_after is not None:
        headers["Retry-After"] = fault.retry_after
    return http.reply(fault.status, body, content_type="application/json", headers=headers)


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
