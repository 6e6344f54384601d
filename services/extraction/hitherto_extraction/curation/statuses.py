"""Forgets and reviews memories.

Any memory can be forgotten, including a replaced one: its successor then no longer names it. The
profile follows: a value goes with the last memory it rests on.
"""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from hitherto_extraction.curation.replacing import replace_by
from hitherto_extraction.pipeline import doubts
from hitherto_extraction.pipeline.resting_values import drop_resting_on
from hitherto_extraction.pipeline.versions import write_next
from hitherto_extraction.storage import (
    editing,
    forgettings,
    ledger,
    memories,
    mentions,
    statements,
    users,
)
from hitherto_extraction.storage.editing import EditableMemory
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.models import Memory

_FOLLOWED = ("forgotten", "rejected", "restored")
"""What takes a memory back, or brings it back, with the doubts that it caused."""
_REVIEWED = "contradicted by a memory that review let through"


async def forget(user: UserRows, memory_id: UUID, *, reason: str, actor: str) -> Memory:
    """Make a memory FORGOTTEN, with the profile's values that rest on it alone; see `read`.

    One that somebody forgot by hand stays unchanged. Any other forgotten one gets a request of its
    own, which holds if what forgot it is taken back.
    """
    held = await read(user, memory_id)
    if held.memory.status == "forgotten":
        made = await forgettings.read(user, [memory_id])
        if made[memory_id].by_hand:
            return held.memory
    return await forget_held(user, held, (reason, "forgotten by hand"), actor=actor)


async def forget_held(
    user: UserRows, held: EditableMemory, reasons: tuple[str, str], *, actor: str
) -> Memory:
    """`forget` a memory that was read under the user's lock: `reasons` as in `write`."""
    memory_id = held.memory.memory_id
    after = held.changed(status="forgotten", superseded_by=None)
    if held.memory.superseded_by is not None:
        await memories.remove_superseded(user, memory_id, by=held.memory.superseded_by)
    return await write(user, held, after, "forgotten", reasons, actor)


async def review(
    user: UserRows, memory_id: UUID, *, approve: bool, reason: str, actor: str
) -> Memory:
    """Decide about a QUARANTINED memory; see `read`.

    If approved, it becomes ACTIVE and closes the memories it challenged; if rejected, FORGOTTEN. An
    active memory that is in doubt can be reviewed too: approved, it is certain.

    Raises:
        WrongState: It is neither.
    """
    held = await read(user, memory_id)
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
        return await write(user, held, after, "rejected", (reason, "rejected in review"), actor)
    after = replace(held, challenges=()).changed(status="active")
    approved = await write(user, held, after, "approved", (reason, "approved in review"), actor)
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
        return await write(user, held, after, "approved", (reason, "it still holds"), actor)
    after = held.changed(doubt=None, status="forgotten")
    return await write(user, held, after, "rejected", (reason, "it no longer holds"), actor)


async def read(user: UserRows, memory_id: UUID) -> EditableMemory:
    """Read a memory to change it, under the user's lock.

    Raises:
        NotFound: The user has no such memory.
        WrongState: The user was erased.
    """
    await users.enter_alone(user)
    return await editing.read_one(user, memory_id)


async def write(
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
