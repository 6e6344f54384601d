"""A scripted model that takes no time, or as long as it is told to, as a process.

    python -m benchmarks.model_server [--topics]

Every chat call is answered with three memories that were never said before, and a summary; every
embeddings call with unit vectors that depend on the text alone, with `--topics` those of
`benchmarks.retrieval.wording`. `GET /calls` tells how often each was called; `GET /delay/150` holds
back every later reply for 150 ms. It prints `port N` once it listens, and ends with its standard
input.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from itertools import count

import uvloop

from benchmarks.processes import listening
from benchmarks.retrieval import wording
from benchmarks.words import Vector, name, sentence, vector
from tests.scripted_model import ChatAnswer, ScriptedModel

MEMORIES = 3
_TAGS = 60


def instant_model(make: Callable[[str], Vector]) -> ScriptedModel:
    """The model; `make` makes the vector of a text."""
    numbers = count(1)

    async def embed(texts: list[str]) -> list[Vector]:
        return [make(text) for text in texts]

    return ScriptedModel(lambda _: _extraction(next(numbers)), embed=embed)


def _extraction(number: int) -> ChatAnswer:
    """What the model found, in the shape of the extraction prompt's schema."""
    rng = random.Random(number)
    first = number * MEMORIES
    return ChatAnswer.of(
        new_memories=[
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
        updated_memories=[],
        contradicted_memories=[],
        achieved_goals=[],
        conversation_summary={
            "title": sentence(rng, 5),
            "summary": sentence(rng, 30),
            "key_topics": [name(rng.randrange(1000)).lower() for _ in range(3)],
            "outcome": "resolved",
        },
    )


async def serve(make: Callable[[str], Vector]) -> None:
    """Answer on a free port of 127.0.0.1 until standard input ends."""
    async with instant_model(make) as model:
        await listening(model.port)


if __name__ == "__main__":
    uvloop.run(serve(wording.vector if "--topics" in sys.argv else vector))
