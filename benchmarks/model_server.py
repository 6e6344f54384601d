"""A model server that takes no time, or as long as it is told to, in OpenAI's format.

    python -m benchmarks.model_server [--topics]

Every chat call is answered with three memories that were never said before, and a summary; every
embeddings call with unit vectors that depend on the text alone, with `--topics` those of
`benchmarks.retrieval.wording`. `GET /calls` tells how often each was called and for how many texts;
`GET /delay/150` holds back every later embeddings reply for 150 ms. It prints `port N` once it
listens, and ends with its standard input.
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
from typing import Any

import uvloop

from benchmarks.processes import listening
from benchmarks.words import DIMENSIONS, Vector, name, sentence, vector
from tests.scripted_model.http import read_request, reply

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

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer what comes over one connection, one request after the other."""
        while (request := await read_request(reader)) is not None:
            status, body = self.answer(request.path, request.body)
            if seconds := self.delay(request.path):
                await asyncio.sleep(seconds)
            writer.write(reply(status, body, content_type="application/json"))
        writer.close()

    def _completion(self, request: dict[str, Any], size: int) -> dict[str, Any]:
        content = json.dumps(_extraction(next(self._numbers)))
        usage = {"prompt_tokens": size // 4, "completion_tokens": len(content) // 4}
        message = {"role": "assistant", "content": content}
        return {
            "id": "chatcmpl-0",
            "object": "chat.completion",
            "created": 1_767_600_000,
            "model": request.get("model"),
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
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
    found = [make(text, int(request.get("dimensions") or DIMENSIONS)) for text in texts]
    if request.get("encoding_format") == "base64":
        data: list[Any] = [base64.b64encode(each.tobytes()).decode() for each in found]
    else:
        data = [each.tolist() for each in found]
    tokens = sum(len(text) for text in texts) // 4
    return {
        "object": "list",
        "model": request.get("model"),
        "data": [
            {"object": "embedding", "index": i, "embedding": each} for i, each in enumerate(data)
        ],
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


async def serve(endpoint: ModelEndpoint) -> None:
    """Answer on a free port of 127.0.0.1 until standard input ends."""
    async with await asyncio.start_server(endpoint.talk, "127.0.0.1", 0) as server:
        await listening(server.sockets[0].getsockname()[1])


if __name__ == "__main__":
    if "--topics" in sys.argv:
        from benchmarks.retrieval import wording

        uvloop.run(serve(ModelEndpoint(wording.vector)))
    else:
        uvloop.run(serve(ModelEndpoint()))
