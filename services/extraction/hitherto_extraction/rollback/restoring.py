"""Restores memories by hand: each is as what is left of its history makes it.

It reverts forgetting, archiving, and a reconciliation that joined the memory to another.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from uuid import UUID

from hitherto_extraction.curation import statuses
from hitherto_extraction.pipeline.message_removal import reindex
from hitherto_extraction.reconciliation.said_meanwhile import join_said_meanwhile
from hitherto_extraction.rollback.histories import Gone, read_histories
from hitherto_extraction.rollback.memories import without_what_is_gone
from hitherto_extraction.rollback.rebuilt import FIELDS, LAPSED
from hitherto_extraction.storage import editing, memories, mentions, reconciliation, users
from hitherto_extraction.storage import rollback as storage
from hitherto_extraction.storage.editing import EditableMemory
from hitherto_extraction.storage.rollback import StoredVersion
from hitherto_shared.database.arrays import fields_of
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.models import CURRENT_STATUSES, Memory


async def restore(user: UserRows, memory_id: UUID, *, reason: str, actor: str) -> Memory:
    """Restore a FORGOTTEN, ARCHIVED, joined or expired memory; one that is read stays unchanged.

    It returns to its earlier status: ACTIVE, or another one. So does its expiry, unless that has
    passed: a restored memory is meant to be read. A joined one takes its sources back from the
    memory that says the same. What was said in its words meanwhile is joined to it. The role is
    hitherto_removal.

    Raises:
        NotFound: The user has no such memory.
        WrongState: The user was erased, or something else ended the memory.
    """
    held = await statuses.read(user, memory_id)
    before = held.memory
    at = await users.database_now(user.connection)
    reasons = (reason, "restored by hand")
    if before.status in CURRENT_STATUSES:
        if before.expires_at is None or before.expires_at > at:
            return before
        after = held.changed(expires_at=None)
        await statuses.write(user, held, after, "restored", reasons, actor)
    elif await _is_joined(user, before):
        await _part(user, held, reasons, at=at, actor=actor)
        return (await editing.read_one(user, memory_id)).memory
    elif before.status in LAPSED - {"superseded"}:
        await _bring_back(user, held, reasons, at=at, actor=actor)
    else:
        raise editing.status_conflict(
            before,
            f"the memory is {before.status.upper()} and cannot be restored: {_remedy(before)}",
        )
    await join_said_meanwhile(user, [memory_id])
    return (await editing.read_one(user, memory_id)).memory


async def _bring_back(
    user: UserRows, held: EditableMemory, reasons: tuple[str, str], *, at: datetime, actor: str
) -> None:
    """Let a memory be as it was before it lapsed."""
    memory_id = held.memory.memory_id
    was = await editing.before_it_lapsed(user, memory_id)
    after = held.changed(
        status=was.status,
        superseded_by=was.superseded_by,
        expires_at=was.expires_at if was.expires_at and was.expires_at > at else None,
    )
    after = await _write(user, held, after, reasons, at=at, actor=actor)
    if after.memory.superseded_by is not None:
        await memories.add_superseded(user, memory_id, by=after.memory.superseded_by)


async def _write(
    user: UserRows,
    held: EditableMemory,
    after: EditableMemory,
    reasons: tuple[str, str],
    *,
    at: datetime,
    actor: str,
) -> EditableMemory:
    """Write the next version of a memory, without what was taken back while it had lapsed.

    Unless nothing else states it: who restores it vouches for its messages.
    """
    memory_id, number = held.memory.memory_id, held.memory.version + 1
    history = (await read_histories(user, [memory_id]))[memory_id]
    fields = {"said_at": after.said_at, **fields_of(after.memory)}
    made = StoredVersion(number, None, at, {name: fields[name] for name in FIELDS})
    history = replace(
        history,
        held=after,
        versions=[*history.versions, made],
        restored=history.restored | {number},
    )
    vouched = number in history.stating
    gone = Gone()
    await gone.find_earlier(user, {memory_id: history})
    if gone.every or any(each.taken for each in history.statements):
        after = without_what_is_gone(history, gone)
        if vouched:
            # No version holds the questions; these are of the words that are vouched for.
            after = replace(after, questions=held.questions)
        by = after.memory.superseded_by
        if by is not None and not await editing.read(user, [by]):
            # It was deleted.
            after = after.changed(superseded_by=None)
    if (expires_at := after.memory.expires_at) is not None and expires_at <= at:
        # Who restores it means it to be read.
        after = after.changed(expires_at=None)
    if lost := history.lost_names:
        unmentioned = await storage.unmention(user, memory_id, sorted(lost))
        await mentions.recount(user, [], also=unmentioned)
    dropped = 0
    if held.memory.status == "forgotten" and not vouched:
        dropped = await storage.drop_taken_back(user, [memory_id])
    await statuses.write(user, held, after, "restored", reasons, actor)
    if dropped or after.indexed_text != held.indexed_text:
        # Nor is it found by the words of those messages.
        await reindex(user, [memory_id])
        await storage.embed_anew(user, [memory_id])
    return after


async def _is_joined(user: UserRows, memory: Memory) -> bool:
    """Whether a reconciliation let another memory stand for this one."""
    if memory.status != "superseded" or memory.superseded_by is None:
        return False
    settled = await reconciliation.settled_before(user, [memory.memory_id])
    return (memory.memory_id, memory.superseded_by, "superseded") in settled


async def _part(
    user: UserRows, held: EditableMemory, reasons: tuple[str, str], *, at: datetime, actor: str
) -> None:
    """Let a joined memory stand for itself again; no reconciliation joins the two once more."""
    memory_id, by = held.memory.memory_id, held.memory.superseded_by
    assert by is not None
    was = await editing.before_it_lapsed(user, memory_id, lapsed=sorted(LAPSED))
    await memories.remove_superseded(user, memory_id, by=by)
    await reconciliation.part_sources(user, [memory_id])
    after = held.changed(status=was.status, superseded_by=None, doubt=was.doubt)
    await _write(user, held, after, reasons, at=at, actor=actor)
    await memories.confirm_anew(user, [by])


def _remedy(memory: Memory) -> str:
    """What undoes the end of a memory that is not restored by itself."""
    if memory.status == "quarantined":
        return "use ReviewMemory"
    if memory.status == "superseded":
        merged = memory.superseded_by or "into which it was merged"
        return f"use UndoConsolidation with the memory {merged}"
    if memory.job_id is not None:
        return f"RollbackSource with the job {memory.job_id} takes back what ended it"
    return "somebody ended it by hand; save it again if it is true after all"
