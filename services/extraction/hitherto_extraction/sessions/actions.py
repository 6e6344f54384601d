"""Actions that wait for the user's decision: added, confirmed, and ended.

    PENDING_CONFIRMATION ──► CONFIRMED ──► COMPLETED
            │                    └───────► REJECTED
            └──────────────► COMPLETED, REJECTED

An action without a timely transition is EXPIRED, whatever its state. Each transition happens once:
of two concurrent decisions, the second fails.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hitherto_extraction.sessions.context import admit
from hitherto_extraction.storage import sessions
from hitherto_extraction.storage.sessions import Proposal
from hitherto_shared.database.pool import Connection
from hitherto_shared.errors import Conflict, NotFound, WrongState
from hitherto_shared.models import PendingAction, Scope

_NEXT: Mapping[str, tuple[str, ...]] = {
    "pending_confirmation": ("confirmed", "completed", "rejected"),
    "confirmed": ("completed", "rejected"),
}
DECISIONS = _NEXT["pending_confirmation"]
"""The possible resolutions of an action."""

_TRIES = 8


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on an action; empty `session_id`: in any session."""

    session_id: str
    action_id: str
    state: str
    result: Mapping[str, Any] | None


async def add_action(
    connection: Connection, scope: Scope, proposal: Proposal, *, memory_enabled: bool
) -> PendingAction:
    """Add an action that waits for the user's decision.

    Raises:
        WrongState: Memory is switched off for the user, or the user was erased.
    """
    await admit(connection, scope, memory_enabled=memory_enabled)
    for _ in range(_TRIES):
        action_id = f"act_{secrets.token_hex(4)}"
        added = await sessions.add_action(connection, scope, action_id, proposal)
        if added is not None:
            return added
    raise Conflict(
        "no free id was found for the action; retry the call",
        reason="WRITE_CONFLICT",
        retry_after=1.0,
    )


async def resolve_action(
    connection: Connection, scope: Scope, decision: Decision, *, memory_enabled: bool
) -> PendingAction:
    """Confirm, complete or reject an action.

    Raises:
        NotFound: The user has no such action, or it is another session's.
        WrongState: The action is final or in that state already, memory is switched off for the
            user, or the user was erased.
    """
    await admit(connection, scope, memory_enabled=memory_enabled)
    action = await sessions.lock_action(connection, scope, decision.action_id)
    if action is None or decision.session_id not in ("", action.session_id):
        raise _unknown(decision.action_id)
    if decision.state not in _NEXT.get(action.state, ()):
        raise WrongState(
            f"the action is {action.state.upper()} already and cannot become "
            f"{decision.state.upper()}: read the session again, or add a new action",
            reason="PENDING_ACTION_CONFLICT",
            metadata={"pending_action_id": decision.action_id, "status": action.state.upper()},
        )
    return await sessions.move_action(
        connection, scope, decision.action_id, state=decision.state, result=decision.result
    )


async def read_action(connection: Connection, scope: Scope, action_id: str) -> PendingAction:
    """The present state of an action.

    Raises:
        NotFound: It no longer exists.
    """
    action = await sessions.read_action(connection, scope, action_id)
    if action is None:
        raise _unknown(action_id)
    return action


def _unknown(action_id: str) -> NotFound:
    return NotFound(
        "this user has no such action in that session",
        reason="PENDING_ACTION_NOT_FOUND",
        metadata={"pending_action_id": action_id},
    )
