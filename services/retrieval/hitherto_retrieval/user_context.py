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

MOST_KEPT = 4
"""How many contexts are kept with a user's snapshot."""
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

    def key(
        self, zone: ZoneInfo, memories: Sequence[Memory], entities: Sequence[Entity]
    ) -> Hashable:
        """What a context without a question depends on besides the day and the user's snapshot.

        Args:
            zone: The user's time zone.
            memories: The top list.
            entities: Those that are known, some of which only for a time.
        """
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
            tuple([entity.entity_id.int for entity in entities]),
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


class KeptContexts:
    """The contexts without a question that are kept with a user's snapshot; used on the loop only.

    Args:
        room: How many bytes they may take, which the size of the snapshot counts.
    """

    def __init__(self, room: int) -> None:
        self.room = room
        self._kept: dict[Hashable, tuple[UserContext, int]] = {}

    def find(self, key: Hashable) -> UserContext | None:
        """A context that differs from the one wanted in its fence, its day and usage at most."""
        found = self._kept.get(key)
        return None if found is None else found[0]

    def keep(self, key: Hashable, context: UserContext) -> None:
        """Keep a context, in place of the oldest ones if there are too many or they are too large.

        Its memories are not kept, only which they are.
        """
        block = context.block
        if block.body is None:
            return
        lines = len(context.memories) + len(context.conversations) + len(context.entities)
        size = _BYTES_OF_A_CONTEXT + _BYTES_OF_A_LINE * lines + getsizeof(block.body.text)
        if size > self.room:
            return
        self._kept.pop(key, None)
        self._kept[key] = replace(context, memories=(), block=replace(block, text="")), size
        while len(self._kept) > MOST_KEPT or self._size > self.room:
            del self._kept[next(iter(self._kept))]

    @property
    def _size(self) -> int:
        return sum(size for _, size in self._kept.values())
