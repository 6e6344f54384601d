"""The sections of a context that need no question, such as the profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hitherto_retrieval.search.reads import UserReads
from hitherto_retrieval.storage.conversations import SPARE
from hitherto_retrieval.storage.statement import Answered, Statement
from hitherto_retrieval.user_context import ContextRequest
from hitherto_shared.models import Entity, Memory, Preference, Profile, Summary


@dataclass(frozen=True, slots=True)
class Sections:
    """The statements of the sections; one that is left out has an answer."""

    profile: Statement[Profile | None]
    preferences: Statement[list[Preference]]
    top: Statement[list[Memory]]
    conversations: Statement[list[Summary]]
    entities: Statement[list[Entity]]

    @classmethod
    def of(cls, reads: UserReads, wanted: ContextRequest, named: Sequence[str]) -> Sections:
        """The sections of a context; entities with one of the names `named` come first."""
        memories, doubtful = wanted.max_memories, wanted.question.filters.doubtful
        # Some conversations may be left out.
        summaries = wanted.max_conversations + SPARE if wanted.max_conversations else 0
        return cls(
            reads.profile(),
            reads.preferences(),
            reads.top(limit=memories, newest_first=wanted.newest_first, doubtful=doubtful)
            if memories
            else Answered([]),
            reads.conversations(first=wanted.conversation_id, limit=summaries)
            if summaries
            else Answered([]),
            reads.entities(named=named, limit=wanted.max_entities)
            if wanted.max_entities
            else Answered([]),
        )

    @property
    def statements(self) -> Sequence[Statement[Any]]:
        """What to ask."""
        return self.profile, self.preferences, self.top, self.conversations, self.entities
