"""The steps of the sweep on a user's rows, a bounded number at a time.

Each runs in a transaction that holds the user's row, with the role hitherto_removal, and returns
the number of rows that it changed. With encryption off, it looks only at what belongs to memories
that are sealed already.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from uuid import UUID

from hitherto_extraction.pipeline.message_removal import reindex
from hitherto_extraction.storage import (
    keyword_index,
    reindexing,
    removal,
    sealed_memories,
    sealing,
    told_words,
    users,
)
from hitherto_extraction.storage.corpora import index
from hitherto_extraction.storage.corpora.corpus import SpokenCorpus
from hitherto_extraction.storage.corpora.messages import MESSAGES
from hitherto_extraction.storage.corpora.summaries import SUMMARIES
from hitherto_extraction.storage.sealing import Rows
from hitherto_shared.database.user_rows import UserRows

_ROWS = 100
_AT_ONCE = {"conversation_summaries": 20}


class RowsBusy(Exception):
    """Rows are in use at this moment; the step is repeated later."""


Step = Callable[[UserRows], Awaitable[int]]


async def seal_table(user: UserRows, table: str, *, limit: int = _ROWS) -> int:
    """Seal rows of a table that stand in clear, and take their words out of the indexes."""
    rows = await sealing.find_clear(user, table, limit=limit)
    if rows and table in _BEFORE:
        rows = await _BEFORE[table](user, rows)
    if rows:
        await sealing.seal(user, table, rows)
    if rows and table == "messages":
        await _forget_words(user, rows)
    return len(rows)


async def _number_anew(user: UserRows, rows: Rows) -> Rows:
    """Lock memories, and give each a new number in the keyword index.

    Under the old number its words belong to nothing, and are swept.
    """
    locked = set(await _lock(user, [row["memory_id"] for row in rows]))
    rows = [row for row in rows if row["memory_id"] in locked]
    terms = sum(row["lexical_length"] for row in rows)
    before = await keyword_index.reserve_numbers(user, texts=len(rows), documents=0, terms=-terms)
    return [
        {**row, "lexical_no": number, "lexical_length": 0}
        for number, row in enumerate(rows, before + 1)
    ]


async def _unindex(corpus: SpokenCorpus, user: UserRows, rows: Rows) -> Rows:
    # A summary has no number: it leaves the index whatever the version of its words.
    keys = [(row["conversation_id"], row.get("message_no", 0)) for row in rows]
    await index.drop(user, corpus, keys)
    return rows


_BEFORE: dict[str, Callable[[UserRows, Rows], Awaitable[Rows]]] = {
    "memories": _number_anew,
    "messages": partial(_unindex, MESSAGES),
    "conversation_summaries": partial(_unindex, SUMMARIES),
}
"""What is done with rows while they are in clear; returns those to be sealed."""


async def _forget_words(user: UserRows, messages: Rows) -> None:
    """Remove the words of messages from what the index of memories holds of them."""
    said = [(row["conversation_id"], row["message_id"]) for row in messages]
    learnt = await sealing.learnt_from(user, said)
    await removal.delete_source_vectors(user, learnt)
    await reindex(user, learnt, sweep=False)


async def move_vectors(user: UserRows) -> int:
    """Move the vectors of sealed memories to where only the key opens them."""
    locked = await _lock(user, await sealing.with_clear_vectors(user, limit=_ROWS))
    for memory_id in locked:
        found = await sealed_memories.clear_vectors(user, memory_id)
        for model, vector, text_version in found:
            await sealed_memories.write_vector(
                user, memory_id, vector, model=model, text_version=text_version
            )
    if locked:
        await removal.delete_vectors(user, locked)
    return len(locked)


async def forget_mentions(user: UserRows) -> int:
    """Remove the mentions of sealed memories."""
    found = await sealing.with_mentions(user, limit=_ROWS)
    if found:
        await removal.forget_mentions(user, found)
    return len(found)


STEPS: Sequence[Step] = (
    *(
        partial(seal_table, table=table, limit=_AT_ONCE.get(table, _ROWS))
        for table in sealing.CLEAR
    ),
    move_vectors,
    forget_mentions,
    partial(told_words.drop_told_words, limit=_ROWS),
)


async def clean(user: UserRows) -> None:
    """Delete the rest of words and vectors, once no step finds anything."""
    await reindexing.sweep_postings(user)
    await removal.drop_unused_tags(user)
    await sealing.delete_summary_vectors(user)


async def clean_quotes(user: UserRows) -> None:
    """Delete what may quote messages, of a user with encryption on."""
    if (await users.encryption_of(user)).on:
        await removal.delete_source_vectors(user)
        await removal.drop_excerpts(user)


async def _lock(user: UserRows, found: list[UUID]) -> list[UUID]:
    """Those of the memories that could be locked."""
    if not found:
        return []
    locked = await removal.lock_memories(user, found)
    if not locked:
        raise RowsBusy
    return locked
