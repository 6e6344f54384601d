"""Reverts a merge: the originals are active again, the merged memory is archived."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from hitherto_extraction.consolidation.groups import mark_of
from hitherto_extraction.once import IdempotentOperation
from hitherto_extraction.storage import consolidation, editing, ledger, memories, users
from hitherto_extraction.storage.editing import EditableMemory
from hitherto_extraction.storage.ledger import ChangeEvent
from hitherto_shared.database.pool import Connection
from hitherto_shared.errors import WrongState
from hitherto_shared.models import CURRENT_STATUSES, Memory, Scope

_UNDOABLE = (*CURRENT_STATUSES, "quarantined", "forgotten", "archived")
_CURRENT = (*CURRENT_STATUSES, "quarantined")

_REASON = "the merge was undone"


def undo(scope: Scope, memory_id: UUID, *, actor: str) -> IdempotentOperation[list[Memory]]:
    """A call of UndoConsolidation; the outcome is the originals, the oldest first."""

    async def change(connection: Connection) -> list[Memory]:
        await users.hold_off_erase(connection, scope)
        await users.lock_user(connection, scope)
        return await undo_merge(connection, scope, memory_id, actor=actor)

    async def again(connection: Connection, ids: Sequence[str]) -> list[Memory]:
        found = await editing.read(connection, scope, [UUID(each) for each in ids])
        return _oldest_first(found.values())

    return IdempotentOperation(
        change=change,
        ids=lambda found: [str(each.memory_id) for each in found],
        again=again,
        users=lambda _: [scope.user_id],
    )


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
        raise _conflict(merged, "was not made by consolidation, so there is nothing to undo")
    if merged.memory.status not in _UNDOABLE and not share:
        raise _conflict(
            merged, f"is {merged.memory.status.upper()}: see the memory that replaced it"
        )
    held = await editing.read(connection, scope, merged.memory.supersedes)
    originals = [
        each
        for each in held.values()
        if each.memory.status == "superseded" and each.memory.superseded_by == memory_id
    ]
    if not originals:
        raise _conflict(merged, "no longer replaces any memory, so there is nothing to restore")
    at = await users.database_now(connection)
    events = []
    back = {each.memory.memory_id for each in originals}
    ended = merged.memory if share and merged.memory.status not in _CURRENT else None
    for each in originals:
        after = replace(each, memory=replace(each.memory, status="active", superseded_by=None))
        await editing.write_version(connection, scope, after, at=at)
        events.append(_event("restored", each, after, reason, related=memory_id))
        if ended is not None and ended.superseded_by != each.memory.memory_id:
            events.append(await _end_too(connection, scope, after, ended, reason, at))
    if merged.memory.superseded_by is not None:
        await memories.remove_superseded(
            connection, scope, memory_id, by=merged.memory.superseded_by
        )
    archived = replace(
        merged,
        memory=replace(
            merged.memory,
            status="archived",
            superseded_by=None,
            supersedes=[each for each in merged.memory.supersedes if each not in back],
        ),
        challenges=(),
    )
    await editing.write_version(connection, scope, archived, at=at)
    events.append(_event("archived", merged, archived, reason))
    await ledger.record(connection, scope, None, events, actor=actor)
    await _mark(connection, scope, originals)
    found = await editing.read(connection, scope, sorted(back))
    return _oldest_first(found.values())


async def _end_too(
    connection: Connection,
    scope: Scope,
    original: EditableMemory,
    ended: Memory,
    reason: str,
    at: datetime,
) -> ChangeEvent:
    """Let an original that is active again end as its merged memory has ended."""
    before = replace(original, memory=replace(original.memory, version=original.memory.version + 1))
    valid_to = max(ended.valid_to, before.memory.valid_from) if ended.valid_to else None
    after = replace(
        before,
        memory=replace(
            before.memory,
            status=ended.status,
            superseded_by=ended.superseded_by,
            valid_to=valid_to,
        ),
    )
    # By the job that ended the merged memory, so that it is rolled back with that job.
    await editing.write_version(connection, scope, after, at=at, job_id=ended.job_id)
    if ended.superseded_by is not None:
        await memories.add_superseded(
            connection, scope, before.memory.memory_id, by=ended.superseded_by
        )
    return _event(ended.status, before, after, reason, related=ended.superseded_by)


async def _mark(connection: Connection, scope: Scope, originals: Sequence[EditableMemory]) -> None:
    # A record holds the tag in clear, and sealed memories are never merged by it.
    tags = sorted({tag for each in originals if not each.sealed for tag in each.memory.tags})
    members = await consolidation.read_members(connection, scope, tags)
    await consolidation.mark(
        connection, scope, [mark_of(tag, members) for tag in tags], job_id=None
    )


def _event(
    action: str,
    before: EditableMemory,
    after: EditableMemory,
    reason: str,
    related: UUID | None = None,
) -> ChangeEvent:
    return editing.change_event(
        action, before.memory, after.memory, reason, sealed=before.sealed, related=related
    )


def _oldest_first(found: Iterable[EditableMemory]) -> list[Memory]:
    held = [each.memory for each in found]
    return sorted(held, key=lambda memory: (memory.created_at, memory.memory_id))


def _conflict(merged: EditableMemory, why: str) -> WrongState:
    return WrongState(
        f"this memory {why}",
        reason="MEMORY_STATUS_CONFLICT",
        metadata={
            "memory_id": str(merged.memory.memory_id),
            "status": merged.memory.status.upper(),
        },
    )
