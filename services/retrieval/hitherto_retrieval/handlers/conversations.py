"""The RPCs about conversations: lists, one with its messages, and suggested questions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from hitherto.v1 import conversation_pb2
from hitherto.v1 import retrieval_service_pb2 as pb
from hitherto_retrieval.handlers.incoming import MAX_LIMIT
from hitherto_retrieval.handlers.reading import ReadCalls, UserChecks
from hitherto_retrieval.storage import conversations
from hitherto_retrieval.storage.conversations import SPARE
from hitherto_retrieval.storage.statement import Statement
from hitherto_retrieval.suggestions import CONVERSATIONS, recent_topics, suggest
from hitherto_shared.convert import OUTCOME, message_message, summary_message
from hitherto_shared.errors import NotFound, not_found
from hitherto_shared.models import Message, Scope, Summary
from hitherto_shared.rpc.call import Context as CallContext
from hitherto_shared.rpc.call import current_call


class ConversationCalls(ReadCalls):
    """Implements them."""

    _learns_after: timedelta
    """How long a conversation is silent before its messages are read."""

    async def ListConversations(
        self, request: pb.ListConversationsRequest, context: CallContext
    ) -> pb.ListConversationsResponse:
        """A user's conversations in short, the last active first."""
        checks = UserChecks(request)
        outcomes = checks.all_of("outcomes", request.outcomes, OUTCOME)
        created_after = checks.moment("created_after", request, "created_after")
        created_before = checks.moment("created_before", request, "created_before")
        page = self._pages.open(checks, current_call().principal.tenant_id, request)
        reading = await self._begin(checks, request, context)
        if reading.empty:
            return pb.ListConversationsResponse(reason=reading.reason)
        listed = conversations.page(
            reading.scope,
            outcomes=outcomes,
            created_after=created_after,
            created_before=created_before,
            with_sealed=await reading.may_show_sealed(),
            **page.bounds,
        )
        waiting = conversations.pending(reading.scope)
        await reading.ask(listed, waiting)
        found, following, total = listed.answer
        found = await reading.opener.whole(found)
        return pb.ListConversationsResponse(
            conversations=[
                summary_message(self._with_pending(summary, waiting.answer)) for summary in found
            ],
            next_page_token=page.seal(following),
            total_size=total,
        )

    def _with_pending(
        self, summary: Summary, waiting: Mapping[str, tuple[int, datetime]]
    ) -> Summary:
        """A summary with the messages that no job has read, where there are any."""
        if summary.conversation_id not in waiting:
            return summary
        count, last = waiting[summary.conversation_id]
        return replace(summary, pending_messages=count, learns_at=last + self._learns_after)

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
        found = conversations.by_conversations(reading.scope, [conversation_id], with_unread=True)
        said = _messages(reading.scope, conversation_id, before=before, limit=limit)
        await reading.ask(found, said)
        if not found.answer or reading.empty:
            raise not_found("conversation", conversation_id)
        if said.answer is None:
            raise NotFound(
                "this conversation has no such message",
                reason="MESSAGE_NOT_FOUND",
                metadata={"conversation_id": conversation_id, "message_id": before},
            )
        return pb.GetConversationResponse(
            summary=summary_message(await reading.opener.one(found.answer[0])),
            messages=[
                message_message(await reading.opener.one(message)) for message in said.answer
            ],
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
        with_sealed = await reading.may_show_sealed()
        found, _, _ = await reading.answer(
            conversations.page(reading.scope, with_sealed=with_sealed, after=None, limit=limit)
        )
        found = await reading.opener.whole(found)
        ids = [summary.conversation_id for summary in found]
        messages = {}
        if request.include_messages and ids:
            messages = await reading.answer(
                conversations.last_messages(
                    reading.scope, ids, limit=most, most_bytes=conversations.MOST_BYTES
                )
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
        recent = conversations.recent(
            reading.scope, first=None, limit=CONVERSATIONS + SPARE, with_sealed=with_sealed
        )
        await reading.ask(recent)
        found = (await reading.opener.whole(recent.answer))[:CONVERSATIONS]
        return pb.GetSuggestionsResponse(
            suggestions=suggest(found, limit),
            recent_topics=recent_topics(found),
            recent_conversations=[summary_message(summary) for summary in found],
        )


def _messages(
    scope: Scope, conversation_id: str, *, before: str, limit: int
) -> Statement[list[Message] | None]:
    """The last messages of a conversation, or the last ones before one of them."""
    if before:
        return conversations.messages_before(scope, conversation_id, before=before, limit=limit)
    last = conversations.last_messages(scope, [conversation_id], limit=limit)
    return last.meaning(lambda found: found.get(conversation_id, []))
