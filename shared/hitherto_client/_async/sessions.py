"""Working memory: the context of a session, and actions that wait for the user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from hitherto_client._async.calling import AsyncCalling, rpc
from hitherto_client.results.conversations import (
    AddedAction,
    ContextItem,
    PendingAction,
    Session,
    UpdatedSession,
)


class AsyncSessions(AsyncCalling):
    """What serves the next answers, lives for minutes or hours, and is never learnt from."""

    @rpc("GetSession")
    async def get_session(
        self, user: str, session_id: str, *, timeout: float | None = None
    ) -> Session:
        """The working memory of a session; an unknown or expired session reads as empty."""

    @rpc("UpdateSession")
    async def update_session(
        self,
        user: str,
        session_id: str = "",
        *,
        context: Mapping[str, Any] | None = None,
        recent_items: Iterable[ContextItem] = (),
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> UpdatedSession:
        """Replace the context or the recent items of a session, and renew its lifetime.

        Args:
            user: The user whose session it is.
            session_id: The session, by convention the conversation's id. Unset: a new one.
            context: The new context; an empty one clears it. None: it stays as it is.
            recent_items: The user's recent items. Empty: the list stays as it is.
            idempotency_key: Unset: a new one for each call.
            timeout: Seconds, retries included. Unset: 30.
        """

    @rpc("AddPendingAction")
    async def add_pending_action(
        self,
        user: str,
        type: str,
        *,
        session_id: str = "",
        params: Mapping[str, Any] | None = None,
        description: str = "",
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> AddedAction:
        """Add an action that waits for the user's confirmation, for 24 hours.

        Args:
            user: Whose action.
            type: The kind of action, such as `send_email`.
            session_id: The session. Unset: a new one.
            params: Its parameters, as free JSON.
            description: What the user is asked to confirm.
            idempotency_key: Unset: a new one for each call.
            timeout: Seconds, retries included. Unset: 30.
        """

    @rpc("ResolvePendingAction", "pending_action")
    async def resolve_pending_action(
        self,
        user: str,
        pending_action_id: str,
        status: Literal["confirmed", "completed", "rejected"],
        *,
        session_id: str = "",
        result: Mapping[str, Any] | None = None,
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> PendingAction:
        """Confirm, complete or reject an action; each transition happens once.

        Args:
            user: Whose action.
            pending_action_id: Which one.
            status: Its new state.
            session_id: If set, it must be the action's session.
            result: The outcome, as free JSON. Unset: an earlier one stays.
            idempotency_key: Unset: a new one for each call.
            timeout: Seconds, retries included. Unset: 30.

        Raises:
            HithertoCallError: It does not exist (`PENDING_ACTION_NOT_FOUND`), or is final or in
                that state already (`PENDING_ACTION_CONFLICT`).
        """
