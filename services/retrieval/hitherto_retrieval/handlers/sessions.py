"""GetSession: working memory."""

from __future__ import annotations

from hitherto.v1 import retrieval_service_pb2 as pb
from hitherto_retrieval.handlers.reading import ReadCalls, UserChecks
from hitherto_retrieval.storage import people, working_memory
from hitherto_shared.convert import (
    context_items,
    pending_action_message,
    preference_message,
    struct,
)
from hitherto_shared.rpc.call import Context as CallContext


class SessionCalls(ReadCalls):
    """Implements it."""

    async def GetSession(
        self, request: pb.GetSessionRequest, context: CallContext
    ) -> pb.GetSessionResponse:
        """The present contents of a session."""
        checks = UserChecks(request)
        session_id = checks.identifier("session_id", request.session_id)
        opened = await self._open(checks, request, context)
        user = people.user(opened.scope)
        held = working_memory.context(opened.scope, session_id)
        recent = working_memory.recent_items(opened.scope)
        actions = working_memory.open_actions(opened.scope, session_id)
        preferences = people.preferences(opened.scope)
        await opened.ask(user, held, recent, actions, preferences)
        reading = self._reading(opened, user.answer)
        if reading.empty:
            return pb.GetSessionResponse(reason=reading.reason)
        return pb.GetSessionResponse(
            context=struct(held.answer),
            preferences=[preference_message(preference) for preference in preferences.answer],
            recent_items=context_items(recent.answer),
            pending_actions=[pending_action_message(action) for action in actions.answer],
        )
