"""The sections of a context that need no question, such as the profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hitherto_retrieval.loading import Snapshot
from hitherto_retrieval.snapshots import Believed
from hitherto_retrieval.storage import conversations as conversations_of
from hitherto_retrieval.storage import memories, past, people
from hitherto_retrieval.storage.moment import PRESENT, Moment
from hitherto_retrieval.storage.people import UserReadState
from hitherto_retrieval.storage.statement import Asking, Statement
from hitherto_retrieval.withheld import SPARE
from hitherto_shared.database.pool import Reads
from hitherto_shared.models import Entity, Kept, Memory, Preference, Profile, Scope, Summary

FRESH_PLACES = 5
"""Places of the top list for the newest memories of the last week."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The size of each section; 0 leaves one out and saves its statements.

    Attributes:
        memories: Number of memories in the top list.
        newest_first: Whether it holds the newest memories instead of the most important.
        conversations: Number of conversations in short; a few more are read.
        first: The conversation to put first, if it has a summary.
        entities: Number of entities.
        named: Names of entities to put first.
        moment: Another time to read; None for the present.
    """

    memories: int
    newest_first: bool
    conversations: int
    first: str | None
    entities: int
    named: Sequence[str]
    moment: Moment | None

    @property
    def summaries(self) -> int:
        """Number of conversations to read."""
        return self.conversations + SPARE if self.conversations else 0

    @property
    def fresh(self) -> int:
        """Number of places of the top list for the newest memories."""
        return min(FRESH_PLACES, self.memories // 2)


@dataclass(frozen=True, slots=True)
class Sections:
    """The contents of the sections.

    `kept` is for what is derived from them, if they outlive the call.
    """

    profile: Profile | None
    preferences: Sequence[Preference]
    top: Sequence[Memory]
    conversations: Sequence[Summary]
    entities: Sequence[Entity]
    kept: Kept | None = None


@dataclass(frozen=True, slots=True)
class _SectionStatements:
    """The statements that read the sections."""

    profile: Statement[Profile | None]
    preferences: Statement[list[Preference]]
    top: Statement[list[Memory]] | None
    conversations: Statement[list[Summary]] | None
    entities: Statement[list[Entity]] | None


class SectionsAsked:
    """The sections of a running read: the `statements` run first, then `settle` answers.

    Args:
        scope: The user.
        extent: The size of each section.
        believed: The unconfirmed snapshot of the user; None if another time is read.
    """

    def __init__(self, scope: Scope, extent: Extent, believed: Believed | None) -> None:
        self._scope = scope
        self._extent = extent
        self._believed = believed
        self._expected = believed if believed is not None and believed.snapshot else None
        moment = extent.moment
        self._known_at = moment.known_at if moment else None

    @property
    def statements(self) -> Sequence[Statement[Any]]:
        """Statements to run first."""
        return self._in_full if self._expected is None else [self._expected.statement]

    async def settle(self, user: UserReadState, database: Reads, asking: Asking) -> Sections:
        """The sections, once `statements` have run.

        Args:
            user: The user's state, as answered.
            database: Where they ran.
            asking: Runs further statements there.
        """
        held = self._believed.confirmed(user, database) if self._believed is not None else None
        if held is not None:
            return self._at_hand(held, user)
        if self._expected is not None:
            await asking(*self._in_full)
        asked = self._asked
        preferences = [
            preference
            for preference in asked.preferences.answer
            if self._known_at is None or preference.updated_at <= self._known_at
        ]
        return Sections(
            profile=asked.profile.answer,
            preferences=preferences,
            top=asked.top.answer if asked.top else [],
            conversations=asked.conversations.answer if asked.conversations else [],
            entities=asked.entities.answer if asked.entities else [],
        )

    def _at_hand(self, held: Snapshot, user: UserReadState) -> Sections:
        assert self._expected is not None
        extent, around, uses = self._extent, held.surroundings, self._expected.uses
        limit = extent.memories
        if extent.newest_first:
            top = held.memories.newest(uses, user.at, limit=limit)
        else:
            top = held.memories.top(uses, user.at, limit=limit, fresh=extent.fresh)
        return Sections(
            profile=around.profile,
            preferences=around.preferences,
            top=top,
            conversations=around.recent(first=extent.first, limit=extent.summaries),
            entities=around.known(named=extent.named, limit=extent.entities),
            kept=held.kept,
        )

    @property
    def _in_full(self) -> list[Statement[Any]]:
        asked = self._asked
        statements: list[Statement[Any] | None] = [
            asked.profile,
            asked.preferences,
            asked.top,
            asked.conversations,
            asked.entities,
        ]
        return [statement for statement in statements if statement is not None]

    @cached_property
    def _asked(self) -> _SectionStatements:
        # A snapshot makes them unnecessary.
        extent = self._extent
        return _SectionStatements(
            self._profile_of(),
            people.preferences(self._scope),
            self._top_of() if extent.memories else None,
            self._conversations_of() if extent.conversations else None,
            self._entities_of() if extent.entities else None,
        )

    def _profile_of(self) -> Statement[Profile | None]:
        moment = self._extent.moment
        given = [at for at in (moment.known_at, moment.as_of) if at is not None] if moment else []
        if given:
            return past.profile(self._scope, min(given))
        return people.profile(self._scope)

    def _top_of(self) -> Statement[list[Memory]]:
        extent = self._extent
        limit, newest = extent.memories, extent.newest_first
        if extent.moment is not None:
            return past.top(self._scope, extent.moment, limit=limit, newest_first=newest)
        if newest:
            return memories.newest(self._scope, limit=limit)
        return memories.top(self._scope, limit=limit, fresh=extent.fresh)

    def _conversations_of(self) -> Statement[list[Summary]]:
        extent = self._extent
        return conversations_of.recent(
            self._scope,
            first=extent.first,
            limit=extent.summaries,
            moment=extent.moment or PRESENT,
        )

    def _entities_of(self) -> Statement[list[Entity]]:
        named, limit = self._extent.named, self._extent.entities
        return people.known_entities(self._scope, named=named, limit=limit, known_at=self._known_at)
