"""The sections of a context that need no question, such as the profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hitherto_retrieval.loading import Snapshot
from hitherto_retrieval.snapshots import UnconfirmedSnapshot
from hitherto_retrieval.storage import conversations as conversations_of
from hitherto_retrieval.storage import memories, past, people
from hitherto_retrieval.storage.conversations import SPARE
from hitherto_retrieval.storage.moment import PRESENT
from hitherto_retrieval.storage.people import UserReadState
from hitherto_retrieval.storage.statement import Answered, Asking, Statement
from hitherto_retrieval.user_context import ContextRequest, KeptContexts
from hitherto_shared.database.pool import Reads
from hitherto_shared.models import Entity, Memory, Preference, Profile, Scope, Summary

_CONTEXTS = "contexts"
FRESH_PLACES = 5
"""Places of the top list for the newest memories of the last week."""


@dataclass(frozen=True, slots=True)
class Sections:
    """The contents of the sections.

    `contexts` are those kept with the snapshot that they are of, if they are of one.
    """

    profile: Profile | None
    preferences: Sequence[Preference]
    top: Sequence[Memory]
    conversations: Sequence[Summary]
    entities: Sequence[Entity]
    contexts: KeptContexts | None = None


class SectionsAsked:
    """The sections of a running read: the `statements` run first, then `settle` answers.

    Args:
        scope: The user.
        wanted: The context of which they are.
        named: Names of entities to put first.
        believed: The unconfirmed snapshot of the user; None if another time is read.
    """

    def __init__(
        self,
        scope: Scope,
        wanted: ContextRequest,
        named: Sequence[str],
        believed: UnconfirmedSnapshot | None,
    ) -> None:
        self._scope = scope
        self._wanted = wanted
        self._named = named
        self._believed = believed
        self._expected = believed if believed is not None and believed.snapshot else None
        self._moment = moment = wanted.question.moment
        self._known_at = moment.known_at if moment else None
        given = [at for at in (moment.known_at, moment.as_of) if at is not None] if moment else []
        # What has no validity of its own is read as it stood at the earlier time.
        self._stood_at = min(given, default=None)
        # Some conversations may be left out.
        conversations = wanted.max_conversations
        self._summaries = conversations + SPARE if conversations else 0
        self._doubtful = wanted.question.filters.doubtful
        self._fresh = min(FRESH_PLACES, wanted.max_memories // 2)

    @property
    def statements(self) -> Sequence[Statement[Any]]:
        """Statements to run first."""
        return self._asked if self._expected is None else [self._expected.statement]

    async def settle(self, user: UserReadState, database: Reads, asking: Asking) -> Sections:
        """The sections, once `statements` have run.

        Args:
            user: The user's state, as answered.
            database: Where they ran.
            asking: Runs further statements there.
        """
        cached = self._believed.confirmed(user, database) if self._believed is not None else None
        if cached is not None:
            return self._at_hand(cached, user)
        if self._expected is not None:
            await asking(*self._asked)
        profile, preferences, top, conversations, entities = self._asked
        known = [
            preference
            for preference in preferences.answer
            if self._stood_at is None or preference.updated_at <= self._stood_at
        ]
        return Sections(
            profile=profile.answer,
            preferences=known,
            top=top.answer,
            conversations=conversations.answer,
            entities=entities.answer,
        )

    def _at_hand(self, cached: Snapshot, user: UserReadState) -> Sections:
        assert self._expected is not None
        wanted, around = self._wanted, cached.surroundings
        uses = self._expected.statement.answer.uses
        limit = wanted.max_memories
        if wanted.newest_first:
            top = cached.memories.newest(uses, user.at, limit=limit, doubtful=self._doubtful)
        else:
            top = cached.memories.top(
                uses, user.at, limit=limit, fresh=self._fresh, doubtful=self._doubtful
            )
        contexts: KeptContexts | None = cached.memo.get(_CONTEXTS)
        if contexts is None:
            contexts = cached.memo[_CONTEXTS] = KeptContexts(cached.room)
        return Sections(
            profile=around.profile,
            preferences=around.preferences,
            top=top,
            conversations=around.recent(first=wanted.conversation_id, limit=self._summaries),
            entities=around.known(named=self._named, limit=wanted.max_entities, at=user.at),
            contexts=contexts,
        )

    # A snapshot makes them unnecessary.
    @cached_property
    def _asked(
        self,
    ) -> tuple[
        Statement[Profile | None],
        Statement[list[Preference]],
        Statement[list[Memory]],
        Statement[list[Summary]],
        Statement[list[Entity]],
    ]:
        wanted = self._wanted
        return (
            self._profile_of(),
            people.preferences(self._scope),
            self._top_of() if wanted.max_memories else Answered([]),
            self._conversations_of() if self._summaries else Answered([]),
            self._entities_of() if wanted.max_entities else Answered([]),
        )

    def _profile_of(self) -> Statement[Profile | None]:
        if self._stood_at is not None:
            return past.profile(self._scope, self._stood_at)
        return people.profile(self._scope)

    def _top_of(self) -> Statement[list[Memory]]:
        limit, newest = self._wanted.max_memories, self._wanted.newest_first
        if self._moment is not None:
            return past.top(
                self._scope,
                self._moment,
                limit=limit,
                newest_first=newest,
                doubtful=self._doubtful,
            )
        if newest:
            return memories.newest(self._scope, limit=limit, doubtful=self._doubtful)
        return memories.top(self._scope, limit=limit, fresh=self._fresh, doubtful=self._doubtful)

    def _conversations_of(self) -> Statement[list[Summary]]:
        first, moment = self._wanted.conversation_id, self._moment or PRESENT
        return conversations_of.recent(
            self._scope, first=first, limit=self._summaries, moment=moment
        )

    def _entities_of(self) -> Statement[list[Entity]]:
        limit, known_at = self._wanted.max_entities, self._known_at
        return people.known_entities(self._scope, named=self._named, limit=limit, known_at=known_at)
