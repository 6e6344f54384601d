"""Reads: contexts, search, lists of memories, and why something is remembered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import grpc

from hitherto_client._async.calling import AsyncCalling, AsyncPages, pages, rpc
from hitherto_client._async.conversations import AsyncConversations
from hitherto_client.errors import HithertoCallError
from hitherto_client.results.conversations import Message, Proof, SourceQuote
from hitherto_client.results.memories import Entity, HistoryEvent, Memory
from hitherto_client.results.search import (
    Context,
    EnhancedPrompt,
    SearchResults,
    Suggestions,
)
from hitherto_client.words import (
    Confidence,
    EntityType,
    MemoryOrder,
    MemorySource,
    MemoryStatus,
    MemoryType,
    PromptTemplate,
    SearchScope,
)


class AsyncRetrieval(AsyncCalling):
    """What the assistant asks for before it answers."""

    @rpc("GetContext")
    async def get_context(
        self,
        user: str,
        query: str = "",
        *,
        conversation: str = "",
        scopes: Iterable[SearchScope] = (),
        max_memories: int | None = None,
        max_relevant: int | None = None,
        max_conversations: int | None = None,
        max_entities: int | None = None,
        max_tokens: int | None = None,
        min_relevance: float | None = None,
        memory_order: MemoryOrder | None = None,
        template: PromptTemplate | None = None,
        custom_template: str = "",
        line_dates: bool | None = None,
        include_provenance: bool = False,
        count_access: bool | None = None,
        as_of: datetime | None = None,
        known_at: datetime | None = None,
        include_doubtful: bool | None = None,
        reference_time: datetime | None = None,
        timeout: float | None = None,
    ) -> Context:
        """What an assistant should know before it answers `query`.

        `prompt_block` of the result is the text for the assistant's prompt.

        Args:
            user: The user that the assistant talks with.
            query: What the user just said. Empty: a general list by importance.
            conversation: The current conversation; its summary comes first.
            scopes: What is searched. Empty: memories, messages, summaries and documents.
            max_memories: Memories by importance (20).
            max_relevant: Results for the query (10).
            max_conversations: Past conversations (5).
            max_entities: Known entities (10).
            max_tokens: The budget of the block in tokens (4,000), which it never exceeds.
            min_relevance: The relevance from which a result is told, from 0 (everything that fits)
                to 1. Unset: the installation's floor.
            memory_order: The order of `memories` (importance).
            template: The format of the block (about_the_user).
            custom_template: Your own format, for the template `custom`.
            line_dates: Whether lines carry dates. Unset: with a query; without one, only recent
                conversations do.
            include_provenance: True adds origin, date and id to every memory line.
            count_access: False: the memories do not count as used. For pages that show them.
            as_of: Answer with what was true at that time.
            known_at: Answer with what was known at that time.
            include_doubtful: False leaves out memories that may no longer hold.
            reference_time: The time that "last week" is relative to. Unset: now.
            timeout: Seconds, retries included. Unset: 10.
        """

    async def enhance_prompt(
        self,
        base: str,
        user: str,
        query: str = "",
        *,
        conversation: str = "",
        max_tokens: int | None = None,
        timeout: float = 2.0,
    ) -> EnhancedPrompt:
        """The prompt `base`, followed by what is known about the user.

        It never fails: on any error, and after `timeout` seconds, the result holds `base` unchanged
        and says why. An assistant without memory is better than none.
        """
        try:
            context = await self.get_context(
                user, query, conversation=conversation, max_tokens=max_tokens, timeout=timeout
            )
        except Exception as error:
            return EnhancedPrompt(base, enhanced=False, problem=str(error) or repr(error))
        if not context.prompt_block:
            return EnhancedPrompt(base, enhanced=False)
        text = f"{base}\n\n{context.prompt_block}" if base else context.prompt_block
        return EnhancedPrompt(text, enhanced=True)

    @rpc("SearchMemories")
    async def search(
        self,
        user: str,
        query: str = "",
        *,
        limit: int = 0,
        scopes: Iterable[SearchScope] = (),
        types: Iterable[MemoryType] = (),
        tags: Iterable[str] = (),
        statuses: Iterable[MemoryStatus] = (),
        sources: Iterable[MemorySource] = (),
        source_types: Iterable[str] = (),
        entity: str = "",
        conversation: str = "",
        confidence_min: Confidence | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        min_score: float | None = None,
        min_relevance: float | None = None,
        metadata_filter: Mapping[str, Any] | None = None,
        query_embedding: Iterable[float] = (),
        ranking: str = "",
        weights: Mapping[str, float] | None = None,
        as_of: datetime | None = None,
        known_at: datetime | None = None,
        include_doubtful: bool | None = None,
        reference_time: datetime | None = None,
        excerpt_messages: int = 0,
        explain: bool = False,
        count_access: bool | None = None,
        timeout: float | None = None,
    ) -> SearchResults:
        """The best results for `query`; iterate over them.

        Filters are part of the search: there are `limit` results, or as many as exist.

        Args:
            user: Whose memory is searched.
            query: A question or keywords, in any language. Empty: by importance.
            limit: The number of results (10; 200 at most).
            scopes: What is searched. Empty: memories.
            types: Only memories of one of these types.
            tags: Only memories with one of these tags.
            statuses: Only memories with one of these statuses. Empty: active and achieved.
            sources: Only memories created in one of these ways.
            source_types: Only documents of one of these types, such as `gmail`.
            entity: Only what mentions this person or thing.
            conversation: Only what was said in, or learnt from, this conversation.
            confidence_min: Only memories of at least this confidence.
            created_after: Only items created then or later.
            created_before: Only items created before then.
            min_score: Only results with at least this score.
            min_relevance: Only results of at least this relevance, from 0 (all) to 1. Unset: the
                installation's floor.
            metadata_filter: Only items whose metadata has these keys with equal values.
            query_embedding: Your own vector for the query, from the active embedding model.
            ranking: `balanced` (the default) or `weighted`.
            weights: Weights of the ranking's components, by name.
            as_of: Find what was true at that time.
            known_at: Find what was known at that time.
            include_doubtful: False leaves out memories that may no longer hold.
            reference_time: The time that "last week" is relative to. Unset: now.
            excerpt_messages: Messages to return before and after each source (0; 20 at most).
            explain: True sets `breakdown` of each result.
            count_access: False: the memories do not count as used. For pages that show them.
            timeout: Seconds, retries included. Unset: 10.
        """

    @pages("ListMemories")
    def memories(
        self,
        user: str,
        *,
        types: Iterable[MemoryType] = (),
        tags: Iterable[str] = (),
        statuses: Iterable[MemoryStatus] = (),
        sources: Iterable[MemorySource] = (),
        entity: str = "",
        conversation: str = "",
        confidence_min: Confidence | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        metadata_filter: Mapping[str, Any] | None = None,
        as_of: datetime | None = None,
        known_at: datetime | None = None,
        include_doubtful: bool | None = None,
        order_by: str = "",
        page_size: int = 200,
        timeout: float | None = None,
    ) -> AsyncPages[Memory]:
        """Every memory of a user, fetched page by page as you iterate.

        The filters mean what they do in `search`. `order_by` is `created_at` (the default),
        `importance` or `last_accessed_at`; `page_size` is at most 1,000, and `timeout` holds for
        each page.
        """

    @rpc("GetMemory", "memory")
    async def get_memory(
        self, user: str, memory_id: str, *, timeout: float | None = None
    ) -> Memory | None:
        """One memory, whatever its status; None if there is none, or memory is switched off."""

    @pages("GetMemoryHistory")
    def memory_history(
        self, user: str, memory_id: str, *, page_size: int = 200, timeout: float | None = None
    ) -> AsyncPages[HistoryEvent]:
        """Every change of a memory, newest first, fetched page by page.

        Raises:
            HithertoCallError: The memory does not exist (`MEMORY_NOT_FOUND`), or the call failed.
        """

    @rpc("FindEntities", "entities")
    async def find_entities(
        self,
        user: str,
        name: str = "",
        *,
        type: EntityType | None = None,
        limit: int = 0,
        timeout: float | None = None,
    ) -> tuple[Entity, ...]:
        """The people and things that the user mentions, the most mentioned first.

        `name` may be a part of one; empty: all of them.
        """

    @rpc("GetSuggestions")
    async def get_suggestions(
        self, user: str, *, limit: int = 0, timeout: float | None = None
    ) -> Suggestions:
        """What the user may want to ask next (3 suggestions unless `limit` says otherwise)."""


_MOST_SOURCES = 6
_MOST_MESSAGES = 1_000


class AsyncProofs(AsyncRetrieval, AsyncConversations):
    """What a memory rests on."""

    async def why(self, user: str, memory_id: str, *, timeout: float | None = None) -> Proof | None:
        """A memory with the words that it was learnt from; None if there is no such memory.

        Of each of the first six messages behind it, the proof has what was said just before and
        after. `timeout` holds for each of the calls.
        """
        memory = await self.get_memory(user, memory_id, timeout=timeout)
        if memory is None:
            return None
        wanted: dict[str, list[str]] = {}
        for source in memory.sources[:_MOST_SOURCES]:
            wanted.setdefault(source.conversation_id, []).append(source.message_id)
        quotes: list[SourceQuote] = []
        for conversation_id, message_ids in wanted.items():
            quotes += await self._quotes(user, conversation_id, message_ids, timeout)
        return Proof(memory, tuple(quotes))

    async def _quotes(
        self, user: str, conversation_id: str, message_ids: list[str], timeout: float | None
    ) -> list[SourceQuote]:
        title, messages = "", list[Message]()
        try:
            found = await self.get_conversation(
                user, conversation_id, message_limit=1, timeout=timeout
            )
            title = found.summary.title if found else ""
            messages = await self._messages_down_to(
                user, conversation_id, set(message_ids), timeout
            )
        except HithertoCallError as error:
            # Sealed, and its key is away: the memory itself can be shown all the same.
            if error.code is not grpc.StatusCode.FAILED_PRECONDITION:
                raise
        places = {message.id: place for place, message in enumerate(messages)}
        quotes = []
        for message_id in message_ids:
            place = places.get(message_id)
            around: list[Message | None] = [None, *messages, None]
            before, message, after = around[place : place + 3] if place is not None else [None] * 3
            quotes.append(SourceQuote(conversation_id, title, message_id, before, message, after))
        return quotes

    async def _messages_down_to(
        self, user: str, conversation_id: str, wanted: set[str], timeout: float | None
    ) -> list[Message]:
        """The last messages of a conversation back to the one before those wanted, in order."""
        messages: list[Message] = []
        async for message in self.messages(user, conversation_id, timeout=timeout):
            messages.append(message)
            if not wanted or len(messages) >= _MOST_MESSAGES:
                break
            wanted.discard(message.id)
        return messages[::-1]
