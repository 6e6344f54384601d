"""A model server that takes no time: OpenAI's wire format, answers made from a counter.

    python -m benchmarks.throughput.model_server

Every chat call is answered with three memories that were never said before, and a summary; every
embeddings call with unit vectors that depend on the text alone. `GET /calls` tells how often each
was called. It prints `port N` once it listens, and ends with its standard input.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from itertools import count
from typing import Any

import uvloop

from benchmarks.embeddings_reply import embeddings_reply, vector
from benchmarks.http_server import serve
from benchmarks.words import name, sentence

MEMORIES = 3
_TAGS = 60
_CHAT = "/chat/completions"
_EMBEDDINGS = "/embeddings"
_CALLS = "/calls"


class ModelEndpoint:
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
            return 200, _json(embeddings_reply(json.loads(body), vector))
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


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


if __name__ == "__main__":
    uvloop.run(serve(ModelEndpoint().answer))
