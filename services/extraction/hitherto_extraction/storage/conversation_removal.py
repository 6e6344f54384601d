"""Deletes one conversation: its rows and every reference to its name.

The role is hitherto_removal; the caller holds the user's and the conversation's row.
"""

from __future__ import annotations

from hitherto_extraction.storage import statements
from hitherto_extraction.storage.retention import HeldMessage
from hitherto_shared.database.user_rows import UserRows

_MESSAGES = """
SELECT conversation_id, message_no, message_id
FROM messages
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND conversation_id = %(conversation_id)s
ORDER BY message_no DESC
LIMIT %(limit)s
"""

_DROP_SOURCES = """
DELETE FROM memory_sources
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND md5(conversation_id) = md5(%(conversation_id)s) AND conversation_id = %(conversation_id)s
RETURNING memory_id
"""

_CLEAR = """
UPDATE memories SET conversation_id = NULL
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND conversation_id = %(conversation_id)s
RETURNING memory_id
"""

_DROP_FEEDBACK = """
DELETE FROM feedback
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND conversation_id = %(conversation_id)s
"""

# The session of a conversation has its name.
_DROP_SESSION = """
DELETE FROM session_contexts
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND session_id = %(conversation_id)s
"""

_DROP_ACTIONS = """
DELETE FROM pending_actions
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND session_id = %(conversation_id)s
"""

_DROP_RECENT = """
UPDATE recent_items
SET items = coalesce((SELECT jsonb_agg(i.item ORDER BY i.place)
                      FROM jsonb_array_elements(items) WITH ORDINALITY AS i (item, place)
                      WHERE i.item ->> 'id' <> %(conversation_id)s), '[]')
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""

_DROP = """
DELETE FROM conversations
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND conversation_id = %(conversation_id)s
"""


async def find_messages(
    user: UserRows, conversation_id: str, *, limit: int | None = None
) -> list[HeldMessage]:
    """The newest messages of the conversation, or all of them."""
    return await user.fetch(HeldMessage, _MESSAGES, conversation_id=conversation_id, limit=limit)


async def clear_name(user: UserRows, conversation_id: str) -> int:
    """Remove the conversation's name from memories; returns the number of memories."""
    await statements.forget_conversation(user, conversation_id)
    named = set(await user.fetch_values(_DROP_SOURCES, conversation_id=conversation_id))
    return len(named | set(await user.fetch_values(_CLEAR, conversation_id=conversation_id)))


async def remove(user: UserRows, conversation_id: str) -> None:
    """Delete the rest of the conversation once its messages and its summary are gone."""
    for statement in (_DROP_FEEDBACK, _DROP_SESSION, _DROP_ACTIONS, _DROP_RECENT, _DROP):
        await user.execute(statement, conversation_id=conversation_id)
