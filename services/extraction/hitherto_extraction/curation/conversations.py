"""Deletes a conversation (F7): its text is gone for good, memories learnt from it stay."""

from __future__ import annotations

from hitherto_extraction.pipeline.conversation_summary import drop_summary
from hitherto_extraction.pipeline.message_removal import remove_messages
from hitherto_extraction.queue import cancelling
from hitherto_extraction.storage import conversation_removal, conversations, users
from hitherto_shared import metrics
from hitherto_shared.database.pool import Connection
from hitherto_shared.errors import NotFound
from hitherto_shared.models import Scope


async def delete_conversation(
    connection: Connection, scope: Scope, conversation_id: str
) -> dict[str, int]:
    """Delete a conversation with its messages and summary; returns the number of rows by name.

    Memories learnt from it stay, without its text and without its name. Its unfinished jobs are
    cancelled; none of them can be run again. The role is hitherto_removal.

    Raises:
        NotFound: The user has no such conversation.
        WrongState: The user was erased.
    """
    await users.enter_user(connection, scope)
    await users.lock_user(connection, scope)
    counters = await conversations.lock_conversation(connection, scope, conversation_id)
    if counters is None:
        raise NotFound(
            "this user has no such conversation",
            reason="CONVERSATION_NOT_FOUND",
            metadata={"conversation_id": conversation_id},
        )
    cancelled = await cancelling.cancel_of_conversation(connection, scope, conversation_id)
    messages = await conversation_removal.find_messages(connection, scope, conversation_id)
    await remove_messages(connection, scope, messages)
    kept = await conversation_removal.clear_name(connection, scope, conversation_id)
    summaries = await drop_summary(connection, scope, conversation_id)
    await conversation_removal.remove(connection, scope, conversation_id)
    connection.once_committed(metrics.ERASURES.labels("conversation").inc)
    return {
        "messages": len(messages),
        "summaries": summaries,
        "jobs_cancelled": cancelled,
        "memories_kept": kept,
    }
