"""Takes doubts back whose cause is gone, or is as it was before, and returns them with it.

A memory that stands for others, merged or joined, is the cause of what these made uncertain. One
that took over the doubt of a joined memory has it as long as that is joined; then it takes over
that of the next joined one, unless somebody has called it certain. The history relates what follows
a cause to that cause, so that a doubt that something else has settled does not return.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from hitherto_extraction.pipeline.versions import write_next
from hitherto_extraction.storage import doubts as storage
from hitherto_extraction.storage import editing, ledger, superseded, users
from hitherto_extraction.storage.doubts import LeftDoubt
from hitherto_shared.database.user_rows import UserRows

_TAKEN_BACK = "what had made it uncertain was taken back"
_IS_BACK = "what had made it uncertain is back"
_SAID_AGAIN = "said again since it became uncertain"


async def follow(
    user: UserRows, memory_ids: Collection[UUID], *, actor: str, job_id: UUID | None = None
) -> None:
    """Let doubts of or because of these memories, whose statuses changed, go or return.

    The caller holds the user's row.
    """
    if not memory_ids:
        return
    causes = await superseded.standing_for(user, memory_ids)
    standing = await superseded.that_stand(user, causes)
    back = [each for each, stands in standing.items() if stands]
    found = await storage.doubts_about(user, memory_ids, causes, back=back)
    if others := {each.because for each in found}.difference(causes):
        standing |= await superseded.that_stand(user, others)
    holding = {
        each.memory_id: standing.get(each.because, each.stands) and not each.taken_back
        for each in found
    }
    changes = {
        each.memory_id: each.doubt if holding[each.memory_id] else None
        for each in found
        if each.stands != holding[each.memory_id]
    }
    related = {each.memory_id: each.because for each in found}
    certain = {*memory_ids, *(each.memory_id for each in found)}
    certain -= {memory_id for memory_id, holds in holding.items() if holds}
    for left in await _left_to(user, certain):
        changes[left.memory_id], related[left.memory_id] = left.doubt, left.joined_id
    await _write(user, changes, related, actor=actor, job_id=job_id)


async def settle(
    user: UserRows, said: Mapping[UUID, datetime], *, actor: str, job_id: UUID | None
) -> None:
    """Let memories be certain that were said again, at these times, since they were doubted."""
    if not said:
        return
    again = [each for each in await storage.in_doubt(user) if each in said]
    held = await editing.read(user, again) if again else {}
    since = {
        memory_id: datetime.fromisoformat(each.memory.doubt["since"])
        for memory_id, each in held.items()
        if each.memory.doubt is not None
    }
    certain = [memory_id for memory_id, moment in since.items() if moment <= said[memory_id]]
    await _write(user, dict.fromkeys(certain), {}, actor=actor, job_id=job_id, ended=_SAID_AGAIN)


async def _left_to(user: UserRows, memory_ids: Collection[UUID]) -> Iterable[LeftDoubt]:
    """For each memory the first doubt that holds of those that joined memories left to it."""
    found = await storage.left_to(user, memory_ids) if memory_ids else []
    if not found:
        return ()
    standing = await superseded.that_stand(user, {each.because for each in found})
    # The first joined one of each comes last, and so stays.
    holding = [each for each in reversed(found) if standing.get(each.because, True)]
    return {each.memory_id: each for each in holding}.values()


async def clear(user: UserRows, memory_ids: Collection[UUID], *, actor: str) -> None:
    """Let these memories be certain for good, as their cause no longer says what it said."""
    await _write(user, dict.fromkeys(memory_ids), {}, actor=actor)


async def _write(
    user: UserRows,
    changes: Mapping[UUID, Mapping[str, Any] | None],
    related: Mapping[UUID, UUID],
    *,
    actor: str,
    job_id: UUID | None = None,
    ended: str = _TAKEN_BACK,
) -> None:
    """Write the doubts that memories have now, related to these causes; `ended` says why not."""
    if not changes:
        return
    at = await users.database_now(user.connection)
    events = [
        await write_next(
            user,
            held,
            held.changed(doubt=changes[memory_id]),
            "updated",
            ended if changes[memory_id] is None else _IS_BACK,
            at=at,
            job_id=job_id,
            related=related.get(memory_id),
        )
        for memory_id, held in (await editing.read(user, sorted(changes))).items()
    ]
    await ledger.record(user, job_id, events, actor=actor)
