"""Text and vectors from a seed.

Words are made up, few of them frequent and most of them rare, as in a language. Vectors say nothing
but that two texts are the same or are not.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

DIMENSIONS = 1536

Vector = NDArray[np.float32]

VOCABULARY = 4_000
_CONSONANTS = "bdfgklmnprstvz"
_VOWELS = "aeiou"
# Slices of one field of noise are as good as independent vectors, and far cheaper to make.
_NOISE: Vector = np.random.default_rng(1).standard_normal(1 << 20, dtype=np.float32)


def sentence(rng: random.Random, words: int) -> str:
    """A sentence of so many words."""
    # The cube makes the first words of the vocabulary the frequent ones.
    return as_sentence([WORDS[int(len(WORDS) * rng.random() ** 3)] for _ in range(words)])


def as_sentence(words: Sequence[str]) -> str:
    """The words with a capital and a full stop."""
    text = " ".join(words)
    return f"{text[0].upper()}{text[1:]}."


def name(number: int) -> str:
    """A name, the same for the same number."""
    return WORDS[number % len(WORDS)].capitalize()


def vector(text: str) -> Vector:
    """A unit vector: the same for the same text, at right angles to that of any other."""
    seed = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
    start = seed % (len(_NOISE) - DIMENSIONS)
    piece = _NOISE[start : start + DIMENSIONS]
    return (piece / np.linalg.norm(piece)).astype("<f4")


def _vocabulary() -> Sequence[str]:
    rng = random.Random("vocabulary")
    found: dict[str, None] = {}
    while len(found) < VOCABULARY:
        syllables = (
            rng.choice(_CONSONANTS) + rng.choice(_VOWELS) for _ in range(rng.randint(2, 4))
        )
        found["".join(syllables)] = None
    return list(found)


WORDS = _vocabulary()
"""All words, the frequent ones first."""
