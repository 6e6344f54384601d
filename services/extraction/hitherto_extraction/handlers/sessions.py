"""SessionService: working memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.struct_pb2 import Struct

from hitherto.v1 import conversation_pb2, session_service_pb2_grpc
from hitherto.v1 import session_service_pb2 as pb
from hitherto_extraction.handlers.answering import Answering, checks_of
from hitherto_extraction.once import UserCall
from hitherto_extraction.sessions import (
    DECISIONS,
    Decision,
    SessionRules,
    add_action,
    read_action,
    read_session,
    resolve_action,
    update_session,
)
from hitherto_extraction.storage.sessions import Proposal
from hitherto_shared.convert import ACTION_STATE, context_items, pending_action_message, struct
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.identifiers import uuid7
from hitherto_shared.models import PendingAction
from hitherto_shared.rpc.call import Context
from hitherto_shared.validation import Checks

MAX_RECENT_ITEMS = 200
MAX_RELEVANCE = 1000
MAX_TYPE = 64
MAX_DESCRIPTION_BYTES = 16 * 1024


@dataclass(eq=False)
class SessionHandlers(session_service_pb2_grpc.SessionServiceServicer):
    """Implements SessionService with the role hitherto_write."""

    answering: Answering
    rules: SessionRules

    async def UpdateSession(
        self, request: pb.UpdateSessionRequest, context: Context
    ) -> pb.UpdateSessionResponse:
        """Replace the context or the recent items of a session."""
        sent, request = request, await self.answering.screened(request, context)
        checks, user_id = checks_of(request)
        session_id = _session_id(checks, request.session_id)
        given = _given(checks, "context", request, request.context)
        items = _recent_items(checks, request.recent_items)
        call = self.answering.admit(checks, user_id, sent)
        made, token = await self.answering.change_user(
            call,
            lambda user: update_session(user, session_id, given, items, self.rules),
            lambda user, ids: read_session(user, ids[0]),
            context,
            ids=lambda session: [session.session_id],
        )
        return pb.UpdateSessionResponse(
            session_id=made.session_id,
            context=struct(made.context),
            recent_items=context_items(made.recent_items),
            consistency_token=token,
        )

    async def AddPendingAction(
        self, request: pb.AddPendingActionRequest, context: Context
    ) -> pb.AddPendingActionResponse:
        """Add an action that waits for the user's decision."""
        sent, request = request, await self.answering.screened(request, context)
        checks, user_id = checks_of(request)
        proposal = Proposal(
            _session_id(checks, request.session_id),
            checks.identifier("type", request.type, max_chars=MAX_TYPE),
            checks.struct("params", request.params),
            checks.text("description", request.description, max_bytes=MAX_DESCRIPTION_BYTES),
        )
        call = self.answering.admit(checks, user_id, sent)

        async def change(user: UserRows) -> PendingAction:
            return await add_action(user, proposal, memory_enabled=self.rules.memory_enabled)

        made, token = await self._act(call, change, context)
        return pb.AddPendingActionResponse(
            pending_action=pending_action_message(made),
            session_id=made.session_id,
            consistency_token=token,
        )

    async def ResolvePendingAction(
        self, request: pb.ResolvePendingActionRequest, context: Context
    ) -> pb.ResolvePendingActionResponse:
        """Confirm, complete or reject an action."""
        sent, request = request, await self.answering.screened(request, context)
        checks, user_id = checks_of(request)
        decision = Decision(
            checks.identifier("session_id", request.session_id, required=False),
            checks.identifier("pending_action_id", request.pending_action_id),
            _decided(checks, request.status),
            _given(checks, "result", request, request.result),
        )
        call = self.answering.admit(checks, user_id, sent)

        async def change(user: UserRows) -> PendingAction:
            return await resolve_action(user, decision, memory_enabled=self.rules.memory_enabled)

        made, token = await self._act(call, change, context)
        return pb.ResolvePendingActionResponse(
            pending_action=pending_action_message(made), consistency_token=token
        )

    async def _act(
        self,
        call: UserCall,
        change: Callable[[UserRows], Awaitable[PendingAction]],
        context: Context,
    ) -> tuple[PendingAction, str]:
        """Change an action, once."""
        return await self.answering.change_user(
            call,
            change,
            lambda user, ids: read_action(user, ids[0]),
            context,
            ids=lambda action: [action.action_id],
        )


def _session_id(checks: Checks, given: str) -> str:
    """The session that the caller names, or a new one."""
    return checks.identifier("session_id", given, required=False) or str(uuid7())


def _given(checks: Checks, name: str, request: Any, value: Struct) -> dict[str, Any] | None:
    """Free-form JSON, or None if the field is unset."""
    return checks.struct(name, value) if request.HasField(name) else None


def _recent_items(
    checks: Checks, items: Sequence[conversation_pb2.ContextItem]
) -> list[dict[str, Any]] | None:
    """The recent items, each once; None if the list is unset."""
    if not items:
        return None
    if len(items) > MAX_RECENT_ITEMS:
        checks.add(
            "recent_items", f"must have at most {MAX_RECENT_ITEMS} items, this has {len(items)}"
        )
        return None
    found: dict[str, dict[str, Any]] = {}
    for i, item in enumerate(items):
        item_id = checks.identifier(f"recent_items[{i}].id", item.id)
        if not 0 <= item.relevance <= MAX_RELEVANCE:
            checks.add(
                f"recent_items[{i}].relevance", f"must be a number from 0 to {MAX_RELEVANCE}"
            )
        found.setdefault(item_id, {"id": item_id, "relevance": item.relevance})
    return list(found.values())


def _decided(checks: Checks, status: int) -> str:
    """The requested state of an action."""
    found = ACTION_STATE.get(status, "")
    if found not in DECISIONS:
        checks.add("status", "must be CONFIRMED, COMPLETED or REJECTED")
    return found
