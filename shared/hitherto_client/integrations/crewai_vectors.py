"""Vectors that hold words, and scores of what is found by these: both as CrewAI compares them.

CrewAI asks a storage by a vector alone and adds age and importance to its scores. From a score of
0.85 on, it asks its model whether a new statement repeats a known one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from hitherto_client.integrations.exchange import storable
from hitherto_client.results.search import SearchResult

WEIGHTS = {
    **{"semantic": 1.0, "keyword": 1.0, "date": 0.4, "entity": 0.1},
    **dict.fromkeys(("source", "speaker", "source_priority", "session", "neighbour"), 0.0),
}
"""What a record can have; the rest is of messages, documents and what was learnt from them."""
_SCALE = sum(WEIGHTS.values())
_MIDDLE, _STEP = 127.5, 2.0**-16


def vector_of(text: str) -> list[float]:
    """A vector that holds a text: its digest, then the text itself, too small to count.

    CrewAI compares vectors of one batch, to drop repetitions. The cosine of two of these is 1 if
    the texts are equal, and near 0 otherwise.
    """
    said = storable(text).encode()
    digest = hashlib.sha256(said).digest()
    return [*(byte - _MIDDLE for byte in digest), *(byte * _STEP for byte in said)]


def words_of(vector: Sequence[float]) -> str:
    """The text that a vector holds.

    Raises:
        ValueError: `vector_of` did not make it.
    """
    size = hashlib.sha256().digest_size
    try:
        digest = bytes(round(part + _MIDDLE) for part in vector[:size])
        said = bytes(round(part / _STEP) for part in vector[size:])
    except (ValueError, OverflowError):
        digest, said = b"", b""
    if hashlib.sha256(said).digest() != digest:
        raise ValueError(
            "this vector holds no words, which Hitherto searches for: give CrewAI the storage's "
            "own embedder, Memory(storage=storage, embedder=storage.embedder)"
        )
    return said.decode()


def score_of(result: SearchResult) -> float:
    """The score of a result of a search with `WEIGHTS`, from 0 to 1.

    It is the cosine; words that are alike raise it by up to half of what it lacks to 1.
    """
    parts = {name: part * _SCALE for name, part in result.breakdown.items()}
    meaning, words = parts.get("semantic", 0.0), parts.get("keyword", 0.0)
    return min(1.0, meaning + (1.0 - meaning) * words / 2)
