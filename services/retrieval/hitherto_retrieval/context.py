"""GetContext: gathers and renders what an assistant should know before it answers."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from zoneinfo import ZoneInfo

from hitherto_retrieval.opening import Opener
from hitherto_retrieval.pairs import in_pairs
from hitherto_retrieval.previous import named_by, read_previous
from hitherto_retrieval.render.block import fenced_again, render
from hitherto_retrieval.render.context import PromptContext, RelevantItem
from hitherto_retrieval.render.tokens import CountTokens
from hitherto_retrieval.search.corpora.corpus import Item
from hitherto_retrieval.search.deduplication import for_a_prompt, to_be_read
from hitherto_retrieval.search.legs import Leg, Legs, Stopwatch
from hitherto_retrieval.search.own_name import is_called
from hitherto_retrieval.search.question import Hit, SearchOutcome
from hitherto_retrieval.search.reads import UserReads
from hitherto_retrieval.search.sealed_leg import report_sealed
from hitherto_retrieval.search.search import Search, SearchRun
from hitherto_retrieval.sections import Sections
from hitherto_retrieval.storage import people, previous_items
from hitherto_retrieval.storage.people import UserReadState
from hitherto_retrieval.storage.previous_items import LastAnswer
from hitherto_retrieval.storage.statement import Statement, ask_at
from hitherto_retrieval.user_context import ContextRequest, UserContext
from hitherto_shared.database.pool import Reads
from hitherto_shared.models import (
    Entity,
    Memory,
    Message,
    Profile,
    Scope,
    Summary,
)
from hitherto_shared.offloading import in_thread_if_long

_PRINTED_WHOLE, _WORK_OF_A_LINE, _MOST_WORK = 500, 80, 8 * 1024
"""How many characters a text has at most that counts as so many, because its line is as much work
however short it is, and what a longer text counts as at most."""

_NEAR = 0.6
"""Of the best score, what most of the hits that have a line reach."""

MIN_PREFERENCE_CONFIDENCE = 0.6
"""Preferences below this confidence were observed once, or contradicted as often, and are left
out of the block. So are those that were observed once and raised by a rating."""

_FIRST = 1.0
"""The score of what precedes all candidates: the highest possible score."""


class ContextBuilder:
    """One running GetContext: the `statements` run first, then `finish` answers.

    The sections are gathered in the search's first trip.
    """

    def __init__(
        self,
        search: Search,
        scope: Scope,
        wanted: ContextRequest,
        *,
        deadline: float,
        opener: Opener,
        count_tokens: CountTokens,
    ) -> None:
        self._deadline = deadline
        self._count_tokens = count_tokens
        self._opener = opener
        self._scope = scope
        self._wanted = wanted
        self._moment = wanted.question.moment
        self._began = Stopwatch()
        snapshots = search.snapshots if self._moment is None else None
        self._reads = reads = UserReads(scope, self._moment, snapshots)
        searching = None
        if wanted.question.text.strip() and wanted.question.kinds:
            searching = SearchRun(search, wanted.question, reads, deadline, opener)
        else:
            reads.only_list(
                limit=wanted.max_memories,
                newest_first=wanted.newest_first,
                doubtful=wanted.question.filters.doubtful,
            )
        self._searching = searching
        self._named = searching.names if searching else ()
        self._sections: Sections | None = None
        if reads.confirming is None:
            self._sections = Sections.of(reads, wanted, self._named)
        # A search asks for the user's switches along with its words, and so does the cache.
        self._user = people.user(scope)
        self._previous: Statement[LastAnswer] | None = None
        if wanted.conversation_id and self._moment is None:
            self._previous = previous_items.context_items_of_last_answer(
                scope, wanted.conversation_id
            )

    @property
    def statements(self) -> Sequence[Statement[Any]]:
        """What to ask before `finish`."""
        confirming = self._reads.confirming
        asked: list[Statement[Any]] = [] if confirming is None else [confirming]
        if self._sections is not None:
            asked += self._sections.statements
        if self._previous is not None:
            asked.append(self._previous)
        if self._searching is not None:
            asked += self._searching.statements
        elif confirming is None:
            asked.append(self._user)
        return list(dict.fromkeys(asked))

    @property
    def user(self) -> UserReadState:
        """The user's switches, once the statements have run."""
        confirming = self._reads.confirming
        if confirming is not None:
            # A search that finds no memories does not ask how they were used.
            return confirming.answer
        return self._user.answer if self._searching is None else self._searching.user

    @property
    def asked(self) -> bool:
        """Whether there is a question for which something may be relevant."""
        return self._searching is not None and self._wanted.question.limit > 0

    def nothing_to_read(self) -> None:
        """Note that the user turned out to have no memories, or memory switched off."""
        if self._searching is not None:
            self._searching.nothing_to_read()

    async def finish(self, database: Reads, legs: Legs) -> UserContext:
        """The context; `statements` must have run."""
        wanted = self._wanted
        seconds = self._began.seconds
        sections = await self._confirmed_sections(database)
        profile, preferences = sections.profile.answer, sections.preferences.answer
        top, entities = in_pairs(sections.top.answer), sections.entities.answer
        conversations = sections.conversations.answer
        # They travel together: the time of one is the time of all.
        legs.add(Leg("profile", "ran", seconds, int(profile is not None)))
        if wanted.max_memories:
            legs.add(Leg("recent", "ran", seconds, len(top)))
        if wanted.max_conversations:
            listed = min(len(conversations), wanted.max_conversations)
            legs.add(Leg("episodic", "ran", seconds, listed))
        found = SearchOutcome()
        if self._searching is not None:
            found = await self._searching.finish(database, legs)
        previous = await self._read_previous(database)
        dated = self._searching is not None if wanted.line_dates is None else wanted.line_dates
        zone = ZoneInfo(self.user.time_zone or "UTC")
        today = wanted.question.reference_time.astimezone(zone).date() if dated else None
        fence_id = secrets.token_hex(8)
        opener = self._opener
        snapshot = self._reads.snapshot
        contexts = None if snapshot is None else snapshot.contexts
        # Nothing that is cached is sealed.
        if contexts is None:
            profile = next(iter(await opener.whole([profile])), None)
            top, conversations = await opener.whole(top), await opener.whole(conversations)
        if opener.asked:
            report_sealed(opener, legs, seconds)
        key: Hashable = None
        if contexts is not None and self._searching is None and not previous:
            key = wanted.key(zone, top)
            known: UserContext | None = contexts.find(key)
            if known is not None:
                block = fenced_again(known.block, fence_id, today, self._count_tokens)
                if block is not None:
                    return replace(known, memories=top, block=block)
        conversations = self._in_order(conversations, found.conversations)
        found, conversations = self._shown(found, conversations)
        nothing = self.asked and not (found.hits or found.further or previous)
        nearest = [hit.item for hit in found.nearest if isinstance(hit.item, Memory)]
        named = {entity.entity_id for entity in found.entities}
        told = _others_than_the_user(entities, profile)
        hits = [*found.hits, *found.further]
        stops = wanted.question.min_relevance != 0
        whole: list[Item] = [*top, *conversations] if self._searching is None else []
        read = [hit.item for hit in (_near_the_best(hits) if stops else hits)]
        block = await in_thread_if_long(
            work_of_lines([*whole, *read]) + wanted.max_tokens,
            render,
            PromptContext(
                profile=profile,
                # Where nothing answers, what is nearest helps more than what matters most.
                memories=nearest if nothing and nearest and wanted.max_memories else top,
                relevant=_relevant(previous, hits),
                conversations=conversations,
                entities=told,
                preferences=[
                    p
                    for p in preferences
                    if p.confidence >= MIN_PREFERENCE_CONFIDENCE and p.observations > 1
                ],
                asked=self._searching is not None,
                ongoing=wanted.conversation_id,
                titled=found.said_in,
                terms=found.terms,
                broad=found.broad,
                addressed=found.addressed,
                nothing=nothing,
                stops=stops,
                named=sum(entity.entity_id in named for entity in told),
                past=self._moment is not None,
                recent_days=wanted.line_dates is None,
                today=today,
                zone=zone,
            ),
            wanted.template,
            wanted.max_tokens,
            annotate=wanted.annotate,
            fence_id=fence_id,
            custom_template=wanted.custom_template,
            count=self._count_tokens,
        )
        made = UserContext(
            profile=profile or Profile(self._scope.user_id),
            memories=top,
            found=found,
            previous=previous,
            conversations=conversations,
            entities=entities,
            preferences=preferences,
            block=block,
            nothing_relevant=nothing,
        )
        if contexts is not None and key is not None and (kept := made.to_keep()) is not None:
            contexts.keep(key, *kept)
        return made

    async def _confirmed_sections(self, database: Reads) -> Sections:
        self._reads.confirm(self.user, database)
        sections = self._sections
        if sections is None:
            sections = Sections.of(self._reads, self._wanted, self._named)
            await ask_at(database, self._deadline, *sections.statements)
        return sections

    async def _read_previous(self, database: Reads) -> list[Hit]:
        if self._previous is None:
            return []
        conversation_id = self._wanted.conversation_id or ""
        named = await named_by(self._previous.answer, conversation_id, self._opener)
        if not named:
            return []
        found = await database.run(
            lambda connection: read_previous(connection, self._scope, conversation_id, named),
            timeout=self._deadline - asyncio.get_running_loop().time(),
            repeatable=True,
        )
        doubtful = self._wanted.question.filters.doubtful
        opened = [
            replace(each, item=item)
            for each in found
            for item in await self._opener.whole([each.item])
            if doubtful or not (isinstance(item, Memory) and item.doubt is not None)
        ]
        return await in_thread_if_long(to_be_read(opened), for_a_prompt, opened)

    def _in_order(self, recent: Sequence[Summary], about: Sequence[Summary]) -> list[Summary]:
        """The ongoing conversation, those about the question, then the most recent."""
        own = [s for s in recent if s.conversation_id == self._wanted.conversation_id]
        found = {summary.conversation_id: summary for summary in (*own, *about, *recent)}
        return list(found.values())

    def _shown(
        self, found: SearchOutcome, conversations: list[Summary]
    ) -> tuple[SearchOutcome, list[Summary]]:
        """The same without summaries that may repeat a withheld memory, and not too many of them.

        A summary is not written anew when a memory learnt from its conversation is forgotten or
        sent to review, and no program can tell whether it repeats that memory in other words.
        """
        found = replace(found, said_in=[each for each in found.said_in if not each.withheld])
        first = [each for each in conversations if not each.withheld]
        first = first[: self._wanted.max_conversations]
        if self._moment is not None:
            # What held at another time is not looked up.
            first = [replace(summary, partly_until=None) for summary in first]
        return found, first


def _others_than_the_user(entities: Sequence[Entity], profile: Profile | None) -> list[Entity]:
    """Those that say something: not the user, whose name the profile has."""
    personal = profile.facts.get("personal") if profile is not None else None
    name = personal.get("name") if isinstance(personal, Mapping) else None
    if not isinstance(name, str) or not name:
        return list(entities)
    return [each for each in entities if each.type != "person" or not is_called(each.name, name)]


def _near_the_best(hits: Sequence[Hit]) -> list[Hit]:
    """The hits that may have a line, where answers stop: the others are hardly looked at."""
    least = _NEAR * max((hit.score for hit in hits), default=0.0)
    return [hit for hit in hits if hit.score >= least]


def work_of_lines(items: Sequence[Item]) -> int:
    """Approximate number of characters to be read for the lines of items."""
    sizes = [len(item.summary if isinstance(item, Summary) else item.content) for item in items]
    long = [min(size, _MOST_WORK) for size in sizes if size > _PRINTED_WHOLE]
    return sum(long) + _WORK_OF_A_LINE * (len(sizes) - len(long))


def _relevant(previous: Sequence[Hit], hits: Sequence[Hit]) -> list[RelevantItem]:
    """The items to print for a question, each at its first position only.

    The items of the last answer precede all candidates.
    """
    if not previous:
        # A search finds nothing twice.
        return [_printed(hit, hit.score) for hit in hits]
    first: dict[Hashable, RelevantItem] = {}
    for hit in previous:
        item = first.setdefault(_identity(hit.item), _printed(hit, _FIRST))
        item.first = True
    for hit in hits:
        first.setdefault(_identity(hit.item), _printed(hit, hit.score))
    return list(first.values())


def _identity(item: Item) -> Hashable:
    if isinstance(item, Memory):
        return item.memory_id
    if isinstance(item, Message):
        return item.conversation_id, item.message_id
    return item.conversation_id if isinstance(item, Summary) else item.chunk_id


def _printed(hit: Hit, score: float) -> RelevantItem:
    """The printed form of a found item."""
    item = hit.item
    if isinstance(item, Memory):
        return RelevantItem.of_memory(item, score, hit.instead)
    if isinstance(item, Summary):
        return RelevantItem.of_summary(item, score, hit.partly_until)
    if isinstance(item, Message):
        return RelevantItem.of_message(item, score, hit.partly_until, hit.instead)
    return RelevantItem(
        source=item.source_type,
        title=item.title,
        text=item.content,
        at=item.created_at,
        score=score,
    )
