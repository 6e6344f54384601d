"""Removes messages and conversations with every word of them, from indexes and memories too.

The role is hitherto_removal, in the transaction of a caller that holds the user's row.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from hitherto_extraction.pipeline.conversation_summary import drop_summary
from hitherto_extraction.pipeline.evidence import MAX_SOURCE_TEXT
from hitherto_extraction.pipeline.indexing import EARLIER_SOURCES, terms_left
from hitherto_extraction.queue import cancelling
from hitherto_extraction.queue.jobs import announce
from hitherto_extraction.storage import (
    conversation_removal,
    conversations,
    reindexing,
    removal,
    statements,
    users,
)
from hitherto_extraction.storage.corpora import index
from hitherto_extraction.storage.corpora.messages import MESSAGES
from hitherto_extraction.storage.retention import HeldMessage
from hitherto_shared import metrics
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.errors import not_found

MESSAGES_AT_ONCE = 200
"""Number of messages of a conversation that are deleted in one transaction."""


async def remove_messages(
    user: UserRows, messages: Sequence[HeldMessage], *, sweep: bool = True
) -> int:
    """Delete messages; returns how many memories were indexed again, without their words.

    Jobs that read them begin again. The caller also holds the conversations; see `reindex`.
    """
    keys = [message.key for message in messages]
    await index.drop(user, MESSAGES, keys)
    readers = await cancelling.take_back(user, keys)
    learnt = await removal.remove_messages(user, messages, readers)
    await announce(user.connection, "queued")
    return await reindex(user, learnt, sweep=sweep)


async def reindex(
    user: UserRows, memory_ids: Sequence[UUID], *, sweep: bool = True, new: bool = False
) -> int:
    """Index memories again, and remove the words they had before; returns how many were indexed.

    Without `sweep` those remain, under numbers that nothing has, until the next sweep. A memory
    that never was in the index stays out of it, unless `new`.
    """
    indexed = [
        memory
        for memory in await reindexing.read_indexed(
            user, memory_ids, newest=EARLIER_SOURCES, characters=MAX_SOURCE_TEXT
        )
        if memory.lexical_length or new
    ]
    texts = {memory.memory_id: terms_left(memory) for memory in indexed}
    if texts:
        growth = sum(terms.total() for terms in texts.values())
        await reindexing.index_anew(
            user,
            texts,
            growth=growth - sum(memory.lexical_length for memory in indexed),
            sweep=sweep,
        )
    return len(texts)


async def require_named(user: UserRows, conversation_id: str) -> None:
    """Lock a conversation, or find that at least something was said in its name.

    Memories saved by hand may name a conversation whose messages were never sent.

    Raises:
        NotFound: The user has no such conversation.
    """
    held = await conversations.lock_conversation(user, conversation_id)
    if held is None and not await statements.name_conversation(user, conversation_id):
        raise not_found("conversation", conversation_id)


async def remove_newest(user: UserRows, conversation_id: str) -> dict[str, int]:
    """Cancel the jobs of a long conversation and delete its newest messages; returns numbers.

    Nothing is learnt from the others if the rest of the deletion has to wait. Nothing is done if
    `delete_conversation` can do it at once. Words of memories are left to the next sweep.

    Raises:
        WrongState: The user was erased.
    """
    await users.enter_alone(user)
    held = await conversations.lock_conversation(user, conversation_id)
    newest = await conversation_removal.find_messages(
        user, conversation_id, limit=MESSAGES_AT_ONCE + 1
    )
    if held is None or len(newest) <= MESSAGES_AT_ONCE:
        return {}
    await conversations.move_watermark(user, conversation_id, watermark=held.last_message_no)
    cancelled = await cancelling.cancel_of_conversation(user, conversation_id)
    await remove_messages(user, newest[:MESSAGES_AT_ONCE], sweep=False)
    await reindexing.leave_to_sweep(user)
    return {"messages": MESSAGES_AT_ONCE, "jobs_cancelled": cancelled}


async def delete_conversation(
    user: UserRows, conversation_id: str, *, sweep: bool = True
) -> dict[str, int]:
    """Delete a conversation with its messages and summary; returns the number of rows by name.

    Memories learnt from it stay, without its text and without its name. Its unfinished jobs are
    cancelled; none of them can be run again. The role is hitherto_removal. A caller that deletes
    several passes `sweep` as for `reindex`.

    Raises:
        NotFound: The user has no such conversation.
        WrongState: The user was erased.
    """
    await users.enter_alone(user)
    await require_named(user, conversation_id)
    cancelled = await cancelling.cancel_of_conversation(user, conversation_id)
    messages = await conversation_removal.find_messages(user, conversation_id)
    await remove_messages(user, messages, sweep=sweep)
    await cancelling.disown(user, conversation_id)
    kept = await conversation_removal.clear_name(user, conversation_id)
    summaries = await drop_summary(user, conversation_id)
    await conversation_removal.remove(user, conversation_id)
    user.connection.once_committed(metrics.ERASURES.labels("conversation").inc)
    return {
        "messages": len(messages),
        "summaries": summaries,
        "jobs_cancelled": cancelled,
        "memories_kept": kept,
    }
