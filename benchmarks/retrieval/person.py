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
from hitherto_client.words import MemoryType
from hitherto_shared.text.normalise import fold

OF_A_CONVERSATION = 20
TYPES: Sequence[MemoryType] = (
    *("fact", "preference", "decision", "goal", "context"),
    *("personal", "learning", "problem", "question", "feedback"),
)
"""The frequent ones first."""
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
    """A memory with the message it came from."""

    row: Row  # in an export; ids of later memories are larger
    words: str  # what the user said
    message_id: str  # unique within the conversation
    name: str  # whom it mentions; empty: nobody
    accessed: int  # how often it was told


@dataclass(frozen=True)
class Person:
    """One user with so many memories, none of them younger than `now`; the id is the seed too."""

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
        return np.stack([vector(memory.row["content"]) for memory in self.learnt]).astype(
            np.float16
        )

    @property
    def names(self) -> Mapping[str, UUID]:
        """Ids of those whom at least one memory mentions, by name."""
        rng = random.Random(f"entities {self.user_id}")
        mentioned = {memory.name for memory in self.learnt if memory.name}
        return {name: UUID(int=rng.getrandbits(128), version=4) for name in sorted(mentioned)}

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
            row = memory_row(
                at,
                memory_id=_uuid7(rng, at),
                content=as_sentence([*words, f"with {name}"] if name else words),
                type=TYPES[int(len(TYPES) * rng.random() ** 2)],
                importance=(importance := round(rng.betavariate(4, 3), 2)),
                confidence="high" if importance > 0.5 else "medium",
                tags=[f"topic_{topic}"],
                keywords=rng.sample(words, 2),
                conversation_id=f"conversation-{number // OF_A_CONVERSATION}",
            )
            yield SyntheticMemory(
                row=row,
                words=as_sentence([*said, name] if name else said),
                message_id=f"m{number % OF_A_CONVERSATION}",
                name=name,
                accessed=rng.randint(1, 9) if rng.random() < _ACCESSED else 0,
            )


def _uuid7(rng: random.Random, at: datetime) -> UUID:
    """An id as the service makes them."""
    value = int(1_000 * at.timestamp()) << 80 | rng.getrandbits(80)
    value = value & ~(0xF << 76) | 0x7 << 76
    return UUID(int=value & ~(0x3 << 62) | 0x2 << 62)


def export_of(person: Person) -> Mapping[str, Sequence[Row]]:
    """The rows of a person's export by table, each after those that it refers to."""
    learnt, names, now = person.learnt, person.names, person.now
    conversations = [
        learnt[start : start + OF_A_CONVERSATION]
        for start in range(0, person.size, OF_A_CONVERSATION)
    ]
    said = [list(_messages(memories)) for memories in conversations]
    topics = sorted({tag for memory in learnt[:50] for tag in memory.row["tags"]})[:4]
    profile = {
        "summary": learnt[-1].row["content"],
        "current_projects": topics,
        "facts": {"personal": {"location": learnt[0].row["content"]}},
    }
    mentions = Counter(memory.name for memory in learnt)
    made = {"created_at": now, "updated_at": now}
    preference = {"type": "topic", "value": True, "confidence": 0.9, "observations": 1}
    return {
        "users": [{"created_at": now}],
        "profiles": [{"department": "engineering", **profile, "version": 1, **made}],
        "profile_versions": [
            {"version": 1, "profile": profile, "actor": "benchmark", "recorded_at": now}
        ],
        "preferences": [{**preference, "key": topic, "updated_at": now} for topic in topics],
        "conversations": [_conversation(messages) for messages in said],
        "messages": [message for messages in said for message in messages],
        "conversation_summaries": [
            _summary([memory.row for memory in memories], messages)
            for memories, messages in zip(conversations, said, strict=True)
        ],
        "entities": [
            {"entity_id": entity_id, "name": name, "name_key": fold(name), "type": "person"}
            | {"mention_count": mentions[name], **made}
            for name, entity_id in names.items()
        ],
        "memories": [memory.row for memory in learnt],
        "memory_sources": [
            {**_of(memory, "memory_id", "conversation_id"), "message_id": memory.message_id}
            for memory in learnt
        ],
        "memory_access": [
            {**_of(memory, "memory_id"), "access_count": memory.accessed, "last_accessed_at": now}
            for memory in learnt
            if memory.accessed
        ],
        "entity_mentions": [
            {**_of(memory, "memory_id"), "entity_id": names[memory.name]}
            for memory in learnt
            if memory.name
        ],
    }


def _of(memory: SyntheticMemory, *columns: str) -> Row:
    return {column: memory.row[column] for column in columns}


def _messages(memories: Sequence[SyntheticMemory]) -> Iterator[Row]:
    """The messages of a conversation: of each memory what the user said, and some answers."""
    number = count(1)

    def message(message_id: str, role: str, content: str, at: datetime) -> Row:
        return {
            **_of(memories[0], "conversation_id"),
            "message_no": next(number),
            "message_id": message_id,
            "role": role,
            "content": content,
            "said_at": at,
            "accepted_at": at,
        }

    for place, memory in enumerate(memories):
        at = memory.row["said_at"]
        yield message(memory.message_id, "user", memory.words, at)
        if place % _ANSWERED == 0:
            answer = sentence(random.Random(str(memory.row["memory_id"])), _ANSWER_WORDS)
            later = at + timedelta(seconds=5)
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


def _summary(memories: Sequence[Row], messages: Sequence[Row]) -> Row:
    topics = dict.fromkeys(tag for memory in memories for tag in memory["tags"])
    return {
        "conversation_id": memories[0]["conversation_id"],
        "title": memories[0]["content"][:_TITLE],
        "summary": " ".join(memory["content"] for memory in memories[:_SUMMARISED]),
        "key_topics": list(topics)[:_TOPICS],
        "outcome": "resolved",
        "covers_to": len(messages),
        **dict.fromkeys(("created_at", "updated_at"), messages[-1]["said_at"]),
    }
