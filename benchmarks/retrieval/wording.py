"""Sentences with a topic, questions about them, and vectors in which they lie near each other.

Every word but the most frequent ones belongs to a topic. A vector is the sum of the vectors of its
words, each of them near the centre of its topic, and of a little that is the text's own: texts of
one topic form a cluster, and two texts are the nearer the more rare words they share.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.words import DIMENSIONS, WORDS, Vector, name
from benchmarks.words import vector as own_vector

TOPICS = 64
_TOPICS_OF_A_PERSON = 12
_NAMES_OF_A_PERSON = 40
_COMMON = 60
_ON_TOPIC = 0.45
"""Share of a sentence's words that belong to its topic."""
_NEAR_CENTRE = 0.8
_OF_A_COMMON_WORD = 0.15
_OF_THE_TEXT = 0.8
_WORD = re.compile(r"[a-z]+")

_OPENINGS = (
    "What did I say about",
    "Do I still",
    "Which",
    "Tell me about",
    "When did we",
    "How is",
)
_TIMES = ("last week", "yesterday", "two months ago", "last year")
_TIMED, _NAMED = 0.2, 0.3
"""Shares of the questions that name a time, and a name."""


def topics_of(person: str) -> Sequence[int]:
    """What a person speaks of, the most frequent first."""
    return random.Random(f"topics {person}").sample(range(TOPICS), _TOPICS_OF_A_PERSON)


def names_of(person: str) -> Sequence[str]:
    """Whom a person knows."""
    rng = random.Random(f"names {person}")
    return list(dict.fromkeys(name(rng.randrange(len(WORDS))) for _ in range(_NAMES_OF_A_PERSON)))


def topic_for(rng: random.Random, topics: Sequence[int]) -> int:
    """One of the topics, the first ones more often."""
    return topics[int(len(topics) * rng.random() ** 2)]


def some_words(rng: random.Random, topic: int, count: int) -> list[str]:
    """Words about a topic, among words about anything."""
    about = _WORDS_OF[topic]
    return [
        about[int(len(about) * rng.random() ** 2)]
        if rng.random() < _ON_TOPIC
        else WORDS[int(len(WORDS) * rng.random() ** 3)]
        for _ in range(count)
    ]


class Questions:
    """Questions that a person asks, never one twice."""

    def __init__(self, seed: str) -> None:
        self._rng = random.Random(seed)
        self._asked: set[str] = set()

    def ask(self, person: str) -> str:
        """A new question about something this person speaks of."""
        while True:
            text = self._question(person)
            if text not in self._asked:
                self._asked.add(text)
                return text

    def _question(self, person: str) -> str:
        rng = self._rng
        words = some_words(rng, topic_for(rng, topics_of(person)), rng.randint(4, 7))
        parts = [rng.choice(_OPENINGS), *words]
        if rng.random() < _NAMED:
            parts.append(f"with {rng.choice(names_of(person))}")
        if rng.random() < _TIMED:
            parts.append(rng.choice(_TIMES))
        return " ".join(parts) + "?"


def vector(text: str) -> Vector:
    """The unit vector of a text, the same for the same text; little-endian singles."""
    numbers = [_NUMBER_OF[word] for word in _WORD.findall(text.lower()) if word in _NUMBER_OF]
    total = _OF_THE_TEXT * own_vector(text)
    if numbers:
        total = total + _word_vectors()[numbers].sum(axis=0) / np.sqrt(len(numbers))
    return (total / np.linalg.norm(total)).astype("<f4")


@functools.cache
def _word_vectors() -> NDArray[np.float32]:
    rng = np.random.default_rng(7)
    centres = rng.standard_normal((TOPICS, DIMENSIONS), dtype=np.float32)
    found = rng.standard_normal((len(WORDS), DIMENSIONS), dtype=np.float32)
    topics = np.arange(len(WORDS)) % TOPICS
    found[_COMMON:] += _NEAR_CENTRE * centres[topics[_COMMON:]]
    found[:_COMMON] *= _OF_A_COMMON_WORD
    return found / np.float32(np.sqrt(DIMENSIONS))


_NUMBER_OF = {word: number for number, word in enumerate(WORDS)}
_WORDS_OF: Sequence[Sequence[str]] = [
    [word for number, word in enumerate(WORDS) if number >= _COMMON and number % TOPICS == topic]
    for topic in range(TOPICS)
]
