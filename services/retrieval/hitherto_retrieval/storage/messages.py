"""Reads whole messages by their numbers, and the numbers of those around them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from hitherto_retrieval.storage.candidate import MessageKey
from hitherto_retrieval.storage.statement import Rows, Statement
from hitherto_shared.database.arrays import Integers, Texts
from hitherto_shared.models import Message, Scope

MOST_BYTES = 32 * 1024 * 1024
"""Maximum bytes of all messages together that surround the results of one reply."""

_BY_KEYS = """
SELECT m.message_no,
       m.conversation_id, m.message_id, m.role, m.name, m.content, m.said_at, m.context_items,
       m.pending_action_ids, m.metadata, m.sealed
FROM unnest(%(conversation_ids)s::text[], %(message_nos)s::int[]) WITH ORDINALITY
    AS k (conversation_id, message_no, place)
JOIN messages AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
     AND m.conversation_id = k.conversation_id AND m.message_no = k.message_no
ORDER BY k.place
"""

# Only messages of users and assistants count as neighbours, not tool output.
_AROUND = """
SELECT k.conversation_id, k.message_no, m.message_no,
       octet_length(m.content) + octet_length(m.metadata::text)
           + octet_length(m.context_items::text) + coalesce(octet_length(m.sealed), 0)
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


def columns_of(keys: Sequence[MessageKey]) -> dict[str, list[str] | list[int]]:
    """The keys of messages as parameters of a statement."""
    return {
        "conversation_ids": Texts(conversation_id for conversation_id, _ in keys),
        "message_nos": Integers(message_no for _, message_no in keys),
    }


def by_keys(scope: Scope, keys: Sequence[MessageKey]) -> Statement[dict[MessageKey, Message]]:
    """Messages in the order of their keys; keys that do not belong to the user are left out."""
    return Statement(
        _BY_KEYS,
        scope.bind(**columns_of(keys)),
        lambda rows: {(row[1], row[0]): Message(*row[1:]) for row in rows},
    )


def around(
    scope: Scope,
    keys: Sequence[MessageKey],
    *,
    excerpt: int,
    said_before: datetime | None = None,
    stored_by: datetime | None = None,
) -> Statement[dict[MessageKey, dict[MessageKey, int]]]:
    """For each message, its key and the keys of those around it, in the order they were said.

    Each comes with its size in bytes. Messages that do not belong to the user, or are later than
    asked for, are left out.

    Args:
        scope: The user.
        keys: Conversation id and number of each.
        excerpt: Maximum number of user and assistant messages before, and after, each message.
        said_before: Only messages said before this time.
        stored_by: Only messages stored at this time or before.
    """

    def read(rows: Rows) -> dict[MessageKey, dict[MessageKey, int]]:
        found: dict[MessageKey, dict[MessageKey, int]] = {}
        for conversation_id, message_no, near, size in rows:
            found.setdefault((conversation_id, message_no), {})[conversation_id, near] = size
        return {key: near for key, near in found.items() if key in near}

    return Statement(
        _AROUND,
        scope.bind(
            **columns_of(keys), excerpt=excerpt, said_before=said_before, stored_by=stored_by
        ),
        read,
    )
