"""A context: what is asked for, what is answered, and which answers are kept."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from zoneinfo import ZoneInfo

from hitherto_retrieval.render.context import Block
from hitherto_retrieval.search.question import Hit, Question, SearchOutcome
from hitherto_shared.models import Entity, Kept, Memory, Preference, Profile, Summary

_CONTEXTS = "contexts"
MOST_KEPT = 4
MOST_CHARACTERS_KEPT = 16 * 1024
"""How many contexts are kept with a user's sections, and how long block and template may be."""


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

    @property
    def form(self) -> Hashable:
        """What a context depends on besides the day and what is known about the user."""
        return (
            self.conversation_id,
            self.max_conversations,
            self.max_entities,
            self.max_tokens,
            self.template,
            self.custom_template,
            self.annotate,
            self.line_dates,
        )


@dataclass(frozen=True, slots=True)
class UserContext:
    """What is known, structured and as a block for a prompt.

    `kept` is for what is derived from all but the usage of memories, if that outlives the call.
    """

    profile: Profile
    memories: Sequence[Memory]
    found: SearchOutcome
    previous: Sequence[Hit]
    conversations: Sequence[Summary]
    entities: Sequence[Entity]
    preferences: Sequence[Preference]
    block: Block
    kept: Kept | None = None


class Alike:
    """The contexts without a question that are kept with a user's sections, of one form and list.

    Args:
        kept: What is kept with the sections.
        wanted: The form of the context.
        zone: The user's time zone.
        memories: The list.
    """

    def __init__(
        self, kept: Kept, wanted: ContextRequest, zone: ZoneInfo, memories: Sequence[Memory]
    ) -> None:
        self._contexts: dict[Hashable, UserContext] = kept.setdefault(_CONTEXTS, {})
        # Unlike a UUID, a number is hashed at once.
        self._of = wanted.form, zone, tuple([memory.memory_id.int for memory in memories])
        self._room = MOST_CHARACTERS_KEPT - len(wanted.custom_template)

    @property
    def known(self) -> UserContext | None:
        """A context that differs from the one wanted in its fence, its day and usage at most."""
        return self._contexts.get(self._of)

    def keep(self, context: UserContext) -> None:
        """Keep a context in place of the oldest one."""
        if context.block.body is not None and len(context.block.text) <= self._room:
            block = replace(context.block, text="")
            self._contexts[self._of] = replace(context, memories=(), block=block)
            for oldest in list(self._contexts)[:-MOST_KEPT]:
                self._contexts.pop(oldest, None)
