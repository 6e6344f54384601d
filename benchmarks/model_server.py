"""A model server that takes no time, or as long as it is told to: OpenAI's format over HTTP/1.1.

    python -m benchmarks.model_server [--topics]

Every chat call is answered with three memories that were never said before, and a summary; every
embeddings call with unit vectors that depend on the text alone, with `--topics` those of
`benchmarks.retrieval.wording`. `GET /calls` tells how often each was called and for how many texts;
`GET /delay/150` holds back every later embeddings reply for 150 ms. It prints `port N` once it
listens, and ends with its standard input. Of HTTP it knows bodies with a length and kept
connections, which is all that a client of a model needs.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, cast

import uvloop

from benchmarks.words import DIMENSIONS, Vector, name, sentence, vector

CALLS = "/calls"
DELAY = "/delay/"
MEMORIES = 3
_TAGS = 60
_CHAT = "/chat/completions"
_EMBEDDINGS = "/embeddings"

MakeVector = Callable[[str, int], Vector]
"""Makes the vector of a text in so many dimensions, of little-endian singles."""


class ModelEndpoint:
    """Answers requests and counts them."""

    def __init__(self, make: MakeVector = vector) -> None:
        self.calls: Counter[str] = Counter(chat=0, embeddings=0, texts=0)
        self._make = make
        self._numbers = count(1)
        self._delay_seconds = 0.0

    def delay(self, path: str) -> float:
        """Seconds to wait with a reply."""
        return self._delay_seconds if path.endswith(_EMBEDDINGS) else 0.0

    def answer(self, path: str, body: bytes) -> tuple[int, bytes]:
        """The status and the body of the reply to a request."""
        found: Mapping[str, Any] = self.calls
        if path.endswith(_CHAT):
            self.calls["chat"] += 1
            found = self._completion(json.loads(body), len(body))
        elif path.endswith(_EMBEDDINGS):
            found = _embeddings(json.loads(body), self._make)
            self.calls["embeddings"] += 1
            self.calls["texts"] += len(found["data"])
        elif path.startswith(DELAY):
            self._delay_seconds = float(path.removeprefix(DELAY)) / 1_000
        elif path != CALLS:
            return 404, b'{"error": {"message": "no such path", "code": "not_found"}}'
        return 200, json.dumps(found).encode()

    def _completion(self, request: dict[str, Any], size: int) -> dict[str, Any]:
        content = json.dumps(_extraction(next(self._numbers)))
        usage = {"prompt_tokens": size // 4, "completion_tokens": len(content) // 4}
        return {
            "id": "chatcmpl-0",
            "object": "chat.completion",
            "created": 1_767_600_000,
            "model": request.get("model"),
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": content},
                    "finish_reason": "stop",
                }
            ],
            "usage": {**usage, "total_tokens": sum(usage.values())},
        }


def _extraction(number: int) -> dict[str, Any]:
    """What the model found, in the shape of the extraction prompt's schema."""
    rng = random.Random(number)
    first = number * MEMORIES
    return {
        "new_memories": [
            {
                "type": ("fact", "preference", "decision")[i],
                "content": sentence(rng, rng.randint(8, 18)),
                "importance": 0.6,
                "confidence": "high",
                # So many tags that no user collects enough memories of one to be consolidated:
                # that would be a call of its own.
                "tags": [f"tag_{(first + i) % _TAGS}"],
                "keywords": [name(rng.randrange(1000)).lower() for _ in range(3)],
                "entities": [{"name": name(rng.randrange(300)), "type": "person"}],
                "source_message_ids": [f"m{1 + 2 * rng.randrange(10)}"],
                "origin": "user",
            }
            for i in range(MEMORIES)
        ],
        "updated_memories": [],
        "contradicted_memories": [],
        "achieved_goals": [],
        "conversation_summary": {
            "title": sentence(rng, 5),
            "summary": sentence(rng, 30),
            "key_topics": [name(rng.randrange(1000)).lower() for _ in range(3)],
            "outcome": "resolved",
        },
    }


def _embeddings(request: Mapping[str, Any], make: MakeVector) -> dict[str, Any]:
    """The vectors of a request's texts, as numbers or, where it asks for that, as base64."""
    given = request["input"]
    texts: list[str] = [given] if isinstance(given, str) else given
    size = int(request.get("dimensions") or DIMENSIONS)
    as_base64 = request.get("encoding_format") == "base64"
    found = [make(text, size) for text in texts]
    tokens = sum(len(text) for text in texts) // 4
    return {
        "object": "list",
        "model": request.get("model"),
        "data": [
            {
                "object": "embedding",
                "index": i,
                "embedding": base64.b64encode(v.tobytes()).decode() if as_base64 else v.tolist(),
            }
            for i, v in enumerate(found)
        ],
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


async def serve(endpoint: ModelEndpoint) -> None:
    """Answer on a free port of 127.0.0.1, which is printed, until standard input ends."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(endpoint), "127.0.0.1", 0)
    print(f"port {server.sockets[0].getsockname()[1]}", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


class _Connection(asyncio.Protocol):
    """One connection: requests with a length in, replies with a length out."""

    def __init__(self, endpoint: ModelEndpoint) -> None:
        self._endpoint = endpoint
        self._held = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Answer every request that is whole."""
        self._held += data
        while (end := self._held.find(b"\r\n\r\n")) >= 0:
            head = self._held[:end].decode("latin-1")
            stop = end + 4 + _length(head)
            if len(self._held) < stop:
                return
            body = bytes(self._held[end + 4 : stop])
            del self._held[:stop]
            path = head.split(" ", 2)[1]
            seconds = self._endpoint.delay(path)
            reply = _reply(*self._endpoint.answer(path, body))
            if seconds > 0:
                asyncio.get_running_loop().call_later(seconds, self._write, reply)
            else:
                self._write(reply)

    def _write(self, reply: bytes) -> None:
        # Whoever waited too long is gone.
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(reply)


def _reply(status: int, body: bytes) -> bytes:
    return (
        b"HTTP/1.1 %d OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        % (status, len(body))
        + body
    )


def _length(head: str) -> int:
    for line in head.split("\r\n")[1:]:
        field, _, value = line.partition(":")
        if field.lower() == "content-length":
            return int(value)
    return 0


if __name__ == "__main__":
    if "--topics" in sys.argv:
        from benchmarks.retrieval import wording

        uvloop.run(serve(ModelEndpoint(wording.vector)))
    else:
        uvloop.run(serve(ModelEndpoint()))
