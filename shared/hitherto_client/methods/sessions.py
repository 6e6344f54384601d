"""Working memory: contexts of sessions, and actions that wait for the user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf.struct_pb2 import Struct

from hitherto.v1 import conversation_pb2, session_pb2
from hitherto.v1 import retrieval_service_pb2 as retrieval_pb2
from hitherto.v1 import session_service_pb2 as pb
from hitherto_client.methods.stubs import Stubs

FreeJson = Struct | Mapping[str, Any]
"""A JSON object, as a Struct or as a dict of texts, numbers, booleans, None, lists and dicts."""


class Sessions(Stubs):
    """Calls about working memory."""

    def get_session(
        self,
        user_id: str,
        session_id: str,
        *,
        consistency_token: str = "",
        timeout: float | None = None,
    ) -> retrieval_pb2.GetSessionResponse:
        """The working memory of a session; an unknown or expired session reads as empty."""
        request = retrieval_pb2.GetSessionRequest(
            user_id=user_id, session_id=session_id, consistency_token=consistency_token
        )
        return self.retrieval.GetSession(request, timeout=timeout)

    def update_session(
        self,
        user_id: str,
        session_id: str = "",
        *,
        context: FreeJson | None = None,
        recent_items: Iterable[conversation_pb2.ContextItem] = (),
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> pb.UpdateSessionResponse:
        """Replace the context or the recent items of a session, and renew its lifetime.

        Args:
            user_id: The user whose session it is.
            session_id: The session. Unset: the reply names a new one.
            context: The new context; an empty one clears it. None: it stays as it is.
            recent_items: The user's recent items. Empty: the list stays as it is.
            idempotency_key: Unset: a new one.
            timeout: Seconds, retries included.
        """
        request = pb.UpdateSessionRequest(
            user_id=user_id,
            session_id=session_id,
            context=_struct(context),
            recent_items=recent_items,
            idempotency_key=idempotency_key,
        )
        return self.sessions.UpdateSession(request, timeout=timeout)

    def add_pending_action(
        self,
        user_id: str,
        type: str,
        *,
        session_id: str = "",
        params: FreeJson | None = None,
        description: str = "",
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> pb.AddPendingActionResponse:
        """Add an action that waits for the user's confirmation; without a session, create one."""
        request = pb.AddPendingActionRequest(
            user_id=user_id,
            session_id=session_id,
            type=type,
            params=_struct(params),
            description=description,
            idempotency_key=idempotency_key,
        )
        return self.sessions.AddPendingAction(request, timeout=timeout)

    def resolve_pending_action(
        self,
        user_id: str,
        pending_action_id: str,
        status: session_pb2.PendingActionState.ValueType,
        *,
        session_id: str = "",
        result: FreeJson | None = None,
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> pb.ResolvePendingActionResponse:
        """Make an action CONFIRMED, COMPLETED or REJECTED; each transition happens once."""
        request = pb.ResolvePendingActionRequest(
            user_id=user_id,
            session_id=session_id,
            pending_action_id=pending_action_id,
            status=status,
            result=_struct(result),
            idempotency_key=idempotency_key,
        )
        return self.sessions.ResolvePendingAction(request, timeout=timeout)


def _struct(value: FreeJson | None) -> Struct | None:
    if value is None or isinstance(value, Struct):
        return value
    found = Struct()
    found.update(dict(value))
    return found
