"""A context: what is asked for, what is answered, and which answers are kept."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from sys import getsizeof
from zoneinfo import ZoneInfo

from hitherto_retrieval.render.context import Block
from hitherto_retrieval.search.question import Hit, Question, SearchOutcome
from hitherto_shared.models import Entity, Memory, Preference, Profile, Summary

_BYTES_OF_A_CONTEXT, _BYTES_OF_A_LINE = 2 * 1024, 32
"""What a kept context takes besides its text, and for each item that it names."""


@dataclass(frozen=True, slots=True)
class ContextRequest:
    """What a context should contain; 0 leaves a section out and saves its statements."""

    question: Question
    conversation_id: str | None
    max_memories: int
    max_conversations: int
    max_entities: int
    max_tokens: int
    newest_first: bool
    template: str
    custom_template: str
    annotate: bool
    line_dates: bool | None = None

    def key(self, zone: ZoneInfo, memories: Sequence[Memory]) -> Hashable:
        """What a context without a question depends on besides the day and the user's snapshot."""
        template: str | bytes = self.template
        if self.custom_template:
            # Its digest is as good as the text, which may be long.
            template = blake2b(self.custom_template.encode(), digest_size=16).digest()
        return (
            self.conversation_id,
            self.max_conversations,
            self.max_entities,
            self.max_tokens,
            template,
            self.annotate,
            self.line_dates,
            zone.key,
            # Unlike a UUID, a number is hashed at once.
            tuple([memory.memory_id.int for memory in memories]),
        )


@dataclass(frozen=True, slots=True)
class UserContext:
    """What is known, structured and as a block for a prompt."""

    profile: Profile
    memories: Sequence[Memory]
    found: SearchOutcome
    previous: Sequence[Hit]
    conversations: Sequence[Summary]
    entities: Sequence[Entity]
    preferences: Sequence[Preference]
    block: Block
    nothing_relevant: bool = False

    def to_keep(self) -> tuple[UserContext, int] | None:
        """What is kept of it, with its bytes: no memories, only which they are."""
        block = self.block
        if block.body is None:
            return None
        lines = len(self.memories) + len(self.conversations) + len(self.entities)
        size = _BYTES_OF_A_CONTEXT + _BYTES_OF_A_LINE * lines + getsizeof(block.body.text)
        return replace(self, memories=(), block=replace(block, text="")), size
