"""What one person said and what was learnt from it, made from a seed: the same in every run."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from benchmarks.retrieval.wording import (
    as_sentence,
    names_of,
    some_words,
    topic_for,
    topics_of,
    vector,
)
from benchmarks.words import sentence
from hitherto_shared.text.bm25 import Statistics
from hitherto_shared.text.passages import summary_text
from hitherto_shared.text.terms import count_terms

OF_A_CONVERSATION = 20
TYPES = (
    "fact",
    "preference",
    "decision",
    "goal",
    "context",
    "personal",
    "learning",
    "problem",
    "question",
    "feedback",
)
_YEARS_BACK = 2
_MENTIONING = 0.4
_ACCESSED = 0.66
_ANSWERED = 4
"""Of so many messages of the user the assistant answers one."""
_ANSWER_WORDS = 20
_TITLE, _SUMMARISED, _TOPICS = 80, 3, 5

Half = NDArray[np.float16]


@dataclass(frozen=True, slots=True)
class SyntheticMemory:
    """A memory with the message it came from.

    Attributes:
        memory_id: Its id; ids of later memories are larger.
        content: The memory.
        words: What the user said.
        type: One of `TYPES`.
        importance: From 0 to 1.
        tags: The topic.
        keywords: Two of its words.
        at: When it was said and learnt.
        conversation: The number of the conversation.
        message_id: Unique within the conversation.
        name: Whom it mentions; empty: nobody.
        accessed: How often it was told.
    """

    memory_id: UUID
    content: str
    words: str
    type: str
    importance: float
    tags: Sequence[str]
    keywords: Sequence[str]
    at: datetime
    conversation: int
    message_id: str
    name: str
    accessed: int

    @property
    def conversation_id(self) -> str:
        """The conversation it came from."""
        return f"conversation-{self.conversation}"

    @property
    def terms(self) -> Counter[str]:
        """What the keyword index holds of it."""
        return count_terms(self.content, "\n".join([self.words, *self.keywords]))


@dataclass(frozen=True)
class Person:
    """One user with so many memories.

    Attributes:
        user_id: Its id, which is the seed too.
        size: How many memories.
        now: The newest memory is not younger.
    """

    user_id: str
    size: int
    now: datetime

    @cached_property
    def learnt(self) -> Sequence[SyntheticMemory]:
        """The memories, the oldest first; their lexical numbers are their places, from 1 on."""
        return list(self._learn())

    @cached_property
    def terms(self) -> Sequence[Counter[str]]:
        """The terms of each memory."""
        return [memory.terms for memory in self.learnt]

    @cached_property
    def vectors(self) -> Half:
        """The vectors of the memories' contents, a row each."""
        return np.stack([vector(memory.content) for memory in self.learnt]).astype(np.float16)

    @cached_property
    def word_vectors(self) -> Half:
        """The vectors of the words the memories came from."""
        return np.stack([vector(memory.words) for memory in self.learnt]).astype(np.float16)

    @property
    def statistics(self) -> Statistics:
        """What BM25 needs to know of all memories together."""
        return Statistics(self.size, sum(terms.total() for terms in self.terms))

    @property
    def names(self) -> Mapping[str, UUID]:
        """Ids of those whom at least one memory mentions, by name."""
        rng = random.Random(f"entities {self.user_id}")
        mentioned = {memory.name for memory in self.learnt if memory.name}
        return {name: _uuid4(rng) for name in sorted(mentioned)}

    def _learn(self) -> Iterator[SyntheticMemory]:
        rng = random.Random(f"person {self.user_id}")
        topics, names = topics_of(self.user_id), names_of(self.user_id)
        span = timedelta(days=365 * _YEARS_BACK).total_seconds()
        # More of it lately, as with anybody who has come to rely on an assistant.
        ages = sorted((span * rng.random() ** 2 for _ in range(self.size)), reverse=True)
        for number, age in enumerate(ages):
            topic = topic_for(rng, topics)
            words = some_words(rng, topic, rng.randint(8, 16))
            name = rng.choice(names) if rng.random() < _MENTIONING else ""
            at = self.now - timedelta(seconds=age)
            said = [*words, *some_words(rng, topic, rng.randint(6, 20))]
            rng.shuffle(said)
            yield SyntheticMemory(
                memory_id=_uuid7(rng, at),
                content=as_sentence([*words, f"with {name}"] if name else words),
                words=as_sentence([*said, name] if name else said),
                type=TYPES[int(len(TYPES) * rng.random() ** 2)],
                importance=round(rng.betavariate(4, 3), 2),
                tags=[f"topic_{topic}"],
                keywords=rng.sample(words, 2),
                at=at,
                conversation=number // OF_A_CONVERSATION,
                message_id=f"m{number % OF_A_CONVERSATION}",
                name=name,
                accessed=rng.randint(1, 9) if rng.random() < _ACCESSED else 0,
            )


def _uuid7(rng: random.Random, at: datetime) -> UUID:
    """An id as the service makes them."""
    value = int(1_000 * at.timestamp()) << 80 | rng.getrandbits(80)
    value = value & ~(0xF << 76) | 0x7 << 76
    return UUID(int=value & ~(0x3 << 62) | 0x2 << 62)


def _uuid4(rng: random.Random) -> UUID:
    return UUID(int=rng.getrandbits(128), version=4)


@dataclass(frozen=True, slots=True)
class SyntheticMessage:
    """Something said; `memory` is its place among what was learnt, None if it taught nothing."""

    message_id: str
    role: str
    content: str
    at: datetime
    memory: int | None

    @property
    def terms(self) -> Counter[str]:
        """What the keyword index holds of it."""
        return count_terms(self.content)


@dataclass(frozen=True, slots=True)
class SyntheticConversation:
    """Messages in order, with their summary."""

    conversation_id: str
    messages: Sequence[SyntheticMessage]
    title: str
    summary: str
    topics: Sequence[str]

    @property
    def text(self) -> str:
        """What the summary is found by."""
        return summary_text(self.title, self.summary, self.topics, ())


def conversations_of(person: Person) -> list[SyntheticConversation]:
    """What a person said, the oldest conversation first."""
    return [
        _conversation(person.learnt[start : start + OF_A_CONVERSATION], start)
        for start in range(0, person.size, OF_A_CONVERSATION)
    ]


def _conversation(memories: Sequence[SyntheticMemory], start: int) -> SyntheticConversation:
    messages: list[SyntheticMessage] = []
    for place, memory in enumerate(memories):
        messages.append(
            SyntheticMessage(memory.message_id, "user", memory.words, memory.at, start + place)
        )
        if place % _ANSWERED == 0:
            answer = sentence(random.Random(str(memory.memory_id)), _ANSWER_WORDS)
            later = memory.at + timedelta(seconds=5)
            messages.append(
                SyntheticMessage(f"{memory.message_id}-answer", "assistant", answer, later, None)
            )
    return SyntheticConversation(
        conversation_id=memories[0].conversation_id,
        messages=messages,
        title=memories[0].content[:_TITLE],
        summary=" ".join(memory.content for memory in memories[:_SUMMARISED]),
        topics=list(dict.fromkeys(tag for memory in memories for tag in memory.tags))[:_TOPICS],
    )
