"""A model server that takes no time: OpenAI's wire format, answers made from a counter.

    python -m benchmarks.throughput.model_server

Every chat call is answered with three memories that were never said before, and a summary; every
embeddings call with unit vectors that depend on the text alone. `GET /calls` tells how often each
was called. It prints `port N` once it listens, and ends with its standard input.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import sys
from collections import Counter
from hashlib import blake2b
from itertools import count
from typing import Any, cast

import numpy as np
import uvloop
from numpy.typing import NDArray

from benchmarks.throughput.words import name, sentence

DIMENSIONS = 1536
MEMORIES = 3
_TAGS = 60
_CHAT = "/chat/completions"
_EMBEDDINGS = "/embeddings"
_CALLS = "/calls"
# Slices of one field of noise are as good as independent vectors, and far cheaper to make.
_NOISE: NDArray[np.float32] = np.random.default_rng(1).standard_normal(1 << 20, dtype=np.float32)


class Model:
    """Answers requests and counts them."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter(chat=0, embeddings=0)
        self._numbers = count(1)

    def answer(self, path: str, body: bytes) -> tuple[int, bytes]:
        """The status and the body of the reply to a request."""
        if path.endswith(_CALLS):
            return 200, _json(self.calls)
        if path.endswith(_CHAT):
            self.calls["chat"] += 1
            return 200, _json(self._completion(json.loads(body), len(body)))
        if path.endswith(_EMBEDDINGS):
            self.calls["embeddings"] += 1
            return 200, _json(_embeddings(json.loads(body)))
        return 404, _json({"error": {"message": "no such path", "code": "not_found"}})

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


def vector(text: str, dimensions: int) -> NDArray[np.float32]:
    """A unit vector: the same for the same text, at right angles to that of any other."""
    seed = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
    start = seed % (len(_NOISE) - dimensions)
    piece = _NOISE[start : start + dimensions]
    return (piece / np.linalg.norm(piece)).astype("<f4")


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


def _embeddings(request: dict[str, Any]) -> dict[str, Any]:
    given = request["input"]
    texts: list[str] = [given] if isinstance(given, str) else given
    size = int(request.get("dimensions") or DIMENSIONS)
    as_base64 = request.get("encoding_format") == "base64"
    found = [vector(text, size) for text in texts]
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


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


class _Connection(asyncio.Protocol):
    """One connection: requests with a length in, replies with a length out."""

    def __init__(self, model: Model) -> None:
        self._model = model
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
            status, reply = self._model.answer(head.split(" ", 2)[1], body)
            assert self._transport is not None
            self._transport.write(
                b"HTTP/1.1 %d OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                % (status, len(reply))
                + reply
            )


def _length(head: str) -> int:
    for line in head.split("\r\n")[1:]:
        field, _, value = line.partition(":")
        if field.lower() == "content-length":
            return int(value)
    return 0


async def serve() -> None:
    """Answer until standard input ends."""
    model = Model()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(model), "127.0.0.1", 0)
    print(f"port {server.sockets[0].getsockname()[1]}", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    uvloop.run(serve())
