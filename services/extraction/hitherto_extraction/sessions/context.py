"""The context of a session and recent items: replaced, renewed, and cut to size."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hitherto_extraction.storage import sessions, users
from hitherto_shared.database.pool import Connection
from hitherto_shared.models import Scope

LAST_RESPONSE_CHARACTERS = 500
ENTITIES_MENTIONED = 5

_JOINER = "\u200d"
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_FLAG_LETTERS = range(0x1F1E6, 0x1F200)
_TAGS = range(0xE0020, 0xE0080)
"""They turn a black flag into that of a part of a country."""


@dataclass(frozen=True, slots=True)
class SessionRules:
    """Lifetimes of working memory in seconds, and whether memory is on by default."""

    context_seconds: int
    recent_seconds: int
    memory_enabled: bool


@dataclass(frozen=True, slots=True)
class SessionUpdate:
    """The new working memory of a session; None changes nothing."""

    context: Mapping[str, Any] | None
    recent_items: Sequence[Mapping[str, Any]] | None


@dataclass(frozen=True, slots=True)
class SessionState:
    """The state of a session in the reply of UpdateSession."""

    session_id: str
    context: Mapping[str, Any]
    recent_items: Sequence[Mapping[str, Any]]


async def update_session(
    connection: Connection,
    scope: Scope,
    session_id: str,
    update: SessionUpdate,
    rules: SessionRules,
) -> SessionState:
    """Replace what `update` gives, and extend the session's lifetime.

    Raises:
        WrongState: Memory is switched off for the user, or the user was erased.
    """
    await admit(connection, scope, memory_enabled=rules.memory_enabled)
    if update.context is None:
        await sessions.renew_context(connection, scope, session_id, seconds=rules.context_seconds)
    else:
        await sessions.write_context(
            connection, scope, session_id, bounded(update.context), seconds=rules.context_seconds
        )
    if update.recent_items is not None:
        await sessions.write_recent(
            connection, scope, update.recent_items, seconds=rules.recent_seconds
        )
    return await read_session(connection, scope, session_id)


async def read_session(connection: Connection, scope: Scope, session_id: str) -> SessionState:
    """The present state of a session."""
    return SessionState(
        session_id,
        await sessions.read_context(connection, scope, session_id),
        await sessions.read_recent(connection, scope),
    )


def bounded(context: Mapping[str, Any]) -> dict[str, Any]:
    """The context with its known keys cut to size.

    Assistants submit their last answers; if a long one is kept only in part, that is no reason to
    refuse it.
    """
    found = dict(context)
    response = found.get("last_response")
    if isinstance(response, str):
        found["last_response"] = beginning(response, LAST_RESPONSE_CHARACTERS)
    entities = found.get("entities_mentioned")
    if isinstance(entities, list):
        found["entities_mentioned"] = entities[:ENTITIES_MENTIONED]
    return found


def beginning(text: str, characters: int) -> str:
    """The beginning of a text, cut between graphemes.

    A letter stays with its marks, an emoji with what it is joined to, a flag whole.
    """
    end = characters
    while 0 < end < len(text) and _belongs_together(text, end):
        end -= 1
    # A text of combining marks alone has no place to cut it.
    return text[: end or characters]


def _belongs_together(text: str, place: int) -> bool:
    """Whether the characters on both sides of `place` form one grapheme."""
    before, after = text[place - 1], text[place]
    if ord(after) in _FLAG_LETTERS:
        letters = 0
        while letters < place and ord(text[place - 1 - letters]) in _FLAG_LETTERS:
            letters += 1
        return letters % 2 == 1
    return (
        _JOINER in (before, after)
        or unicodedata.category(after) in ("Mn", "Mc", "Me")
        or ord(after) in _SKIN_TONES
        or ord(after) in _TAGS
    )


async def admit(connection: Connection, scope: Scope, *, memory_enabled: bool) -> None:
    """Prevent an erasure of the user until the caller's transaction ends.

    The user's row is shared with other writers: working memory changes no memory and no profile, so
    an answer never waits for the writes of an extraction. `memory_enabled` applies to users who did
    not choose.

    Raises:
        WrongState: Memory is switched off for the user, or the user was erased.
    """
    state = await users.enter_user(connection, scope)
    if state.why_not_learning(memory_enabled) == "MEMORY_DISABLED":
        raise users.memory_disabled(scope, "nothing was stored")
