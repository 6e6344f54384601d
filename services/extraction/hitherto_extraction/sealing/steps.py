"""What the sweep does to a user's rows, some at a time.

Each step works in the transaction of a caller who holds the user's row, on the role
hitherto_removal, and tells how many rows it changed: 0 once there is nothing left for it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from uuid import UUID

from hitherto_extraction.pipeline.conversation_summary import unindex_summary
from hitherto_extraction.pipeline.failed_attempts import UnusableReplies, seal_with_user_key
from hitherto_extraction.pipeline.passages import drop_messages
from hitherto_extraction.pipeline.reindex import reindex
from hitherto_extraction.storage import (
    keyword_index,
    removal,
    sealed_memories,
    sealing,
    sealing_messages,
    statements,
    summary_index,
)
from hitherto_extraction.storage.sealing_profiles import seal_standing_profile
from hitherto_shared.database.pool import Connection
from hitherto_shared.encryption.sealed import UserKey
from hitherto_shared.models import Scope
from hitherto_shared.sealing import BrokenToken

logger = logging.getLogger("hitherto.sealing")

_ROWS = 100
_SUMMARIES = 20


class Busy(Exception):
    """Rows are in use by others at this moment; they are looked for again later."""


@dataclass(frozen=True, slots=True)
class SealingTarget:
    """Whose rows are sealed, with what.

    Attributes:
        scope: The user.
        key: Their key.
        replies: Opens what the installation sealed by itself.
    """

    scope: Scope
    key: UserKey
    replies: UnusableReplies


Step = Callable[[Connection, SealingTarget], Awaitable[int]]


async def seal_memories(connection: Connection, standing: SealingTarget) -> int:
    """Seal sensitive memories, and move their vectors to where only the key opens them."""
    scope = standing.scope
    found = await sealing.clear_memories(connection, scope, limit=_ROWS)
    if not found:
        return 0
    locked = await removal.lock_memories(connection, scope, found)
    if not locked:
        raise Busy
    terms = await sealing.count_terms_of(connection, scope, locked)
    before = await keyword_index.reserve_numbers(
        connection, scope, texts=len(locked), documents=0, terms=-terms
    )
    numbers = {memory_id: number for number, memory_id in enumerate(locked, before + 1)}
    await sealing.seal_memories(connection, scope, standing.key, numbers)
    await _move_vectors(connection, standing, locked)
    return len(locked)


async def move_vectors(connection: Connection, standing: SealingTarget) -> int:
    """Move vectors of memories that were sealed by whoever may not remove vectors."""
    found = await sealing.with_clear_vectors(connection, standing.scope, limit=_ROWS)
    if not found:
        return 0
    locked = await removal.lock_memories(connection, standing.scope, found)
    if not locked:
        raise Busy
    return await _move_vectors(connection, standing, locked)


async def seal_versions(connection: Connection, standing: SealingTarget) -> int:
    """Seal the earlier versions of sealed memories."""
    return await sealing.seal_versions(connection, standing.scope, standing.key, limit=_ROWS)


async def seal_statements(connection: Connection, standing: SealingTarget) -> int:
    """Seal what sources said of sealed memories."""
    return await statements.seal(
        connection, standing.scope, standing.key, beside=False, limit=_ROWS
    )


async def seal_every_statement(connection: Connection, standing: SealingTarget) -> int:
    """Seal what sources said of sealed memories, of the profile and in summaries."""
    return await statements.seal(connection, standing.scope, standing.key, beside=True, limit=_ROWS)


async def forget_mentions(connection: Connection, standing: SealingTarget) -> int:
    """Let sealed memories mention nothing."""
    found = await sealing.with_mentions(connection, standing.scope, limit=_ROWS)
    if found:
        await removal.forget_mentions(connection, standing.scope, found)
    return len(found)


async def empty_history(connection: Connection, standing: SealingTarget) -> int:
    """Take the words of sealed memories out of the history."""
    return await sealing.empty_history(connection, standing.scope, limit=_ROWS)


async def seal_messages(connection: Connection, standing: SealingTarget) -> int:
    """Seal messages, and take their words out of every index, the memories' too."""
    scope = standing.scope
    found = await sealing_messages.clear_messages(connection, scope, limit=_ROWS)
    if not found:
        return 0
    await drop_messages(connection, scope, [message.key for message in found])
    await sealing_messages.seal_messages(connection, scope, standing.key, found)
    learnt = await sealing_messages.learnt_from(connection, scope, found)
    await sealing_messages.delete_source_vectors(connection, scope, learnt)
    await reindex(connection, scope, learnt, sweep=False)
    return len(found)


async def seal_summaries(connection: Connection, standing: SealingTarget) -> int:
    """Seal summaries, and take them out of the indexes."""
    scope = standing.scope
    found = await sealing_messages.clear_summaries(connection, scope, limit=_SUMMARIES)
    for each in found:
        await unindex_summary(connection, scope, each.conversation_id)
        await summary_index.delete_vectors(connection, scope, each.conversation_id)
    await sealing_messages.seal_summaries(connection, scope, standing.key, found)
    return len(found)


async def seal_replies(connection: Connection, standing: SealingTarget) -> int:
    """Seal unusable replies with the user's key instead of the installation's."""
    scope = standing.scope
    found = await sealing_messages.clear_replies(connection, scope, limit=_ROWS)
    for each in found:
        sealed = None
        try:
            reply = standing.replies.open(scope, each.job_id, each.sealed)
            sealed = seal_with_user_key(standing.key, each.job_id, each.claim_no, reply)
        except BrokenToken:
            # The secret it was sealed under is no longer this installation's: it is of no use.
            logger.warning("a reply that nobody can open any more is dropped")
        await sealing_messages.seal_reply(connection, scope, each, sealed)
    return len(found)


async def seal_profile(connection: Connection, standing: SealingTarget) -> int:
    """Seal the profile, its versions and what history tells of it."""
    return await seal_standing_profile(connection, standing.scope, standing.key, limit=_ROWS)


async def drop_words(connection: Connection, scope: Scope) -> None:
    """Remove what the steps have left of words: postings, and tags that nothing has."""
    await removal.sweep_postings(connection, scope)
    await removal.drop_unused_tags(connection, scope)


async def drop_names_and_vectors(connection: Connection, scope: Scope) -> None:
    """Remove entities that nothing mentions, and vectors of summaries that are sealed."""
    await sealing.drop_unmentioned(connection, scope)
    await sealing_messages.delete_summary_vectors(connection, scope)


async def drop_quotations(connection: Connection, scope: Scope) -> None:
    """Remove what may quote messages: vectors of their words, excerpts of a model."""
    await sealing_messages.delete_source_vectors(connection, scope, None)
    await sealing.drop_excerpts(connection, scope)


Cleaning = Callable[[Connection, Scope], Awaitable[None]]

CLEANING: tuple[Cleaning, ...] = (drop_words, drop_names_and_vectors)
"""What remains to be done once no step finds anything."""

CLEANING_OF_ENCRYPTING: tuple[Cleaning, ...] = (drop_quotations,)
"""The same, of a user who encrypts."""

OF_SEALED: tuple[Step, ...] = (
    move_vectors,
    seal_versions,
    seal_statements,
    forget_mentions,
    empty_history,
)
"""About memories that are sealed already, also of a user who has stopped to encrypt."""

OF_ENCRYPTING: tuple[Step, ...] = (
    seal_memories,
    seal_messages,
    seal_summaries,
    seal_replies,
    seal_profile,
    seal_every_statement,
)
"""About all that a user who encrypts has in clear."""


async def _move_vectors(
    connection: Connection, standing: SealingTarget, memory_ids: list[UUID]
) -> int:
    scope, key = standing.scope, standing.key
    for memory_id in memory_ids:
        found = await sealed_memories.clear_vectors(connection, scope, memory_id)
        for model, vector, text_version in found:
            await sealed_memories.write_vector(
                connection, scope, key, memory_id, vector, model=model, text_version=text_version
            )
    await removal.delete_vectors(connection, scope, memory_ids)
    return len(memory_ids)
