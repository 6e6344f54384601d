"""Takes merges back: their originals are active again, and what was said since stays.

A merged memory that was updated stands on its updates from then on, without the merge's own words
and what it had of its originals. It may replace them, because nobody has said that it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from hitherto_extraction.consolidation.writing import UNDONE, undo_merge
from hitherto_extraction.pipeline.resting_values import drop_resting_on
from hitherto_extraction.rollback.memories import Rebuilding
from hitherto_extraction.rollback.replay import replay
from hitherto_extraction.storage import (
    consolidation,
    editing,
    memories,
    mentions,
    statements,
    users,
)
from hitherto_extraction.storage import rollback as storage
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.models import CURRENT_STATUSES, Memory


async def undo(user: UserRows, memory_id: UUID, *, actor: str) -> list[Memory]:
    """A call of UndoConsolidation, in its transaction; see `take_merge_back`.

    Raises:
        WrongState: The user was erased.
    """
    await users.enter_alone(user)
    return await take_merge_back(user, memory_id, actor=actor, reason=UNDONE)


async def take_merge_back(
    user: UserRows, memory_id: UUID, *, actor: str, reason: str, share: bool = False
) -> list[Memory]:
    """`undo_merge` without what was said of the merged memory since. The role is hitherto_removal.

    Raises:
        NotFound: As `undo_merge`.
        WrongState: As `undo_merge`.
    """
    merged_by = await _if_updated(user, memory_id)
    originals = await undo_merge(
        user, memory_id, actor=actor, reason=reason, share=share, archive=merged_by is None
    )
    if merged_by is not None:
        await _leave_updates(user, memory_id, merged_by, originals, actor=actor, reason=reason)
    return originals


async def _if_updated(user: UserRows, memory_id: UUID) -> UUID | None:
    """The job that merged a current memory, if something besides the merge and originals states it.

    What was said again of an original states that one, too.
    """
    held = (await editing.read(user, [memory_id])).get(memory_id)
    if held is None or held.memory.status not in CURRENT_STATUSES:
        return None
    first, *later = (await storage.read_versions(user, [memory_id]))[memory_id]
    said = [
        replace(each, taken=True) if each.action == "said" else each
        for each in (await statements.of_memories(user, [memory_id]))[memory_id]
    ]
    skipped = (await storage.rolled_back(user, [memory_id]))[memory_id] | {first.version}
    return first.job_id if replay([first, *later], said, skipped=skipped) is not None else None


async def _leave_updates(
    user: UserRows,
    memory_id: UUID,
    merged_by: UUID,
    originals: Sequence[Memory],
    *,
    actor: str,
    reason: str,
) -> None:
    """Let a merged memory be what its updates say."""
    names = [each.memory_id for each in originals]
    unmentioned = await consolidation.disinherit(user, names, of=memory_id)
    rebuilding = Rebuilding(
        user,
        job_ids=[merged_by],
        stated={},
        messages=(),
        named=(),
        actor=actor,
        reason=reason,
    )
    await rebuilding.run([memory_id])
    await mentions.recount(user, [memory_id], also=unmentioned)
    await drop_resting_on(user, rebuilding.changed, actor=actor)
    for each in originals:
        if each.status in CURRENT_STATUSES:
            await memories.add_may_replace(user, memory_id, each.memory_id)
