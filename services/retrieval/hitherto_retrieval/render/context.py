"""What a prompt block is made of, and what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from hitherto_shared.models import Entity, Memory, Profile, Summary


@dataclass(frozen=True, slots=True)
class LearntPreference:
    """One thing concluded from behaviour: `interaction` / `message_style` / `brief`.

    `confidence` runs from 0 to 1. The value is any JSON value.
    """

    type: str
    key: str
    value: Any
    confidence: float


@dataclass(frozen=True, slots=True)
class RelevantItem:
    """One result for the current message: a memory, a summary, a message or a document.

    `source` is the word shown in brackets (`gmail`, `message`). `summary`, if there is one, is
    shown instead of the beginning of `text`. A memory or conversation that is also in the lists of
    the context is printed once.
    """

    source: str
    title: str
    text: str
    summary: str = ""
    memory: Memory | None = None
    conversation_id: str | None = None

    @classmethod
    def of_memory(cls, memory: Memory) -> RelevantItem:
        """The item for a memory that fits the current message."""
        return cls(source="memory", title=memory.type, text=memory.content, memory=memory)

    @classmethod
    def of_summary(cls, summary: Summary) -> RelevantItem:
        """The item for a past conversation that fits the current message."""
        return cls(
            source="conversation",
            title=summary.title,
            text=summary.summary,
            conversation_id=summary.conversation_id,
        )


@dataclass(frozen=True, slots=True)
class PromptContext:
    """Everything that may be printed, each list with the most useful first."""

    profile: Profile | None = None
    memories: Sequence[Memory] = ()
    relevant: Sequence[RelevantItem] = ()
    conversations: Sequence[Summary] = ()
    entities: Sequence[Entity] = ()
    preferences: Sequence[LearntPreference] = ()


@dataclass(frozen=True, slots=True)
class Block:
    """A finished prompt block and what was printed in it.

    `text` is empty, and `tokens` 0, if nothing is known or nothing fits.
    """

    text: str = ""
    tokens: int = 0
    memory_ids: tuple[UUID, ...] = ()
    conversation_ids: tuple[str, ...] = ()
    entity_ids: tuple[UUID, ...] = ()
