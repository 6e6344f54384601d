"""Takes merges back: their originals are active again, and what was said since stays.

A merged memory that was updated, or said again in its own words, stands on that from then on, and
is named as what may replace its originals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from hitherto_extraction.consolidation.writing import (
    UNDONE,
    leave_alone,
    read_originals,
    undo_merge,
)
from hitherto_extraction.pipeline.dedupe import same_words
from hitherto_extraction.pipeline.resting_values import drop_resting_on
from hitherto_extraction.pipeline.selection import names_in
from hitherto_extraction.reconciliation.said_meanwhile import join_said_meanwhile, keep_forgotten
from hitherto_extraction.rollback.histories import Gone, read_histories
from hitherto_extraction.rollback.memories import Rebuilding
from hitherto_extraction.storage import (
    consolidation,
    memories,
    mentions,
    statements,
    superseded,
    users,
)
from hitherto_extraction.storage import rollback as storage
from hitherto_extraction.storage.statements import StoredStatement
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.models import CURRENT_STATUSES, Memory


@dataclass(frozen=True, slots=True)
class _SaidSince:
    """What a merged memory stands on without its merge, which the job `merged_by` made.

    Attributes:
        conversation_id: The first conversation that states it; None if only somebody's hand does.
        repeated: Statements about it that repeat an original, which has them too.
    """

    merged_by: UUID
    content: str
    detail: str
    conversation_id: str | None
    sealed: bool
    repeated: Sequence[UUID]


async def undo(user: UserRows, memory_id: UUID, *, actor: str) -> list[Memory]:
    """A call of UndoConsolidation, in its transaction; see `take_merge_back`.

    What somebody asked to forget since stays so.

    Raises:
        WrongState: The user was erased.
    """
    await users.enter_alone(user)
    begun = await users.database_now(user.connection)
    originals = await take_merge_back(user, memory_id, actor=actor, reason=UNDONE)
    names = [each.memory_id for each in originals]
    hidden = await keep_forgotten(user, names, since=begun)
    await join_said_meanwhile(user, set(names) - hidden)
    await leave_alone(user, names)
    return await read_originals(user, names)


async def take_merge_back(
    user: UserRows, memory_id: UUID, *, actor: str, reason: str, share: bool = False
) -> list[Memory]:
    """`undo_merge`, but what was said of it since stays. The role is hitherto_removal.

    Raises:
        NotFound: As `undo_merge`.
        WrongState: As `undo_merge`.
    """
    since = await _said_since(user, memory_id)
    originals = await undo_merge(
        user, memory_id, actor=actor, reason=reason, share=share, archive=since is None
    )
    if since is not None:
        await _leave(user, memory_id, since, originals, actor=actor, reason=reason)
    return originals


async def _said_since(user: UserRows, memory_id: UUID) -> _SaidSince | None:
    """What states a current memory besides the merge and its originals, if anything does."""
    history = (await read_histories(user, [memory_id])).get(memory_id)
    if history is None or history.held.memory.status not in CURRENT_STATUSES:
        return None
    first = history.versions[0]
    if first.job_id is None:
        return None
    said = await statements.of_memories(user, await superseded.standing_for(user, [memory_id]))
    del said[memory_id]
    parts = {_occasion(each) for every in said.values() for each in every if each.action == "said"}
    repeated = [each.statement_id for each in history.statements if _occasion(each) in parts]
    stated = [
        replace(each, taken=each.taken or each.statement_id in repeated)
        for each in history.statements
    ]
    history = replace(history, statements=stated, taken=frozenset({first.version}))
    gone = Gone()
    await gone.find_earlier(user, {memory_id: history})
    fields = gone.rebuilt(history)
    if fields is None or fields["status"] not in CURRENT_STATUSES:
        return None
    conversations = [
        each.conversation_id
        for each in stated
        if each.action in ("said", "updated") and each.said.get("content") and not each.taken
    ]
    return _SaidSince(
        merged_by=first.job_id,
        content=fields["content"],
        detail=fields["detail"],
        conversation_id=conversations[0] if conversations else None,
        sealed=history.held.sealed,
        repeated=repeated,
    )


def _occasion(said: StoredStatement) -> tuple[Any, ...]:
    """What two records of one statement have in common, each about a memory that it states."""
    words = said.said.get("content")
    return said.action, said.job_id, said.conversation_id, said.said_at, words


async def _leave(
    user: UserRows,
    memory_id: UUID,
    since: _SaidSince,
    originals: Sequence[Memory],
    *,
    actor: str,
    reason: str,
) -> None:
    """Let a merged memory be what was said since."""
    names = [each.memory_id for each in originals]
    await statements.take_back(user, since.repeated)
    unmentioned = await consolidation.disinherit(user, names, of=memory_id)
    rebuilding = Rebuilding(
        user,
        job_ids=[since.merged_by],
        stated={},
        messages=(),
        named=(),
        actor=actor,
        reason=reason,
    )
    await rebuilding.run([memory_id])
    await storage.move(user, {memory_id: since.conversation_id})
    if not since.sealed:
        named = await names_in(user, f"{since.content}\n{since.detail}")
        await mentions.mention(user, [(memory_id, each.name, each.type) for each in named])
    await mentions.recount(user, [memory_id], also=unmentioned)
    await drop_resting_on(user, rebuilding.changed, actor=actor)
    if any(same_words(each.content, since.content) for each in originals):
        # It says what that original says, and nothing about the others.
        return
    for each in originals:
        if each.status in CURRENT_STATUSES:
            await memories.add_may_replace(user, memory_id, each.memory_id)
