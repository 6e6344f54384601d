"""Reverts a merge: the originals are active again, the merged memory is archived."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from hitherto_extraction.consolidation.groups import mark_of
from hitherto_extraction.pipeline.versions import write_next
from hitherto_extraction.storage import consolidation, editing, ledger, memories, users
from hitherto_extraction.storage.editing import EditableMemory
from hitherto_extraction.storage.ledger import ChangeEvent
from hitherto_shared.database.pool import Connection
from hitherto_shared.models import CURRENT_STATUSES, Memory, Scope

_UNDOABLE = (*CURRENT_STATUSES, "quarantined", "forgotten", "archived")
_CURRENT = (*CURRENT_STATUSES, "quarantined")

_REASON = "the merge was undone"


async def undo(
    connection: Connection, scope: Scope, memory_id: UUID, *, actor: str
) -> list[Memory]:
    """A call of UndoConsolidation, in its transaction; see `undo_merge`.

    Raises:
        WrongState: The user was erased.
    """
    await users.enter_alone(connection, scope)
    return await undo_merge(connection, scope, memory_id, actor=actor)


async def read_originals(
    connection: Connection, scope: Scope, memory_ids: Sequence[UUID]
) -> list[Memory]:
    """The present state of the originals of a merge that was undone, the oldest first."""
    found = await editing.read(connection, scope, memory_ids)
    held = [each.memory for each in found.values()]
    return sorted(held, key=lambda memory: (memory.created_at, memory.memory_id))


async def undo_merge(
    connection: Connection,
    scope: Scope,
    memory_id: UUID,
    *,
    actor: str,
    reason: str = _REASON,
    share: bool = False,
) -> list[Memory]:
    """Take a merged memory apart; returns the originals, ACTIVE again, the oldest first.

    With `share`, a merged memory of any status is taken apart, and its status is passed on to its
    originals: a contradicted one leaves contradicted ones.

    The caller holds the user's row. Originals with another status since stay unchanged. The merged
    memory becomes ARCHIVED: neither reads nor the duplicate search find it any more. The tags
    concerned count as processed, so that nothing merges them again at once.

    Raises:
        NotFound: The user has no such memory.
        WrongState: It was not created by consolidation, was replaced, or replaces nothing any more.
    """
    merged = await editing.read_one(connection, scope, memory_id)
    if merged.memory.source != "consolidation":
        raise editing.status_conflict(
            merged.memory, "this memory was not made by consolidation, so there is nothing to undo"
        )
    if merged.memory.status not in _UNDOABLE and not share:
        raise editing.status_conflict(
            merged.memory,
            f"this memory is {merged.memory.status.upper()}: see the memory that replaced it",
        )
    held = await editing.read(connection, scope, merged.memory.supersedes)
    originals = [
        each
        for each in held.values()
        if each.memory.status == "superseded" and each.memory.superseded_by == memory_id
    ]
    if not originals:
        raise editing.status_conflict(
            merged.memory,
            "this memory no longer replaces any memory, so there is nothing to restore",
        )
    at = await users.database_now(connection)
    events = []
    back = {each.memory.memory_id for each in originals}
    ended = merged.memory if share and merged.memory.status not in _CURRENT else None
    for each in originals:
        after = each.changed(status="active", superseded_by=None)
        events.append(
            await write_next(
                connection, scope, each, after, "restored", reason, at=at, related=memory_id
            )
        )
        if ended is not None and ended.superseded_by != each.memory.memory_id:
            events.append(await _end_too(connection, scope, after, ended, reason, at))
    if merged.memory.superseded_by is not None:
        await memories.remove_superseded(
            connection, scope, memory_id, by=merged.memory.superseded_by
        )
    left = [each for each in merged.memory.supersedes if each not in back]
    archived = replace(merged, challenges=()).changed(
        status="archived", superseded_by=None, supersedes=left
    )
    events.append(await write_next(connection, scope, merged, archived, "archived", reason, at=at))
    await ledger.record(connection, scope, None, events, actor=actor)
    await _mark(connection, scope, originals)
    return await read_originals(connection, scope, sorted(back))


async def _end_too(
    connection: Connection,
    scope: Scope,
    original: EditableMemory,
    ended: Memory,
    reason: str,
    at: datetime,
) -> ChangeEvent:
    """Let an original that is active again end as its merged memory has ended."""
    before = original.changed(version=original.memory.version + 1)
    valid_to = max(ended.valid_to, before.memory.valid_from) if ended.valid_to else None
    after = before.changed(
        status=ended.status, superseded_by=ended.superseded_by, valid_to=valid_to
    )
    if ended.superseded_by is not None:
        await memories.add_superseded(
            connection, scope, before.memory.memory_id, by=ended.superseded_by
        )
    return await write_next(
        connection,
        scope,
        before,
        after,
        ended.status,
        reason,
        at=at,
        # By the job that ended the merged memory, so that it is rolled back with that job.
        job_id=ended.job_id,
        related=ended.superseded_by,
    )


async def _mark(connection: Connection, scope: Scope, originals: Sequence[EditableMemory]) -> None:
    # A record holds the tag in clear, and sealed memories are never merged by it.
    tags = sorted({tag for each in originals if not each.sealed for tag in each.memory.tags})
    members = await consolidation.read_members(connection, scope, tags)
    await consolidation.mark(
        connection, scope, [mark_of(tag, members) for tag in tags], job_id=None
    )
