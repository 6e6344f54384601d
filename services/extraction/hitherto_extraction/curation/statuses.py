"""Forgets, restores and reviews memories.

Any memory can be forgotten, including a replaced one: its successor then no longer names it.
Restoring reverts forgetting, archiving, and a reconciliation that joined the memory to another: a
memory that had ended, or that waited for a review, returns to that state. The profile follows: a
value goes with the last memory it rests on.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from uuid import UUID

from hitherto_extraction.curation.replacing import replace_by
from hitherto_extraction.pipeline import doubts
from hitherto_extraction.pipeline.message_removal import reindex
from hitherto_extraction.pipeline.resting_values import drop_resting_on
from hitherto_extraction.pipeline.versions import write_next
from hitherto_extraction.reconciliation.said_meanwhile import join_said_meanwhile
from hitherto_extraction.storage import (
    editing,
    known_memories,
    ledger,
    memories,
    mentions,
    reconciliation,
    rollback,
    statements,
    users,
)
from hitherto_extraction.storage.editing import EditableMemory
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.models import CURRENT_STATUSES, Memory

_FOLLOWED = ("forgotten", "rejected", "restored")
"""What takes a memory back, or brings it back, with the doubts that it caused."""
_LAPSED = ("forgotten", "archived")
_REVIEWED = "contradicted by a memory that review let through"


async def forget(user: UserRows, memory_id: UUID, *, reason: str, actor: str) -> Memory:
    """Make a memory FORGOTTEN, with the profile's values that rest on it alone.

    One that somebody forgot by hand stays unchanged. Any other forgotten one gets a request of its
    own, which holds if what forgot it is taken back.

    Raises:
        NotFound: The user has no such memory.
        WrongState: The user was erased.
    """
    held = await _open(user, memory_id)
    if held.memory.status == "forgotten":
        made = await known_memories.forgettings(user, [memory_id])
        if made[memory_id].by_hand:
            return held.memory
    return await forget_held(user, held, (reason, "forgotten by hand"), actor=actor)


async def forget_held(
    user: UserRows, held: EditableMemory, reasons: tuple[str, str], *, actor: str
) -> Memory:
    """`forget` a memory that was read under the user's lock: `reasons` as in `_write`."""
    memory_id = held.memory.memory_id
    after = held.changed(status="forgotten", superseded_by=None)
    if held.memory.superseded_by is not None:
        await memories.remove_superseded(user, memory_id, by=held.memory.superseded_by)
    return await _write(user, held, after, "forgotten", reasons, actor)


async def restore(user: UserRows, memory_id: UUID, *, reason: str, actor: str) -> Memory:
    """Restore a FORGOTTEN, ARCHIVED, joined or expired memory; one that is read stays unchanged.

    It returns to its earlier status: ACTIVE, or another one (`editing.before_it_lapsed`). So does
    its expiry, unless that has passed: a restored memory is meant to be read. A joined one takes
    its sources back from the memory that says the same. What was said in its words meanwhile is
    joined to it. The role is hitherto_removal.

    Raises:
        NotFound: The user has no such memory.
        WrongState: The user was erased, or something else ended the memory.
    """
    held = await _open(user, memory_id)
    before = held.memory
    at = await users.database_now(user.connection)
    reasons = (reason, "restored by hand")
    if before.status in CURRENT_STATUSES:
        if before.expires_at is None or before.expires_at > at:
            return before
        await _write(user, held, held.changed(expires_at=None), "restored", reasons, actor)
    elif await _is_joined(user, before):
        return await _part(user, held, reasons, actor)
    elif before.status in _LAPSED:
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
    if was.superseded_by is not None:
        await memories.add_superseded(user, memory_id, by=was.superseded_by)
    after = held.changed(
        status=was.status,
        superseded_by=was.superseded_by,
        expires_at=was.expires_at if was.expires_at and was.expires_at > at else None,
    )
    dropped = 0
    if held.memory.status == "forgotten":
        dropped = await rollback.drop_taken_back(user, [memory_id])
    await _write(user, held, after, "restored", reasons, actor)
    if dropped:
        # Nor is it found by the words of those messages.
        await reindex(user, [memory_id])
        await rollback.embed_anew(user, [memory_id])


async def _is_joined(user: UserRows, memory: Memory) -> bool:
    """Whether a reconciliation let another memory stand for this one."""
    if memory.status != "superseded" or memory.superseded_by is None:
        return False
    settled = await reconciliation.settled_before(user, [memory.memory_id])
    return (memory.memory_id, memory.superseded_by, "superseded") in settled


async def _part(
    user: UserRows, held: EditableMemory, reasons: tuple[str, str], actor: str
) -> Memory:
    """Let a joined memory stand for itself again; no reconciliation joins the two once more."""
    memory_id, by = held.memory.memory_id, held.memory.superseded_by
    assert by is not None
    was = await editing.before_it_lapsed(user, memory_id, lapsed=(*_LAPSED, "superseded"))
    await memories.remove_superseded(user, memory_id, by=by)
    await reconciliation.part_sources(user, [memory_id])
    after = held.changed(status=was.status, superseded_by=None, doubt=was.doubt)
    parted = await _write(user, held, after, "restored", reasons, actor)
    await memories.confirm_anew(user, [by])
    return parted


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


async def review(
    user: UserRows, memory_id: UUID, *, approve: bool, reason: str, actor: str
) -> Memory:
    """Decide about a QUARANTINED memory.

    If approved, it becomes ACTIVE and closes the memories it challenged; if rejected, FORGOTTEN. An
    active memory that is in doubt can be reviewed too: approved, it is certain.

    Raises:
        NotFound: The user has no such memory.
        WrongState: The user was erased, or the memory is neither quarantined nor in doubt.
    """
    held = await _open(user, memory_id)
    if held.memory.status == "active" and held.memory.doubt is not None:
        return await _decide_doubt(user, held, approve=approve, reason=reason, actor=actor)
    if held.memory.status != "quarantined":
        raise editing.status_conflict(
            held.memory,
            f"the memory is {held.memory.status.upper()} and is not QUARANTINED: there is nothing "
            "to review",
        )
    if not approve:
        after = replace(held, challenges=()).changed(status="forgotten")
        return await _write(user, held, after, "rejected", (reason, "rejected in review"), actor)
    after = replace(held, challenges=()).changed(status="active")
    approved = await _write(user, held, after, "approved", (reason, "approved in review"), actor)
    if not held.sealed:
        said = await statements.of_memories(user, [memory_id])
        await mentions.mention(
            user,
            [
                (memory_id, name, kind)
                for each in said[memory_id]
                if not each.taken
                for name, kind in each.said.get("entities", ())
            ],
        )
    challenged = await editing.read(user, held.challenges)
    at = await users.database_now(user.connection)
    await replace_by(user, list(challenged.values()), approved, _REVIEWED, at=at, actor=actor)
    return (await editing.read_one(user, memory_id)).memory


async def _decide_doubt(
    user: UserRows, held: EditableMemory, *, approve: bool, reason: str, actor: str
) -> Memory:
    """Decide whether a memory still holds that is in doubt."""
    if approve:
        after = held.changed(doubt=None)
        return await _write(user, held, after, "approved", (reason, "it still holds"), actor)
    after = held.changed(doubt=None, status="forgotten")
    return await _write(user, held, after, "rejected", (reason, "it no longer holds"), actor)


async def _open(user: UserRows, memory_id: UUID) -> EditableMemory:
    await users.enter_alone(user)
    return await editing.read_one(user, memory_id)


async def _write(
    user: UserRows,
    held: EditableMemory,
    after: EditableMemory,
    action: str,
    reasons: tuple[str, str],
    actor: str,
) -> Memory:
    """Write a version and its history, with the given reason if there is one.

    A sealed memory gets no reason, because it may quote sealed text.
    """
    given, reason = reasons
    if given and not held.sealed:
        reason = given
    at = await users.database_now(user.connection)
    event = await write_next(user, held, after, action, reason, at=at)
    await ledger.record(user, None, [event], actor=actor)
    memory_id = held.memory.memory_id
    await mentions.recount(user, [memory_id])
    await drop_resting_on(user, [memory_id], actor=actor)
    if action in _FOLLOWED:
        stood_for_it = held.memory.superseded_by
        named = [memory_id] if stood_for_it is None else [memory_id, stood_for_it]
        await doubts.follow(user, named, actor=actor)
    return (await editing.read_one(user, memory_id)).memory
