"""The conversations that a person's memories came from."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from benchmarks.retrieval.person import OF_A_CONVERSATION, Person, SyntheticMemory
from benchmarks.words import sentence
from hitherto_shared.text.passages import summary_text
from hitherto_shared.text.terms import count_terms

_ANSWERED = 4
"""Of so many messages of the user the assistant answers one."""
_ANSWER_WORDS = 20
_TITLE, _SUMMARISED, _TOPICS = 80, 3, 5


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
class Conversation:
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


def conversations_of(person: Person) -> list[Conversation]:
    """What a person said, the oldest conversation first."""
    return [
        _conversation(person.learnt[start : start + OF_A_CONVERSATION], start)
        for start in range(0, person.size, OF_A_CONVERSATION)
    ]


def _conversation(memories: Sequence[SyntheticMemory], start: int) -> Conversation:
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
    return Conversation(
        conversation_id=memories[0].conversation_id,
        messages=messages,
        title=memories[0].content[:_TITLE],
        summary=" ".join(memory.content for memory in memories[:_SUMMARISED]),
        topics=list(dict.fromkeys(tag for memory in memories for tag in memory.tags))[:_TOPICS],
    )
