"""Implements RetrievalService: reads everything known about a user."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from hitherto.v1 import retrieval_service_pb2 as pb
from hitherto.v1 import retrieval_service_pb2_grpc, search_pb2
from hitherto_retrieval.change_feed import ChangeFeed
from hitherto_retrieval.context import ContextBuilder
from hitherto_retrieval.handlers.conversations import ConversationCalls
from hitherto_retrieval.handlers.documents import DocumentCalls
from hitherto_retrieval.handlers.history import HistoryCalls
from hitherto_retrieval.handlers.incoming import (
    BALANCED,
    MAX_LIMIT,
    MAX_QUERY_BYTES,
    ORDERS,
    check_size,
    min_relevance,
    read_filters,
    read_kinds,
    read_moment,
    read_question,
    reference_time,
    until,
    with_doubtful,
)
from hitherto_retrieval.handlers.people import PeopleCalls
from hitherto_retrieval.handlers.reading import UserChecks
from hitherto_retrieval.handlers.replies import context_reply, search_reply, written
from hitherto_retrieval.handlers.sessions import SessionCalls
from hitherto_retrieval.handlers.watching import WatchCalls, WatchTokens
from hitherto_retrieval.readers import Readers
from hitherto_retrieval.render.custom import check_custom_template
from hitherto_retrieval.render.tokens import CountTokens
from hitherto_retrieval.search.corpora.corpus import Item
from hitherto_retrieval.search.legs import Legs
from hitherto_retrieval.search.question import Question
from hitherto_retrieval.search.reads import UserReads
from hitherto_retrieval.search.sealed_leg import for_a_list
from hitherto_retrieval.search.search import Search, SearchRun
from hitherto_retrieval.storage import memories, past
from hitherto_retrieval.storage.candidate import Kind
from hitherto_retrieval.storage.filters import Filters
from hitherto_retrieval.storage.passage_filters import PassageFilters
from hitherto_retrieval.usage_counts import AccessCounter
from hitherto_retrieval.user_context import ContextRequest, UserContext
from hitherto_shared.audit.reads import AuditedReads
from hitherto_shared.consistency import ConsistencyTokens
from hitherto_shared.convert import (
    EnumWords,
    Fields,
    memory_fields,
    memory_message,
)
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.errors import not_found
from hitherto_shared.models import Memory
from hitherto_shared.offloading import in_thread_if_long
from hitherto_shared.paging import PageTokens
from hitherto_shared.rpc.call import Context as CallContext
from hitherto_shared.rpc.call import current_call
from hitherto_shared.validation import Checks

_TEMPLATES = EnumWords(search_pb2.PromptTemplate.DESCRIPTOR)
_BYTES_OF_AN_ITEM = 128
_BYTES_OF_JSON = 4 * 1024
_ALL_MEMORIES, _ALL_PASSAGES = Filters(), PassageFilters()
_CERTAIN_MEMORIES = Filters(doubtful=False)
_CONTEXT_KINDS: Sequence[Kind] = ("memory", "message", "summary", "document")
_LINE_TOKENS = 20
"""Approximate minimum tokens of a line: a budget is divided by it to limit further results."""
_MOST_FURTHER = 190
_ORDERS: dict[int, str] = {
    search_pb2.MEMORY_ORDER_IMPORTANCE: "importance",
    search_pb2.MEMORY_ORDER_RECENT: "recent",
}


@dataclass(frozen=True, slots=True)
class ReadDefaults:
    """Defaults for unset limits and users who did not choose, and what the other service does."""

    memory_enabled: bool
    max_relevant: int
    max_tokens: int
    learns_after: timedelta
    """How long a conversation is silent before its messages are learnt from."""


class RetrievalHandlers(
    PeopleCalls,
    ConversationCalls,
    DocumentCalls,
    HistoryCalls,
    SessionCalls,
    WatchCalls,
    retrieval_service_pb2_grpc.RetrievalServiceServicer,
):
    """Implements RetrievalService with the role hitherto_read."""

    def __init__(
        self,
        readers: Readers,
        search: Search,
        accesses: AccessCounter,
        pages: PageTokens,
        audit: AuditedReads,
        defaults: ReadDefaults,
        *,
        dimensions: int,
        keys: UserKeys,
        count_tokens: CountTokens,
        feed: ChangeFeed,
        tokens: tuple[ConsistencyTokens, WatchTokens],
    ) -> None:
        super().__init__(readers, pages, audit, memory_enabled=defaults.memory_enabled, keys=keys)
        self._search = search
        self._count_tokens = count_tokens
        self._accesses = accesses
        self._defaults = defaults
        self._learns_after = defaults.learns_after
        self._dimensions = dimensions
        self._feed = feed
        self._consistency, self._watch_tokens = tokens

    # The generated class knows replies as messages only; the gateway also takes their bytes.
    async def GetContext(  # type: ignore[override]
        self, request: pb.GetContextRequest, context: CallContext
    ) -> pb.GetContextResponse | bytes:
        """Everything that an assistant should know before it answers."""
        checks = UserChecks(request)
        wanted = self._wanted(checks, request)
        opened = await self._open(checks, request, context)
        legs = Legs()
        building = ContextBuilder(
            self._search,
            opened.scope,
            wanted,
            deadline=opened.deadline,
            opener=opened.opener,
            count_tokens=self._count_tokens,
        )
        await opened.ask(*building.statements)
        reading = self._reading(opened, building.user)
        if reading.empty:
            building.nothing_to_read()
            self._search.snapshots.drop(opened.scope)
            nothing = building.asked and not reading.disabled
            return pb.GetContextResponse(reason=reading.reason, nothing_relevant=nothing)
        found = await building.finish(reading.database, legs)
        if _counts_access(request):
            self._accesses.returned(reading.scope, _memories_in(found))
        items = [*found.memories, *(hit.item for hit in found.found.hits)]
        return await in_thread_if_long(_work_of(items), context_reply, found, legs)

    async def SearchMemories(  # type: ignore[override]
        self, request: pb.SearchMemoriesRequest, context: CallContext
    ) -> pb.SearchMemoriesResponse | bytes:
        """The best results for a question."""
        checks = UserChecks(request)
        question = read_question(checks, request)
        opened = await self._open(checks, request, context)
        legs = Legs()
        reads = UserReads(opened.scope, question.moment, self._search.snapshots)
        searching = SearchRun(self._search, question, reads, opened.deadline, opened.opener)
        await opened.ask(*searching.statements)
        reading = self._reading(opened, searching.user)
        active = reading.user.active_model
        check_size(question, active[1] if active is not None else self._dimensions)
        if reading.empty:
            searching.nothing_to_read()
            self._search.snapshots.drop(opened.scope)
            return pb.SearchMemoriesResponse(reason=reading.reason)
        found = await searching.finish(reading.database, legs)
        if _counts_access(request):
            self._accesses.returned(reading.scope, _memories_of(hit.item for hit in found.hits))
        items = [hit.item for hit in found.hits]
        return await in_thread_if_long(
            _work_of(items), search_reply, found, legs, explain=request.explain
        )

    async def GetMemory(
        self, request: pb.GetMemoryRequest, context: CallContext
    ) -> pb.GetMemoryResponse:
        """One memory, whatever its status."""
        checks = UserChecks(request)
        memory_id = checks.uuid("memory_id", request.memory_id)
        reading = await self._begin(checks, request, context)
        if reading.disabled:
            return pb.GetMemoryResponse(reason=reading.reason)
        found = await reading.answer(memories.by_ids(reading.scope, [memory_id]))
        if not found or reading.empty:
            raise not_found("memory", memory_id)
        memory = await reading.opener.one(found[0])
        return pb.GetMemoryResponse(memory=memory_message(memory))

    async def ListMemories(
        self, request: pb.ListMemoriesRequest, context: CallContext
    ) -> pb.ListMemoriesResponse:
        """A user's memories in pages."""
        checks = UserChecks(request)
        filters = read_filters(checks, request)
        moment = read_moment(checks, request)
        order_by = checks.known("order_by", request.order_by, ORDERS) or "created_at"
        page = self._pages.open(checks, current_call().principal.tenant_id, request, maximum=1_000)
        reading = await self._begin(checks, request, context)
        if reading.empty:
            return pb.ListMemoriesResponse(reason=reading.reason)
        if reading.user.may_be_sealed:
            filters = await for_a_list(reading.scope, filters, moment, reading.opener, reading.ask)
        order = {"order_by": order_by, **page.bounds}
        if moment is None:
            listed = await reading.answer(memories.page(reading.scope, filters, **order))
            found = await reading.answer(memories.by_ids(reading.scope, listed.ids))
        else:
            listed = await reading.answer(past.page(reading.scope, moment, filters, **order))
            found = await reading.answer(past.whole(reading.scope, moment, listed.ids))
        found = await reading.opener.whole(found)
        return await in_thread_if_long(
            _work_of(found), _list_reply, found, page.seal(listed.following), listed.total
        )

    def _wanted(self, checks: Checks, request: pb.GetContextRequest) -> ContextRequest:
        def most(name: str, default: int, maximum: int = MAX_LIMIT) -> int:
            given = getattr(request, name) if request.HasField(name) else None  # type: ignore[arg-type]
            return checks.optional_limit(name, given, default=default, maximum=maximum)

        moment = read_moment(checks, request)
        kinds = read_kinds(checks, request.scopes) or _CONTEXT_KINDS
        template = checks.one_of("template", request.template, _TEMPLATES) or "about_the_user"
        custom = checks.text("custom_template", request.custom_template, max_bytes=64 * 1024)
        if template != "custom":
            if custom:
                checks.add("custom_template", "is used with PROMPT_TEMPLATE_CUSTOM only")
        elif (why := check_custom_template(custom)) is not None:
            checks.add("custom_template", why)
        conversations = most("max_conversations", 5)
        relevant = most("max_relevant", self._defaults.max_relevant)
        max_tokens = most("max_tokens", self._defaults.max_tokens, 1_000_000)
        question = Question(
            text=checks.text("query", request.query, max_bytes=MAX_QUERY_BYTES),
            limit=relevant,
            filters=_ALL_MEMORIES if with_doubtful(request) else _CERTAIN_MEMORIES,
            reference_time=reference_time(checks, request),
            ranking=BALANCED,
            kinds=_searched(kinds, relevant, conversations),
            passages=_ALL_PASSAGES
            if moment is None
            else PassageFilters(created_before=until(moment, None), stored_by=moment.known_at),
            moment=moment,
            conversations=conversations,
            further=0 if request.HasField("max_relevant") else _further(max_tokens),
            for_a_prompt=True,
            min_relevance=min_relevance(checks, request),
        )
        return ContextRequest(
            question=question,
            conversation_id=checks.identifier(
                "conversation_id", request.conversation_id, required=False
            )
            or None,
            max_memories=most("max_memories", 20),
            max_conversations=conversations,
            max_entities=most("max_entities", 10),
            max_tokens=max_tokens,
            newest_first=checks.one_of("memory_order", request.memory_order, _ORDERS) == "recent",
            template=template,
            custom_template=custom if template == "custom" else "",
            annotate=request.include_provenance,
            line_dates=request.line_dates if request.HasField("line_dates") else None,
        )


def _searched(kinds: Sequence[Kind], relevant: int, conversations: int) -> Sequence[Kind]:
    """The search for a context's query; sections that are left out are not searched."""
    if relevant:
        return kinds
    return ["summary"] if conversations and "summary" in kinds else []


def _further(max_tokens: int) -> int:
    """How many results after those of the list can fit in a block."""
    return min(max_tokens // _LINE_TOKENS, _MOST_FURTHER)


def _list_reply(found: Sequence[Memory], token: str, total: int) -> pb.ListMemoriesResponse:
    reply: Fields = {
        "memories": [memory_fields(memory) for memory in found],
        "next_page_token": token,
        "total_size": total,
    }
    return pb.ListMemoriesResponse(**reply)


def _work_of(items: Sequence[Item]) -> int:
    """Approximate bytes to be written on the wire, of which free-form JSON may be most."""
    unwritten = [item for item in items if not written(item)]
    free = sum(
        bool(item.metadata) + bool(item.context) for item in unwritten if isinstance(item, Memory)
    )
    return _BYTES_OF_AN_ITEM * len(unwritten) + _BYTES_OF_JSON * free


def _counts_access(request: pb.GetContextRequest | pb.SearchMemoriesRequest) -> bool:
    """Whether the memories of the reply were read for an answer, not only looked at."""
    return request.count_access or not request.HasField("count_access")


def _memories_in(found: UserContext) -> list[UUID]:
    if not (found.previous or found.found.hits):
        return [memory.memory_id for memory in found.memories]
    items = [*found.memories, *(item.item for item in found.previous)]
    items += [hit.item for hit in found.found.hits]
    returned = dict.fromkeys(_memories_of(items))
    if found.found.further:
        # Of the results that serve only the block, only those in it count as returned.
        returned.update(dict.fromkeys(found.block.memory_ids))
    return list(returned)


def _memories_of(items: Iterable[Item]) -> list[UUID]:
    """The ids of those that are memories, of which a search finds none twice."""
    return [item.memory_id for item in items if isinstance(item, Memory)]
