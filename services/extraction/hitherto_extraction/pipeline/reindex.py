"""Rebuilds the keyword index entries of memories from their content and remaining source words."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from hitherto_extraction.pipeline.evidence import MAX_SOURCE_TEXT
from hitherto_extraction.pipeline.indexing import terms_of
from hitherto_extraction.storage import removal
from hitherto_shared.database.pool import Connection
from hitherto_shared.models import Scope


async def reindex(
    connection: Connection, scope: Scope, memory_ids: Sequence[UUID], *, sweep: bool = True
) -> int:
    """Index memories again, and remove the words they had before; returns how many were indexed.

    Without `sweep` those remain, under numbers that nothing has, until the next sweep.

    Runs with the role hitherto_removal, in the transaction that holds the user's row. A memory that
    never was in the index stays out of it.
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
