"""Embeddings that mean something without a model: a bag of hashed words."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

_WORD = re.compile(r"\w+")


def text_vector(text: str, dimensions: int) -> NDArray[np.float32]:
    """A unit vector of the text: the same for the same words, close for many words in common."""
    normal = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
    total = np.zeros(dimensions, dtype=np.float32)
    for word in _WORD.findall(normal):
        total += _word_vector(word, dimensions)
    norm = float(np.linalg.norm(total))
    if norm == 0.0:
        total = _word_vector("\0" + normal, dimensions)
        norm = float(np.linalg.norm(total))
    return (total / norm).astype(np.float32)


@lru_cache(maxsize=4096)
def _word_vector(word: str, dimensions: int) -> NDArray[np.float32]:
    """A random direction that belongs to the word; two words are nearly at right angles."""
    seed = int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "big")
    return np.random.default_rng(seed).standard_normal(dimensions, dtype=np.float32)
