"""GetContext: everything an assistant should be told before it answers, gathered and rendered."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from recollect_retrieval.render.block import render
from recollect_retrieval.render.context import Block, PromptContext, RelevantItem
from recollect_retrieval.search.legs import Leg, Legs, Stopwatch
from recollect_retrieval.search.memories import Found, MemorySearch, Question
from recollect_retrieval.storage import memories, people
from recollect_retrieval.storage.people import UserState
from recollect_shared.database.pool import Connection, Database
from recollect_shared.models import Entity, Memory, Profile, Scope, Summary
from recollect_shared.text.normalise import fold

FRESH_PLACES = 5
"""Places of the top list that go to the newest memories of the last week."""


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
    block: Block


@dataclass(frozen=True, slots=True)
class _Known:
    profile: Profile | None
    memories: Sequence[Memory]
    conversations: Sequence[Summary]


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
        known = asyncio.create_task(
            database.run(
                lambda connection: self._gather(connection, scope, wanted, legs),
                timeout=remaining,
                repeatable=True,
            )
        )
        found = Found([], [], 0)
        try:
            if wanted.question.text.strip() and wanted.question.limit:
                found = await self._search.run(
                    database, scope, wanted.question, user, legs, deadline=deadline
                )
            gathered = await known
        except BaseException:
            known.cancel()
            raise
        entities = await self._entities(database, scope, wanted, found, deadline)
        block = render(
            PromptContext(
                profile=gathered.profile,
                memories=gathered.memories,
                relevant=[RelevantItem.of_memory(hit.memory) for hit in found.hits],
                conversations=gathered.conversations,
                entities=entities,
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
            entities=entities,
            block=block,
        )

    async def _gather(
        self, connection: Connection, scope: Scope, wanted: Wanted, legs: Legs
    ) -> _Known:
        """Profile, top memories and recent conversations."""
        watch = Stopwatch.start()
        profile = await people.read_profile(connection, scope)
        legs.add(Leg("profile", "ran", watch.seconds, int(profile is not None)))
        watch = Stopwatch.start()
        if not wanted.max_memories:
            ids = []
        elif wanted.newest_first:
            ids = await memories.newest_ids(connection, scope, limit=wanted.max_memories)
        else:
            fresh = min(FRESH_PLACES, wanted.max_memories // 2)
            ids = await memories.top_ids(connection, scope, limit=wanted.max_memories, fresh=fresh)
        top = await memories.read_by_ids(connection, scope, ids)
        legs.add(Leg("recent", "ran", watch.seconds, len(top)))
        watch = Stopwatch.start()
        conversations: Sequence[Summary] = []
        if wanted.max_conversations:
            conversations = await people.recent_summaries(
                connection, scope, first=wanted.conversation_id, limit=wanted.max_conversations
            )
            legs.add(Leg("episodic", "ran", watch.seconds, len(conversations)))
        return _Known(profile, top, conversations)

    async def _entities(
        self, database: Database, scope: Scope, wanted: Wanted, found: Found, deadline: float
    ) -> Sequence[Entity]:
        """The entities mentioned most, those the question names first."""
        if not wanted.max_entities:
            return []
        named = [fold(entity.name) for entity in found.entities]
        return await database.run(
            lambda connection: people.known_entities(
                connection, scope, named=named, limit=wanted.max_entities
            ),
            timeout=deadline - asyncio.get_running_loop().time(),
            repeatable=True,
        )
