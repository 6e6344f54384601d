"""Reads whole messages by their numbers, with the messages around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from hitherto_retrieval.storage.statement import Rows, Statement
from hitherto_shared.database.arrays import Integers, Texts
from hitherto_shared.models import Message, Scope

# Only messages of users and assistants count as neighbours, not tool output.
_BY_KEYS = """
SELECT k.place, m.message_no = k.message_no, k.message_no,
       m.conversation_id, m.message_id, m.role, m.name, m.content, m.said_at, m.context_items,
       m.pending_action_ids, m.metadata, m.sealed
FROM unnest(%(conversation_ids)s::text[], %(message_nos)s::int[]) WITH ORDINALITY
    AS k (conversation_id, message_no, place)
CROSS JOIN LATERAL (
    (SELECT g.message_no FROM messages AS g
     WHERE g.tenant_id = %(tenant_id)s AND g.user_id = %(user_id)s
       AND g.conversation_id = k.conversation_id AND g.message_no < k.message_no
       AND g.role IN ('user', 'assistant')
       AND (%(said_before)s::timestamptz IS NULL OR g.said_at < %(said_before)s)
       AND (%(stored_by)s::timestamptz IS NULL OR g.accepted_at <= %(stored_by)s)
     ORDER BY g.message_no DESC
     LIMIT %(excerpt)s)
    UNION ALL
    SELECT k.message_no
    UNION ALL
    (SELECT g.message_no FROM messages AS g
     WHERE g.tenant_id = %(tenant_id)s AND g.user_id = %(user_id)s
       AND g.conversation_id = k.conversation_id AND g.message_no > k.message_no
       AND g.role IN ('user', 'assistant')
       AND (%(said_before)s::timestamptz IS NULL OR g.said_at < %(said_before)s)
       AND (%(stored_by)s::timestamptz IS NULL OR g.accepted_at <= %(stored_by)s)
     ORDER BY g.message_no
     LIMIT %(excerpt)s)
) AS near
JOIN messages AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
     AND m.conversation_id = k.conversation_id AND m.message_no = near.message_no
     AND (%(said_before)s::timestamptz IS NULL OR m.said_at < %(said_before)s)
     AND (%(stored_by)s::timestamptz IS NULL OR m.accepted_at <= %(stored_by)s)
ORDER BY k.place, m.message_no
"""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A message and the messages around it.

    Attributes:
        key: Conversation id and number of the message.
        message: The message itself.
        messages: The message and those around it, in the order in which they were said.
    """

    key: tuple[str, int]
    message: Message
    messages: Sequence[Message]


def by_keys(
    scope: Scope,
    keys: Sequence[tuple[str, int]],
    *,
    excerpt: int = 0,
    said_before: datetime | None = None,
    stored_by: datetime | None = None,
) -> Statement[list[Excerpt]]:
    """Messages in the order of their keys; keys that do not belong to the user are left out.

    Args:
        scope: The user.
        keys: Conversation id and number of each.
        excerpt: Maximum number of user and assistant messages before, and after, each message.
        said_before: Only messages said before this time.
        stored_by: Only messages stored at this time or before.
    """
    return Statement(
        _BY_KEYS,
        scope.bind(
            conversation_ids=Texts(conversation_id for conversation_id, _ in keys),
            message_nos=Integers(message_no for _, message_no in keys),
            excerpt=excerpt,
            said_before=said_before,
            stored_by=stored_by,
        ),
        _excerpts,
    )


def _excerpts(rows: Rows) -> list[Excerpt]:
    around: dict[int, list[Message]] = {}
    asked_for: dict[int, tuple[int, Message]] = {}
    for place, itself, message_no, *columns in rows:
        message = Message(*columns)
        around.setdefault(place, []).append(message)
        if itself:
            asked_for[place] = message_no, message
    return [
        Excerpt((message.conversation_id, message_no), message, around[place])
        for place, (message_no, message) in asked_for.items()
    ]
