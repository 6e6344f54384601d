"""The embeddings endpoint of the benchmark: OpenAI's wire format, as late as it is told to be.

    python -m benchmarks.retrieval.embedder

`GET /delay/150` holds back every later reply for 150 ms, `GET /calls` tells how many calls there
were and how many texts. It prints `port N` once it listens, and ends with its standard input.
"""

from __future__ import annotations

import json
from collections import Counter

import uvloop

from benchmarks.embeddings_reply import embeddings_reply
from benchmarks.http_server import serve
from benchmarks.retrieval.wording import vector

CALLS = "/calls"
DELAY = "/delay/"
_EMBEDDINGS = "/embeddings"


class EmbeddingEndpoint:
    """Answers calls and counts them."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter(calls=0, texts=0)
        self._delay_seconds = 0.0

    def delay(self, path: str) -> float:
        """Seconds to wait with a reply."""
        return self._delay_seconds if path.endswith(_EMBEDDINGS) else 0.0

    def answer(self, path: str, body: bytes) -> tuple[int, bytes]:
        """The status and the body of the reply to a request."""
        if path.endswith(_EMBEDDINGS):
            reply = embeddings_reply(json.loads(body), vector)
            self.counts["calls"] += 1
            self.counts["texts"] += len(reply["data"])
            return 200, json.dumps(reply).encode()
        if path.startswith(DELAY):
            self._delay_seconds = float(path.removeprefix(DELAY)) / 1_000
        return 200, json.dumps(self.counts).encode()


if __name__ == "__main__":
    embedder = EmbeddingEndpoint()
    uvloop.run(serve(embedder.answer, embedder.delay))
