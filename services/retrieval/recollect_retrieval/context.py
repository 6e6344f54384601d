"""GetContext: everything an assistant should be told before it answers, gathered and rendered."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from recollect_retrieval.render.block import render
from recollect_retrieval.render.context import (
    Block,
    LearntPreference,
    PromptContext,
    RelevantItem,
)
from recollect_retrieval.search.legs import Leg, Legs, Stopwatch
from recollect_retrieval.search.memories import Found, MemorySearch, Question
from recollect_retrieval.search.names import names_in
from recollect_retrieval.storage import conversations as conversations_of
from recollect_retrieval.storage import memories, people
from recollect_retrieval.storage.people import UserState
from recollect_shared.database.pool import Connection, Database
from recollect_shared.models import Entity, Memory, Preference, Profile, Scope, Summary

FRESH_PLACES = 5
"""Places of the top list that go to the newest memories of the last week."""

TOLD_CONFIDENCE = 0.6
"""What behaviour showed only once, or as often the other way, is not told to an assistant."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a context should hold; 0 leaves a section out and asks no question for it."""

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


@dataclass(frozen=True, slots=True)
class Context:
    """What is known, structured and as a block for a prompt."""

    profile: Profile
    memories: Sequence[Memory]
    found: Found
    conversations: Sequence[Summary]
    entities: Sequence[Entity]
    preferences: Sequence[Preference]
    block: Block


@dataclass(frozen=True, slots=True)
class _Known:
    profile: Profile | None
    memories: Sequence[Memory]
    conversations: Sequence[Summary]
    entities: Sequence[Entity]
    preferences: Sequence[Preference]


class ContextBuilder:
    """Gathers the sections beside the search and renders them."""

    def __init__(self, search: MemorySearch) -> None:
        self._search = search

    async def build(
        self,
        database: Database,
        scope: Scope,
        wanted: Wanted,
        user: UserState,
        legs: Legs,
        *,
        deadline: float,
    ) -> Context:
        """The context for one request; `deadline` is the loop's time."""
        remaining = deadline - asyncio.get_running_loop().time()
        gathering = asyncio.create_task(
            database.run(
                lambda connection: self._gather(connection, scope, wanted, legs),
                timeout=remaining,
                repeatable=True,
            )
        )
        searching = asyncio.create_task(
            self._search_for(database, scope, wanted, user, legs, deadline)
        )
        try:
            gathered, found = await asyncio.gather(gathering, searching)
        except BaseException:
            gathering.cancel()
            searching.cancel()
            raise
        block = render(
            PromptContext(
                profile=gathered.profile,
                memories=gathered.memories,
                relevant=[RelevantItem.of_memory(hit.memory) for hit in found.hits],
                conversations=gathered.conversations,
                entities=gathered.entities,
                preferences=[
                    LearntPreference(p.type, p.key, p.value, p.confidence)
                    for p in gathered.preferences
                    if p.confidence >= TOLD_CONFIDENCE
                ],
            ),
            wanted.template,
            wanted.max_tokens,
            annotate=wanted.annotate,
            fence_id=secrets.token_hex(8),
            custom_template=wanted.custom_template,
        )
        return Context(
            profile=gathered.profile or Profile(scope.user_id),
            memories=gathered.memories,
            found=found,
            conversations=gathered.conversations,
            entities=gathered.entities,
            preferences=gathered.preferences,
            block=block,
        )

    async def _search_for(
        self,
        database: Database,
        scope: Scope,
        wanted: Wanted,
        user: UserState,
        legs: Legs,
        deadline: float,
    ) -> Found:
        if not wanted.question.text.strip() or not wanted.question.limit:
            return Found([], [], 0)
        return await self._search.run(
            database, scope, wanted.question, user, legs, deadline=deadline
        )

    async def _gather(
        self, connection: Connection, scope: Scope, wanted: Wanted, legs: Legs
    ) -> _Known:
        """Profile, top memories, recent conversations and known entities."""
        watch = Stopwatch.start()
        profile = await people.read_profile(connection, scope)
        legs.add(Leg("profile", "ran", watch.seconds, int(profile is not None)))
        watch = Stopwatch.start()
        top: Sequence[Memory] = []
        if wanted.max_memories:
            top = await self._top(connection, scope, wanted)
            legs.add(Leg("recent", "ran", watch.seconds, len(top)))
        watch = Stopwatch.start()
        conversations: Sequence[Summary] = []
        if wanted.max_conversations:
            conversations = await conversations_of.recent_summaries(
                connection, scope, first=wanted.conversation_id, limit=wanted.max_conversations
            )
            legs.add(Leg("episodic", "ran", watch.seconds, len(conversations)))
        entities: Sequence[Entity] = []
        if wanted.max_entities:
            entities = await people.known_entities(
                connection,
                scope,
                named=names_in(wanted.question.text),
                limit=wanted.max_entities,
            )
        preferences = await people.read_preferences(connection, scope)
        return _Known(profile, top, conversations, entities, preferences)

    async def _top(self, connection: Connection, scope: Scope, wanted: Wanted) -> Sequence[Memory]:
        if wanted.newest_first:
            ids = await memories.newest_ids(connection, scope, limit=wanted.max_memories)
        else:
            fresh = min(FRESH_PLACES, wanted.max_memories // 2)
            ids = await memories.top_ids(connection, scope, limit=wanted.max_memories, fresh=fresh)
        return await memories.read_by_ids(connection, scope, ids)
