"""Conversations and their messages."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from hitherto_extraction.storage.sealed_rows import opened, sealing_key
from hitherto_shared.database.arrays import Integers, Texts, fields_of
from hitherto_shared.database.pool import Connection
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.encryption.rows import MESSAGE
from hitherto_shared.encryption.user_key import UserKey
from hitherto_shared.errors import not_found
from hitherto_shared.models import Scope
from hitherto_shared.offloading import in_thread_if_long

# Creates the conversation if it is new and locks its row either way: the next caller that accepts
# messages waits here, so that numbers follow the order of commits.
_OPEN = """
INSERT INTO conversations AS held (tenant_id, user_id, conversation_id, time_zone)
SELECT u.tenant_id, u.user_id, %(conversation_id)s,
       coalesce(%(time_zone)s, u.time_zone, c.time_zone, 'UTC')
FROM users AS u
LEFT JOIN conversations AS c ON c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s
     AND c.conversation_id = %(conversation_id)s
WHERE u.tenant_id = %(tenant_id)s AND u.user_id = %(user_id)s
ON CONFLICT (tenant_id, user_id, conversation_id) DO UPDATE
SET updated_at = EXCLUDED.updated_at, time_zone = EXCLUDED.time_zone
RETURNING held.last_message_no, held.watermark
"""

_LOCK = """
SELECT last_message_no, watermark
FROM conversations
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND conversation_id = %(conversation_id)s
FOR UPDATE
"""

_KNOWN = """
SELECT message_id, role, content, message_no, sealed
FROM messages
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND conversation_id = %(conversation_id)s
  AND md5(message_id) IN (SELECT md5(wanted) FROM unnest(%(message_ids)s::text[]) AS wanted)
  AND message_id = ANY(%(message_ids)s)
"""

_BESIDE_WORDS = 1_024
"""The work of a message with free-form JSON, or of one to seal, besides its text, in characters."""
_WORK_OF_A_MESSAGE = 64
"""That of any other message."""

_INSERT_MESSAGES = """
INSERT INTO messages (tenant_id, user_id, conversation_id, message_no, message_id, role, name,
                      content, said_at, context_items, pending_action_ids, metadata, sealed)
SELECT u.tenant_id, u.user_id, %(conversation_id)s, m.message_no, m.message_id, m.role, m.name,
       m.content, coalesce(m.said_at, u.at), m.context_items::jsonb,
       ARRAY(SELECT jsonb_array_elements_text(m.pending_action_ids::jsonb)), m.metadata::jsonb,
       m.sealed
FROM @its_user AS u
CROSS JOIN unnest(
    %(message_nos)s::int[], %(message_ids)s::text[], %(roles)s::text[], %(names)s::text[],
    %(contents)s::text[], %(said_ats)s::timestamptz[], %(context_items)s::text[],
    %(pending_action_ids)s::text[], %(metadatas)s::text[], %(sealed)s::bytea[])
     AS m (message_no, message_id, role, name, content, said_at, context_items,
           pending_action_ids, metadata, sealed)
"""

_ADVANCE = """
UPDATE conversations
SET ended_at = CASE WHEN %(ended)s THEN clock.at
                    WHEN last_message_no < %(last_message_no)s THEN NULL
                    ELSE ended_at END,
    last_message_no = %(last_message_no)s,
    watermark = coalesce(%(watermark)s, watermark),
    last_said_at = greatest(last_said_at,
        CASE WHEN last_message_no < %(last_message_no)s
             THEN coalesce(%(last_said_at)s, clock.at) END),
    updated_at = clock.at
FROM @clock AS clock
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND conversation_id = %(conversation_id)s
"""

_MOVE_WATERMARK = """
UPDATE conversations SET watermark = %(watermark)s
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND conversation_id = %(conversation_id)s
"""

# Messages of users and assistants count; tool output and system text do not.
_COUNT_PENDING = """
SELECT count(*)
FROM messages
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND conversation_id = %(conversation_id)s
  AND role IN ('user', 'assistant')
  AND message_no > (
      SELECT watermark FROM conversations
      WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
        AND conversation_id = %(conversation_id)s)
"""

_COUNT_MESSAGES = """
SELECT count(*)
FROM messages
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND conversation_id = %(conversation_id)s
"""

# What is dated in the future was said at most when it arrived: nothing could correct it before that
# date.
_READ_RANGE = """
SELECT message_no, message_id, role, name, content, least(said_at, accepted_at),
       lexical_no IS NOT NULL, sealed
FROM messages
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND conversation_id = %(conversation_id)s
  AND message_no BETWEEN %(range_from)s AND %(range_to)s
ORDER BY message_no
"""

_SOME_SEALED = """
SELECT EXISTS (SELECT FROM messages
               WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
                 AND conversation_id = %(conversation_id)s
                 AND message_no = ANY(%(message_nos)s) AND sealed IS NOT NULL)
"""

# The name of a sealed message is not known here.
_HAS_UNNAMED = """
SELECT EXISTS (SELECT FROM messages
               WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
                 AND conversation_id = %(conversation_id)s
                 AND role = 'user' AND lower(btrim(name)) IN ('', role) AND sealed IS NULL)
"""

# Across users: silent conversations with messages that no job owns and none waits for.
_IDLE = """
WITH waiting AS MATERIALIZED (
    SELECT tenant_id, user_id, conversation_id FROM jobs
    WHERE range_to IS NULL AND state IN ('queued', 'failed', 'running')
)
SELECT c.tenant_id, c.user_id, c.conversation_id
FROM conversations AS c
WHERE c.watermark < c.last_message_no
  AND c.updated_at < now() - make_interval(secs => %(idle_seconds)s)
  AND NOT EXISTS (
      SELECT FROM waiting AS j
      WHERE j.tenant_id = c.tenant_id AND j.user_id = c.user_id
        AND j.conversation_id = c.conversation_id)
  AND (c.tenant_id, c.user_id, c.conversation_id) NOT IN (
      SELECT * FROM unnest(%(tenants)s::text[], %(users)s::text[], %(conversations)s::text[]))
ORDER BY c.updated_at
LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of a conversation: its last message and the last one handed to a job."""

    last_message_no: int
    watermark: int


@dataclass(frozen=True, slots=True)
class IncomingMessage:
    """A message as accepted from a caller.

    `said_at` is None if the caller gave no time. `unredacted` is the content as it was sent, if it
    had secrets; it is stored only where it is sealed, for a user who wants that.
    """

    message_id: str
    role: str
    name: str
    content: str
    said_at: datetime | None
    context_items: Sequence[Mapping[str, Any]] = ()
    pending_action_ids: Sequence[str] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    unredacted: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as a job reads it; a `sealed` one must not be indexed."""

    message_no: int
    message_id: str
    role: str
    name: str
    content: str
    said_at: datetime
    indexed: bool = False
    sealed: bool = False


@dataclass(frozen=True, slots=True)
class KnownMessage:
    """The stored message with an id that a caller sends again."""

    role: str
    content: str
    message_no: int


async def open_conversation(
    user: UserRows, conversation_id: str, *, time_zone: str | None
) -> Counters:
    """Create a conversation if it is new, and lock it.

    Its time zone is `time_zone`, else the user's, else the one it had before, else UTC.
    """
    [counters] = await user.fetch(
        Counters, _OPEN, conversation_id=conversation_id, time_zone=time_zone
    )
    return counters


async def lock_conversation(user: UserRows, conversation_id: str) -> Counters | None:
    """Lock a conversation that exists, or return None."""
    return await user.fetch_one(Counters, _LOCK, conversation_id=conversation_id)


async def require_conversation(user: UserRows, conversation_id: str) -> Counters:
    """Lock a conversation.

    Raises:
        NotFound: The user has no such conversation.
    """
    counters = await lock_conversation(user, conversation_id)
    if counters is None:
        raise not_found("conversation", conversation_id)
    return counters


async def find_known(
    user: UserRows, conversation_id: str, message_ids: Sequence[str]
) -> dict[str, KnownMessage]:
    """The messages of the conversation that already carry one of these ids."""
    rows = await user.fetch_rows(
        _KNOWN, conversation_id=conversation_id, message_ids=Texts(message_ids)
    )
    known = {}
    for message_id, role, content, message_no, sealed in rows:
        said = content
        if sealed is not None:
            said = opened(user.scope, MESSAGE, sealed, conversation_id, message_id)["content"]
        known[message_id] = KnownMessage(role, said, message_no)
    return known


async def insert_messages(
    user: UserRows,
    conversation_id: str,
    messages: Sequence[IncomingMessage],
    *,
    first_no: int,
) -> None:
    """Store messages, numbered from `first_no` in order, sealed for a user with encryption on.

    Raises:
        KeyNeeded: The user has encryption on, and the key is not at hand.
    """
    key = await sealing_key(user)
    # Free-form JSON beside the text may be as long as the text.
    heavy = sum(bool(key or m.context_items or m.metadata) for m in messages)
    size = sum(len(m.content) for m in messages) + _BESIDE_WORDS * heavy
    size += _WORK_OF_A_MESSAGE * len(messages)
    columns = await in_thread_if_long(size, _columns, messages, conversation_id, first_no, key)
    await user.later(_INSERT_MESSAGES, conversation_id=conversation_id, **columns)


def _columns(
    messages: Sequence[IncomingMessage], conversation_id: str, first_no: int, key: UserKey | None
) -> dict[str, Any]:
    """Messages as the columns that `_INSERT_MESSAGES` turns into rows."""
    # Nothing at all stands for as many times nothing.
    sealed = None
    if key is not None:
        named = {"conversation_id": conversation_id}
        sealed = [MESSAGE.seal(key, named | fields_of(m)) for m in messages]
    clear = [replace(m, **MESSAGE.columns) for m in messages] if key is not None else messages
    return {
        "message_nos": Integers(range(first_no, first_no + len(messages))),
        "message_ids": Texts(m.message_id for m in messages),
        "roles": Texts(m.role for m in messages),
        "names": Texts(m.name for m in clear),
        "contents": Texts(m.content for m in clear),
        "said_ats": [m.said_at for m in messages],
        "context_items": Texts(_json_list(m.context_items) for m in clear),
        "pending_action_ids": Texts(_json_list(m.pending_action_ids) for m in messages),
        "metadatas": Texts(json.dumps(dict(m.metadata)) if m.metadata else "{}" for m in clear),
        "sealed": sealed,
    }


def _json_list(items: Sequence[Any]) -> str:
    """A list as JSON; most messages have nothing to list."""
    return json.dumps(list(items)) if items else "[]"


async def advance(
    user: UserRows,
    conversation_id: str,
    *,
    last_message_no: int,
    watermark: int | None,
    last_said_at: datetime | None,
    ended: bool,
) -> None:
    """Advance the counters; `watermark` None leaves it.

    New messages reopen a conversation that had ended, and change the time of the last one:
    `last_said_at`, or now if they carry none.
    """
    await user.later(
        _ADVANCE,
        conversation_id=conversation_id,
        last_message_no=last_message_no,
        watermark=watermark,
        last_said_at=last_said_at,
        ended=ended,
    )


async def move_watermark(user: UserRows, conversation_id: str, *, watermark: int) -> None:
    """Record up to where messages have been handed to jobs."""
    await user.later(_MOVE_WATERMARK, conversation_id=conversation_id, watermark=watermark)


async def count_pending(user: UserRows, conversation_id: str) -> int:
    """How many user and assistant messages no job owns yet."""
    return int(await user.fetch_value(_COUNT_PENDING, conversation_id=conversation_id) or 0)


async def count_messages(user: UserRows, conversation_id: str) -> int:
    """The number of stored messages of a conversation."""
    return int(await user.fetch_value(_COUNT_MESSAGES, conversation_id=conversation_id) or 0)


async def read_messages(
    user: UserRows, conversation_id: str, range_from: int, range_to: int
) -> list[StoredMessage]:
    """The messages of a range, in order."""
    rows = await user.fetch_rows(
        _READ_RANGE, conversation_id=conversation_id, range_from=range_from, range_to=range_to
    )
    found = []
    for *columns, sealed in rows:
        message = StoredMessage(*columns)
        if sealed is not None:
            words = opened(user.scope, MESSAGE, sealed, conversation_id, message.message_id)
            message = replace(message, name=words["name"], content=words["content"], sealed=True)
        found.append(message)
    return found


async def some_sealed(user: UserRows, conversation_id: str, message_nos: Sequence[int]) -> bool:
    """Whether any of these messages is sealed by now."""
    return bool(
        await user.fetch_value(
            _SOME_SEALED, conversation_id=conversation_id, message_nos=Integers(message_nos)
        )
    )


async def has_unnamed(user: UserRows, conversation_id: str) -> bool:
    """Whether somebody without a name speaks as the user in a conversation."""
    return bool(await user.fetch_value(_HAS_UNNAMED, conversation_id=conversation_id))


async def find_idle(
    connection: Connection,
    *,
    idle_seconds: float,
    limit: int,
    without: Collection[tuple[Scope, str]] = (),
) -> list[tuple[Scope, str]]:
    """Conversations, but those `without`, silent so long with messages that no job owns."""
    values = {
        "idle_seconds": idle_seconds,
        "limit": limit,
        "tenants": [scope.tenant_id for scope, _ in without],
        "users": [scope.user_id for scope, _ in without],
        "conversations": [conversation_id for _, conversation_id in without],
    }
    rows = await connection.fetch_rows(_IDLE, values)
    return [(Scope(*owner), conversation_id) for *owner, conversation_id in rows]
