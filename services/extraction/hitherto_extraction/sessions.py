"""Working memory (F3): the context of a session, recent items and pending actions.

Nothing here learns. The contents of a session serve the next answers and expire within hours; to
keep something permanently, submit the conversation or save a memory.

Actions wait for the user's decision:

    PENDING_CONFIRMATION ──► CONFIRMED ──► COMPLETED
            │                    └───────► REJECTED
            └──────────────► COMPLETED, REJECTED

An action without a timely transition is EXPIRED, whatever its state. Each transition happens once:
of two concurrent decisions, the second fails.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hitherto_extraction.storage import sessions, users
from hitherto_extraction.storage.sessions import Proposal
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.errors import Conflict, NotFound, WrongState
from hitherto_shared.models import PendingAction
from hitherto_shared.text.graphemes import beginning

LAST_RESPONSE_CHARACTERS = 500
ENTITIES_MENTIONED = 5

_NEXT: Mapping[str, tuple[str, ...]] = {
    "pending_confirmation": ("confirmed", "completed", "rejected"),
    "confirmed": ("completed", "rejected"),
}
DECISIONS = _NEXT["pending_confirmation"]
"""The possible resolutions of an action."""

_TRIES = 8


@dataclass(frozen=True, slots=True)
class SessionRules:
    """Lifetimes of working memory in seconds, and whether memory is on by default."""

    context_seconds: int
    recent_seconds: int
    memory_enabled: bool


@dataclass(frozen=True, slots=True)
class SessionState:
    """The state of a session in the reply of UpdateSession."""

    session_id: str
    context: Mapping[str, Any]
    recent_items: Sequence[Mapping[str, Any]]


async def update_session(
    user: UserRows,
    session_id: str,
    context: Mapping[str, Any] | None,
    recent_items: Sequence[Mapping[str, Any]] | None,
    rules: SessionRules,
) -> SessionState:
    """Replace what is not None, and extend the session's lifetime; see `admit`."""
    await admit(user, memory_enabled=rules.memory_enabled)
    if context is None:
        await sessions.renew_context(user, session_id, seconds=rules.context_seconds)
    else:
        await sessions.write_context(
            user, session_id, bounded(context), seconds=rules.context_seconds
        )
    if recent_items is not None:
        await sessions.write_recent(user, recent_items, seconds=rules.recent_seconds)
    return await read_session(user, session_id)


async def read_session(user: UserRows, session_id: str) -> SessionState:
    """The present state of a session."""
    return SessionState(
        session_id, await sessions.read_context(user, session_id), await sessions.read_recent(user)
    )


def bounded(context: Mapping[str, Any]) -> dict[str, Any]:
    """The context with its known keys cut to size: a long last answer is no reason to refuse it."""
    found = dict(context)
    response = found.get("last_response")
    if isinstance(response, str):
        found["last_response"] = beginning(response, LAST_RESPONSE_CHARACTERS)
    entities = found.get("entities_mentioned")
    if isinstance(entities, list):
        found["entities_mentioned"] = entities[:ENTITIES_MENTIONED]
    return found


async def admit(user: UserRows, *, memory_enabled: bool) -> None:
    """Prevent an erasure of the user until the caller's transaction ends.

    The user's row is shared with other writers: working memory changes no memory and no profile, so
    an answer never waits for the writes of an extraction. `memory_enabled` applies to users who did
    not choose.

    Raises:
        WrongState: Memory is switched off for the user, or the user was erased.
    """
    state = await users.enter_user(user)
    if users.why_not_storing(state, memory_enabled):
        raise users.memory_disabled(user.scope, "nothing was stored")


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on an action; empty `session_id`: in any session."""

    session_id: str
    action_id: str
    state: str
    result: Mapping[str, Any] | None


async def add_action(user: UserRows, proposal: Proposal, *, memory_enabled: bool) -> PendingAction:
    """Add an action that waits for the user's decision; see `admit` for who may not."""
    await admit(user, memory_enabled=memory_enabled)
    for _ in range(_TRIES):
        action_id = f"act_{secrets.token_hex(4)}"
        added = await sessions.add_action(user, action_id, proposal)
        if added is not None:
            return added
    raise Conflict(
        "no free id was found for the action; retry the call",
        reason="WRITE_CONFLICT",
        retry_after=1.0,
    )


async def resolve_action(
    user: UserRows, decision: Decision, *, memory_enabled: bool
) -> PendingAction:
    """Confirm, complete or reject an action.

    Raises:
        NotFound: The user has no such action, or it is another session's.
        WrongState: The action is final or in that state already, memory is switched off for the
            user, or the user was erased.
    """
    await admit(user, memory_enabled=memory_enabled)
    action = await sessions.lock_action(user, decision.action_id)
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
        user, decision.action_id, state=decision.state, result=decision.result
    )


async def read_action(user: UserRows, action_id: str) -> PendingAction:
    """The present state of an action, if it still exists."""
    action = await sessions.read_action(user, action_id)
    if action is None:
        raise _unknown(action_id)
    return action


def _unknown(action_id: str) -> NotFound:
    return NotFound(
        "this user has no such action in that session",
        reason="PENDING_ACTION_NOT_FOUND",
        metadata={"pending_action_id": action_id},
    )
