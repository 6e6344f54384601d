"""Removes messages of a user with every word of them, from the indexes and from memories too.

The role is hitherto_removal, in the transaction of a caller that holds the user's row.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from hitherto_extraction.pipeline.evidence import MAX_SOURCE_TEXT
from hitherto_extraction.pipeline.indexing import terms_of
from hitherto_extraction.queue import cancelling
from hitherto_extraction.queue.jobs import announce
from hitherto_extraction.storage import removal
from hitherto_extraction.storage.corpora import index
from hitherto_extraction.storage.corpora.messages import MESSAGES
from hitherto_extraction.storage.retention import HeldMessage
from hitherto_shared.database.pool import Connection
from hitherto_shared.models import Scope


async def remove_messages(
    connection: Connection, scope: Scope, messages: Sequence[HeldMessage]
) -> int:
    """Delete messages; returns how many memories were indexed again, without their words.

    Jobs that read the messages begin again without them. The caller also holds the conversations.
    """
    keys = [message.key for message in messages]
    await index.drop(connection, scope, MESSAGES, keys)
    readers = await cancelling.take_back(connection, scope, keys)
    learnt = await removal.remove_messages(connection, scope, messages, readers)
    await announce(connection, "queued")
    return await reindex(connection, scope, learnt)


async def reindex(
    connection: Connection, scope: Scope, memory_ids: Sequence[UUID], *, sweep: bool = True
) -> int:
    """Index memories again, and remove the words they had before; returns how many were indexed.

    Without `sweep` those remain, under numbers that nothing has, until the next sweep. A memory
    that never was in the index stays out of it.
    """
    indexed = [
        memory
        for memory in await removal.read_indexed(connection, scope, memory_ids)
        if memory.lexical_length
    ]
    texts = {
        memory.memory_id: terms_of(
            memory.content,
            memory.source_text[:MAX_SOURCE_TEXT],
            memory.keywords,
            memory.questions,
        )
        for memory in indexed
    }
    if texts:
        growth = sum(terms.total() for terms in texts.values())
        await removal.index_anew(
            connection,
            scope,
            texts,
            growth=growth - sum(memory.lexical_length for memory in indexed),
            sweep=sweep,
        )
    return len(texts)
