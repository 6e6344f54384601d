"""What one person said and what was learnt from it, made from a seed: the same in every run."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from itertools import count
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from benchmarks.retrieval.wording import names_of, some_words, topic_for, topics_of, vector
from benchmarks.serving import memory_row
from benchmarks.words import as_sentence, sentence
from hitherto_shared.text.normalise import fold

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
Row = Mapping[str, Any]
"""The columns of a row of an export, without tenant and user."""


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
        """The memories, the oldest first."""
        return list(self._learn())

    @cached_property
    def vectors(self) -> Half:
        """The vectors of the memories' contents, a row each."""
        return np.stack([vector(memory.content) for memory in self.learnt]).astype(np.float16)

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


def export_of(person: Person) -> Mapping[str, Sequence[Row]]:
    """The rows of a person's export by table, each after those that it refers to."""
    learnt, names, now = person.learnt, person.names, person.now
    conversations = [
        learnt[start : start + OF_A_CONVERSATION]
        for start in range(0, person.size, OF_A_CONVERSATION)
    ]
    said = [list(_messages(memories)) for memories in conversations]
    topics = sorted({tag for memory in learnt[:50] for tag in memory.tags})[:4]
    profile = {
        "summary": learnt[-1].content,
        "current_projects": topics,
        "facts": {"personal": {"location": learnt[0].content}},
    }
    mentions = Counter(memory.name for memory in learnt)
    made = {"version": 1, "created_at": now, "updated_at": now}
    return {
        "users": [{"created_at": now}],
        "profiles": [{"department": "engineering", **profile, **made}],
        "profile_versions": [
            {"version": 1, "profile": profile, "actor": "benchmark", "recorded_at": now}
        ],
        "preferences": [
            {"type": "topic", "key": topic, "value": True, "confidence": 0.9}
            | {"observations": 1, "updated_at": now}
            for topic in topics
        ],
        "conversations": [_conversation(messages) for messages in said],
        "messages": [message for messages in said for message in messages],
        "conversation_summaries": [
            _summary(memories, messages)
            for memories, messages in zip(conversations, said, strict=True)
        ],
        "entities": [
            {"entity_id": entity_id, "name": name, "name_key": fold(name), "type": "person"}
            | {"mention_count": mentions[name], "created_at": now, "updated_at": now}
            for name, entity_id in names.items()
        ],
        "memories": [
            memory_row(
                memory.at,
                memory_id=memory.memory_id,
                type=memory.type,
                content=memory.content,
                importance=memory.importance,
                confidence="high" if memory.importance > 0.5 else "medium",
                tags=memory.tags,
                keywords=memory.keywords,
                conversation_id=memory.conversation_id,
            )
            for memory in learnt
        ],
        "memory_sources": [
            {
                "memory_id": memory.memory_id,
                "conversation_id": memory.conversation_id,
                "message_id": memory.message_id,
            }
            for memory in learnt
        ],
        "memory_access": [
            {"memory_id": memory.memory_id, "access_count": memory.accessed}
            | {"last_accessed_at": now}
            for memory in learnt
            if memory.accessed
        ],
        "entity_mentions": [
            {"entity_id": names[memory.name], "memory_id": memory.memory_id}
            for memory in learnt
            if memory.name
        ],
    }


def _messages(memories: Sequence[SyntheticMemory]) -> Iterator[Row]:
    """The messages of a conversation: of each memory what the user said, and some answers."""
    number = count(1)

    def message(message_id: str, role: str, content: str, at: datetime) -> Row:
        return {
            "conversation_id": memories[0].conversation_id,
            "message_no": next(number),
            "message_id": message_id,
            "role": role,
            "content": content,
            "said_at": at,
            "accepted_at": at,
        }

    for place, memory in enumerate(memories):
        yield message(memory.message_id, "user", memory.words, memory.at)
        if place % _ANSWERED == 0:
            answer = sentence(random.Random(str(memory.memory_id)), _ANSWER_WORDS)
            later = memory.at + timedelta(seconds=5)
            yield message(f"{memory.message_id}-answer", "assistant", answer, later)


def _conversation(messages: Sequence[Row]) -> Row:
    began, ended = messages[0]["said_at"], messages[-1]["said_at"]
    return {
        "conversation_id": messages[0]["conversation_id"],
        "last_message_no": len(messages),
        "watermark": len(messages),
        "created_at": began,
        **dict.fromkeys(("updated_at", "ended_at", "last_said_at"), ended),
    }


def _summary(memories: Sequence[SyntheticMemory], messages: Sequence[Row]) -> Row:
    topics = dict.fromkeys(tag for memory in memories for tag in memory.tags)
    return {
        "conversation_id": memories[0].conversation_id,
        "title": memories[0].content[:_TITLE],
        "summary": " ".join(memory.content for memory in memories[:_SUMMARISED]),
        "key_topics": list(topics)[:_TOPICS],
        "outcome": "resolved",
        "covers_to": len(messages),
        "created_at": messages[-1]["said_at"],
        "updated_at": messages[-1]["said_at"],
    }
