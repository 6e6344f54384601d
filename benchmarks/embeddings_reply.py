"""The reply to a call of an embeddings endpoint, in OpenAI's wire format, and vectors for it."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

DIMENSIONS = 1536

Vector = NDArray[np.float32]

# Slices of one field of noise are as good as independent vectors, and far cheaper to make.
_NOISE: NDArray[np.float32] = np.random.default_rng(1).standard_normal(1 << 20, dtype=np.float32)


def vector(text: str, dimensions: int) -> NDArray[np.float32]:
    """A unit vector: the same for the same text, at right angles to that of any other."""
    seed = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
    start = seed % (len(_NOISE) - dimensions)
    piece = _NOISE[start : start + dimensions]
    return (piece / np.linalg.norm(piece)).astype("<f4")


def embeddings_reply(
    request: Mapping[str, Any], make: Callable[[str, int], Vector]
) -> dict[str, Any]:
    """The vectors of a request's texts, as numbers or, where it asks for that, as base64.

    Args:
        request: The body of the call.
        make: Makes the vector of a text in so many dimensions, of little-endian singles.
    """
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
