"""The steps of the sweep on a user's rows, a bounded number at a time.

Each step runs in the transaction of a caller that holds the user's row, with the role
hitherto_removal, and returns how many rows it changed: 0 once nothing is left.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from uuid import UUID

from hitherto_extraction.pipeline.failed_attempts import UnusableReplies, seal_with_user_key
from hitherto_extraction.pipeline.message_removal import reindex
from hitherto_extraction.storage import (
    keyword_index,
    reindexing,
    removal,
    sealed_memories,
    sealing,
    statements,
    told_words,
    unusable_replies,
)
from hitherto_extraction.storage.corpora import index
from hitherto_extraction.storage.corpora.corpus import SpokenCorpus
from hitherto_extraction.storage.corpora.messages import MESSAGES
from hitherto_extraction.storage.corpora.summaries import SUMMARIES
from hitherto_extraction.storage.sealed_rows import Rows, seal_rows
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.encryption.at_hand import key_at_hand
from hitherto_shared.sealing import BrokenToken

logger = logging.getLogger("hitherto.sealing")

_ROWS = 100
_SUMMARIES = 20


class RowsBusy(Exception):
    """Rows are in use at this moment; the step is repeated later."""


Step = Callable[[UserRows], Awaitable[int]]


async def seal_memories(user: UserRows) -> int:
    """Seal sensitive memories, and move their vectors to where only the key opens them."""
    locked = await _lock(user, await sealing.clear_memories(user, limit=_ROWS))
    if not locked:
        return 0
    terms = await sealing.count_terms_of(user, locked)
    before = await keyword_index.reserve_numbers(user, texts=len(locked), documents=0, terms=-terms)
    numbers = {memory_id: number for number, memory_id in enumerate(locked, before + 1)}
    await sealing.seal_memories(user, numbers)
    await _move_vectors(user, locked)
    return len(locked)


async def move_vectors(user: UserRows) -> int:
    """Move vectors of memories that were sealed with a role that may not delete vectors."""
    found = await sealing.with_clear_vectors(user, limit=_ROWS)
    return await _move_vectors(user, await _lock(user, found))


async def forget_mentions(user: UserRows) -> int:
    """Remove the mentions of sealed memories."""
    found = await sealing.with_mentions(user, limit=_ROWS)
    if found:
        await removal.forget_mentions(user, found)
    return len(found)


async def seal_passages(user: UserRows, corpus: SpokenCorpus, *, limit: int) -> Rows:
    """Seal texts of a corpus, and remove them from its indexes with every word and vector.

    Returns their rows as they were.
    """
    return await seal_rows(
        user,
        corpus.row,
        corpus.clear,
        corpus.seal,
        before=lambda rows: index.drop(user, corpus, [(row["id"], row["number"]) for row in rows]),
        limit=limit,
    )


async def seal_messages(user: UserRows) -> int:
    """Seal messages, and remove their words from every index, including that of memories."""
    found = await seal_passages(user, MESSAGES, limit=_ROWS)
    if found:
        learnt = await sealing.learnt_from(
            user, [(row["conversation_id"], row["message_id"]) for row in found]
        )
        await removal.delete_source_vectors(user, learnt)
        await reindex(user, learnt, sweep=False)
    return len(found)


async def seal_summaries(user: UserRows) -> int:
    """Seal summaries, and remove them from the indexes."""
    return len(await seal_passages(user, SUMMARIES, limit=_SUMMARIES))


async def seal_replies(replies: UnusableReplies, user: UserRows) -> int:
    """Seal unusable `replies` with the user's key instead of the installation's."""
    key = key_at_hand(user.scope)
    found = await unusable_replies.clear_replies(user, limit=_ROWS)
    for each in found:
        sealed = None
        try:
            reply = replies.open(user.scope, each.job_id, each.sealed)
            sealed = seal_with_user_key(key, each.job_id, each.claim_no, reply)
        except BrokenToken:
            # The secret it was sealed with is no longer this installation's: it is of no use.
            logger.warning("dropped an unusable reply whose key is gone")
        await unusable_replies.seal_reply(user, each, sealed)
    return len(found)


Cleaning = Callable[[UserRows], Awaitable[object]]

CLEANING: tuple[Cleaning, ...] = (
    reindexing.sweep_postings,
    removal.drop_unused_tags,
    sealing.delete_summary_vectors,
)
"""What deletes the rest of words and vectors once no step finds anything."""

CLEANING_OF_ENCRYPTING: tuple[Cleaning, ...] = (
    removal.delete_source_vectors,
    removal.drop_excerpts,
)
"""The same for possible quotes of messages, for a user with encryption on."""

OF_SEALED: tuple[Step, ...] = (
    move_vectors,
    partial(sealing.seal_versions, limit=_ROWS),
    partial(statements.seal, beside=False, limit=_ROWS),
    forget_mentions,
    partial(told_words.drop_told_words, all_of_them=False),
    partial(sealing.empty_history, limit=_ROWS),
)
"""Steps on memories that are sealed already, even if the user has turned encryption off."""


def of_encrypting(replies: UnusableReplies) -> tuple[Step, ...]:
    """Steps on everything that a user with encryption on has in clear.

    Args:
        replies: Opens replies sealed with the installation's secret.
    """
    return (
        seal_memories,
        seal_messages,
        seal_summaries,
        partial(seal_replies, replies),
        partial(sealing.seal_profile, limit=_ROWS),
        partial(statements.seal, beside=True, limit=_ROWS),
        partial(told_words.drop_told_words, all_of_them=True),
    )


async def _lock(user: UserRows, found: list[UUID]) -> list[UUID]:
    """Those of the memories that could be locked.

    Raises:
        RowsBusy: There are some, and none could be.
    """
    if not found:
        return []
    locked = await removal.lock_memories(user, found)
    if not locked:
        raise RowsBusy
    return locked


async def _move_vectors(user: UserRows, memory_ids: list[UUID]) -> int:
    if not memory_ids:
        return 0
    for memory_id in memory_ids:
        found = await sealed_memories.clear_vectors(user, memory_id)
        for model, vector, text_version in found:
            await sealed_memories.write_vector(
                user, memory_id, vector, model=model, text_version=text_version
            )
    await removal.delete_vectors(user, memory_ids)
    return len(memory_ids)
