"""The input and output of rendering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, tzinfo
from uuid import UUID

from hitherto_retrieval.repetition import Source, sources_of
from hitherto_shared.models import Entity, Memory, Message, Preference, Profile, Summary


# Not frozen for the same reason as entries, and made by position as candidates are.
@dataclass(slots=True)
class RelevantItem:
    """One result for the current message: a memory, a summary, a message or a document.

    A memory or conversation that is also in the lists of the context is printed once.

    Attributes:
        source: The word in brackets (`gmail`, `message`).
        title: Its title; for a message, the speaker.
        summary: If set, shown instead of the beginning of `text`.
        memory: The memory, if it is one.
        summary_of: The summary, if it is one.
        message: The message, if it is one.
        role: For a message, the speaker's role.
        said_in: For a message, its conversation.
        at: When it was said or created.
        score: How well it matches the question, from 0 to 1.
        partly_until: For a message or summary: until when something that was learnt from it holds,
            or held.
        sources: The messages that it is, or was learnt from.
        instead: What holds in place of what has ended, if that is known.
        first: Whether it precedes all candidates, as one that the last answer was based on.
        again: When else the same was said in the same words, by message, the newest first.
    """

    source: str
    title: str
    text: str
    summary: str = ""
    memory: Memory | None = None
    summary_of: Summary | None = None
    role: str = ""
    said_in: str | None = None
    at: datetime | None = None
    score: float = 0.0
    partly_until: datetime | None = None
    sources: Sequence[Source] = ()
    instead: str = ""
    first: bool = False
    message: Message | None = None
    again: Sequence[tuple[Source, datetime]] = ()

    @classmethod
    def of_memory(cls, memory: Memory, score: float = 0.0, instead: str = "") -> RelevantItem:
        """The item for a memory that matches the current message."""
        return cls(
            "memory",
            memory.type,
            memory.content,
            "",
            memory,
            None,
            "",
            None,
            None,
            score,
            None,
            sources_of(memory),
            instead,
        )

    @classmethod
    def of_summary(
        cls, summary: Summary, score: float = 0.0, partly_until: datetime | None = None
    ) -> RelevantItem:
        """The item for a past conversation that matches the current message."""
        return cls(
            "conversation",
            summary.title,
            summary.summary,
            "",
            None,
            summary,
            "",
            None,
            summary.last_said_at or summary.created_at,
            score,
            partly_until,
        )

    @classmethod
    def of_message(
        cls,
        message: Message,
        score: float = 0.0,
        partly_until: datetime | None = None,
        instead: str = "",
    ) -> RelevantItem:
        """The item for a message that matches the current one."""
        return cls(
            "message",
            message.name or message.role,
            message.content,
            "",
            None,
            None,
            message.role,
            message.conversation_id,
            message.said_at,
            score,
            partly_until,
            sources_of(message),
            instead,
            False,
            message,
        )

    @property
    def conversations(self) -> Sequence[str | None]:
        """The conversations of a message, more than one if it was said again."""
        if not self.again:
            return (self.said_in,)
        return tuple(dict.fromkeys(conversation for conversation, _ in self.sources))

    @property
    def conversation_id(self) -> str | None:
        """The conversation that it summarises."""
        return None if self.summary_of is None else self.summary_of.conversation_id


@dataclass(frozen=True, slots=True)
class PromptContext:
    """Everything that may be printed, each list with the most useful first.

    Attributes:
        asked: Whether there is a question, whose answers precede general knowledge.
        ongoing: The ongoing conversation; the first of `conversations` is it, or the one before it.
        named: How many of `entities`, from the first on, the question names.
        titled: Further summaries, for the titles of conversations.
        terms: The question's words, with their weights.
        broad: Whether the question asks for many things.
        addressed: Whether it asks what the assistant said.
        nothing: Whether nothing that was searched is relevant to the question.
        stops: Whether answers stop where relevance ends, and not only where the budget does.
        past: Whether it is of another time, of which memories have the messages of the present.
        recent_days: Whether recent conversations have their day, whatever the other lines have.
        today: The current day; None for lines without dates.
        zone: The user's time zone, for dates.
    """

    profile: Profile | None = None
    memories: Sequence[Memory] = ()
    relevant: Sequence[RelevantItem] = ()
    conversations: Sequence[Summary] = ()
    entities: Sequence[Entity] = ()
    preferences: Sequence[Preference] = ()
    asked: bool = False
    ongoing: str | None = None
    named: int = 0
    titled: Sequence[Summary] = ()
    terms: Mapping[str, float] = field(default_factory=dict)
    stops: bool = True
    broad: bool = False
    addressed: bool = False
    nothing: bool = False
    past: bool = False
    recent_days: bool = False
    today: date | None = None
    zone: tzinfo = UTC

    @property
    def dated(self) -> bool:
        """Whether lines have dates."""
        return self.today is not None


@dataclass(frozen=True, slots=True)
class BlockBody:
    """What stands between the fences of a block in which everything fits, whatever the fence.

    Attributes:
        text: The lines.
        tokens: Their part of the tokens, by `CountTokens.of_lines`; None if they begin with what
            may be one token with the end of the fence.
        note: What the fence says of them.
    """

    text: str
    tokens: int | None
    note: str


@dataclass(frozen=True, slots=True)
class Block:
    """A finished block and what was printed in it.

    `text` is empty, and `tokens` 0, if nothing is known or nothing fits. `body` is there if
    everything fits with some room left, and there is no question.
    """

    text: str = ""
    tokens: int = 0
    memory_ids: tuple[UUID, ...] = ()
    conversation_ids: tuple[str, ...] = ()
    entity_ids: tuple[UUID, ...] = ()
    body: BlockBody | None = field(default=None, compare=False)
