"""The sections of a context that no question looks for: who the user is, and what counts most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hitherto_retrieval.snapshots import Believed, Snapshot
from hitherto_retrieval.storage import conversations as conversations_of
from hitherto_retrieval.storage import memories, past, past_surroundings, people
from hitherto_retrieval.storage.moment import Moment
from hitherto_retrieval.storage.people import UserReadState
from hitherto_retrieval.storage.statement import Asking, Statement
from hitherto_shared.database.pool import Reads
from hitherto_shared.models import Entity, Memory, Preference, Profile, Scope, Summary

FRESH_PLACES = 5
"""Places of the top list that go to the newest memories of the last week."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How much of each section is wanted; 0 leaves one out and asks no question for it.

    Attributes:
        memories: How many of the top list.
        newest_first: Whether the newest memories are meant in place of the most important.
        conversations: How many conversations in short.
        first: The conversation that leads them, if it has a summary.
        entities: How many entities.
        named: Names of those that come first.
        moment: Another time that is asked about; None for the present.
    """

    memories: int
    newest_first: bool
    conversations: int
    first: str | None
    entities: int
    named: Sequence[str]
    moment: Moment | None

    @property
    def fresh(self) -> int:
        """How many places of the top list go to the newest memories."""
        return min(FRESH_PLACES, self.memories // 2)


@dataclass(frozen=True, slots=True)
class Sections:
    """What was found."""

    profile: Profile | None
    preferences: Sequence[Preference]
    top: Sequence[Memory]
    conversations: Sequence[Summary]
    entities: Sequence[Entity]


class SectionsAsked:
    """The sections on their way: `statements` are asked first, then `settle` answers.

    Args:
        scope: Whose.
        extent: How much of each.
        believed: What may be held of the user; None where another time is asked about.
    """

    def __init__(self, scope: Scope, extent: Extent, believed: Believed | None) -> None:
        self._scope = scope
        self._extent = extent
        self._believed = believed
        self._expected = believed if believed is not None and believed.snapshot else None
        moment = extent.moment
        self._known_at = moment.known_at if moment else None
        self._preferences = people.preferences(scope)
        self._profile = self._profile_of()
        self._top = self._top_of() if extent.memories else None
        self._conversations = self._conversations_of() if extent.conversations else None
        self._entities = self._entities_of() if extent.entities else None

    @property
    def statements(self) -> Sequence[Statement[Any]]:
        """What to ask first."""
        return self._in_full if self._expected is None else [self._expected.statement]

    async def settle(self, user: UserReadState, database: Reads, asking: Asking) -> Sections:
        """What was found, once `statements` have been asked.

        Args:
            user: The user's state, as it was answered.
            database: Where they were asked.
            asking: Puts further ones to it.
        """
        held = self._believed.confirmed(user, database) if self._believed is not None else None
        if held is not None:
            return self._at_hand(held, user)
        if self._expected is not None:
            await asking(*self._in_full)
        preferences = [
            preference
            for preference in self._preferences.answer
            if self._known_at is None or preference.updated_at <= self._known_at
        ]
        return Sections(
            profile=self._profile.answer,
            preferences=preferences,
            top=self._top.answer if self._top else [],
            conversations=self._conversations.answer if self._conversations else [],
            entities=self._entities.answer if self._entities else [],
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
            conversations=around.recent(first=extent.first, limit=extent.conversations),
            entities=around.known(named=extent.named, limit=extent.entities),
        )

    @property
    def _in_full(self) -> list[Statement[Any]]:
        asked: list[Statement[Any] | None] = [
            self._profile,
            self._preferences,
            self._top,
            self._conversations,
            self._entities,
        ]
        return [statement for statement in asked if statement is not None]

    def _profile_of(self) -> Statement[Profile | None]:
        moment = self._extent.moment
        given = [at for at in (moment.known_at, moment.as_of) if at is not None] if moment else []
        if given:
            return past_surroundings.profile(self._scope, min(given))
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
        first, limit = extent.first, extent.conversations
        if extent.moment is not None:
            return past_surroundings.conversations(
                self._scope, extent.moment, first=first, limit=limit
            )
        return conversations_of.recent(self._scope, first=first, limit=limit)

    def _entities_of(self) -> Statement[list[Entity]]:
        named, limit = self._extent.named, self._extent.entities
        if self._known_at is not None:
            return past_surroundings.entities(self._scope, self._known_at, named=named, limit=limit)
        return people.known_entities(self._scope, named=named, limit=limit)
