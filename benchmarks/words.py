"""Text from a seed: made-up words, few of them frequent and most of them rare, as in a language."""

from __future__ import annotations

import random
from collections.abc import Sequence

VOCABULARY = 4_000
_CONSONANTS = "bdfgklmnprstvz"
_VOWELS = "aeiou"


def sentence(rng: random.Random, words: int) -> str:
    """A sentence of so many words."""
    # The cube makes the first words of the vocabulary the frequent ones.
    picked = (WORDS[int(len(WORDS) * rng.random() ** 3)] for _ in range(words))
    text = " ".join(picked)
    return f"{text[0].upper()}{text[1:]}."


def name(number: int) -> str:
    """A name, the same for the same number."""
    return WORDS[number % len(WORDS)].capitalize()


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
