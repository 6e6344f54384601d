"""The RPCs about conversations: lists, one with its messages, and suggested questions."""

from __future__ import annotations

from dataclasses import replace

from hitherto.v1 import conversation_pb2
from hitherto.v1 import retrieval_service_pb2 as pb
from hitherto_retrieval.handlers.incoming import MAX_LIMIT
from hitherto_retrieval.handlers.reading import ReadCalls, UserChecks
from hitherto_retrieval.storage import conversations
from hitherto_retrieval.storage.conversations import ConversationFilters
from hitherto_retrieval.suggestions import CONVERSATIONS, recent_topics, suggest
from hitherto_shared.convert import OUTCOME, message_message, summary_message
from hitherto_shared.database.pool import Connection
from hitherto_shared.errors import NotFound, no_such
from hitherto_shared.models import Message, Scope
from hitherto_shared.rpc.call import Context as CallContext
from hitherto_shared.rpc.call import current_call


class ConversationCalls(ReadCalls):
    """Implements them."""

    async def ListConversations(
        self, request: pb.ListConversationsRequest, context: CallContext
    ) -> pb.ListConversationsResponse:
        """A user's conversations in short, the last active first."""
        checks = UserChecks(request)
        wanted = ConversationFilters(
            outcomes=checks.all_of("outcomes", request.outcomes, OUTCOME),
            created_after=checks.moment("created_after", request, "created_after"),
            created_before=checks.moment("created_before", request, "created_before"),
        )
        page = self._pages.open(checks, current_call().principal.tenant_id, request)
        reading = await self._begin(checks, request, context)
        if reading.empty:
            return pb.ListConversationsResponse(reason=reading.reason)
        wanted = replace(wanted, with_sealed=await reading.may_show_sealed())
        found, following, total = await reading.run(
            lambda c: conversations.page(c, reading.scope, wanted, **page.bounds)
        )
        found = await reading.opener.whole(found)
        return pb.ListConversationsResponse(
            conversations=[summary_message(summary) for summary in found],
            next_page_token=page.seal(following),
            total_size=total,
        )

    async def GetConversation(
        self, request: pb.GetConversationRequest, context: CallContext
    ) -> pb.GetConversationResponse:
        """One conversation with its last messages, or with those before a message."""
        checks = UserChecks(request)
        conversation_id = checks.identifier("conversation_id", request.conversation_id)
        limit = checks.limit("message_limit", request.message_limit, default=10, maximum=MAX_LIMIT)
        before = checks.identifier("before_message_id", request.before_message_id, required=False)
        reading = await self._begin(checks, request, context)
        if reading.disabled:
            return pb.GetConversationResponse(reason=reading.reason)
        found = await reading.answer(
            conversations.by_conversations(reading.scope, [conversation_id], with_unread=True)
        )
        if not found or reading.empty:
            raise no_such("conversation", "CONVERSATION_NOT_FOUND", conversation_id=conversation_id)
        said = await reading.run(
            lambda c: _messages(c, reading.scope, conversation_id, before=before, limit=limit)
        )
        return pb.GetConversationResponse(
            summary=summary_message(await reading.opener.one(found[0])),
            messages=[message_message(await reading.opener.one(message)) for message in said],
        )

    async def GetRecentConversations(
        self, request: pb.GetRecentConversationsRequest, context: CallContext
    ) -> pb.GetRecentConversationsResponse:
        """The last active conversations, with their last messages if requested."""
        checks = UserChecks(request)
        limit = checks.limit("limit", request.limit, default=5, maximum=MAX_LIMIT)
        most = checks.limit("message_limit", request.message_limit, default=20, maximum=MAX_LIMIT)
        reading = await self._begin(checks, request, context)
        if reading.empty:
            return pb.GetRecentConversationsResponse(reason=reading.reason)
        wanted = ConversationFilters(with_sealed=await reading.may_show_sealed())
        found, _, _ = await reading.run(
            lambda c: conversations.page(c, reading.scope, wanted, after=None, limit=limit)
        )
        found = await reading.opener.whole(found)
        ids = [summary.conversation_id for summary in found]
        messages = {}
        if request.include_messages and ids:
            messages = await reading.run(
                lambda c: conversations.last_messages(c, reading.scope, ids, limit=most)
            )
        messages = {
            conversation_id: await reading.opener.whole(said)
            for conversation_id, said in messages.items()
        }
        return pb.GetRecentConversationsResponse(
            conversations=[
                conversation_pb2.Conversation(
                    summary=summary_message(summary),
                    messages=[
                        message_message(message)
                        for message in messages.get(summary.conversation_id, [])
                    ],
                )
                for summary in found
            ]
        )

    async def GetSuggestions(
        self, request: pb.GetSuggestionsRequest, context: CallContext
    ) -> pb.GetSuggestionsResponse:
        """Suggestions for the user's next question."""
        checks = UserChecks(request)
        limit = checks.limit("limit", request.limit, default=3, maximum=MAX_LIMIT)
        reading = await self._begin(checks, request, context)
        if reading.empty:
            return pb.GetSuggestionsResponse(reason=reading.reason)
        with_sealed = await reading.may_show_sealed()
        found = await reading.answer(
            conversations.recent(
                reading.scope, first=None, limit=CONVERSATIONS, with_sealed=with_sealed
            )
        )
        found = await reading.opener.whole(found)
        return pb.GetSuggestionsResponse(
            suggestions=suggest(found, limit),
            recent_topics=recent_topics(found),
            recent_conversations=[summary_message(summary) for summary in found],
        )


async def _messages(
    connection: Connection, scope: Scope, conversation_id: str, *, before: str, limit: int
) -> list[Message]:
    """The last messages of a conversation, or the last ones before one of them."""
    if not before:
        found = await conversations.last_messages(connection, scope, [conversation_id], limit=limit)
        return found.get(conversation_id, [])
    earlier = await conversations.messages_before(
        connection, scope, conversation_id, before=before, limit=limit
    )
    if earlier is None:
        raise NotFound(
            "this conversation has no such message",
            reason="MESSAGE_NOT_FOUND",
            metadata={"conversation_id": conversation_id, "message_id": before},
        )
    return earlier
