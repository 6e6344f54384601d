"""Takes doubts back whose cause is gone, or is as it was before, and returns them with it.

A doubt names its cause, and holds as long as that is known as it was when the doubt was cast. A
memory that stands for others, merged or joined, is the cause of what these made uncertain. One that
took over the doubt of a joined memory has it as long as that is joined.

The history relates what follows a cause to that cause. So a doubt that ended with it is told from
one that somebody, or something said since, has settled: only the former returns.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from hitherto_extraction.pipeline.versions import write_next
from hitherto_extraction.storage import editing, ledger, reconciliation, users
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
    causes = await reconciliation.standing_for(user, memory_ids)
    standing = await reconciliation.that_stand(user, causes)
    doubts = await reconciliation.doubts_about(user, memory_ids, causes, back=standing)
    if others := {each.because for each in doubts}.difference(causes):
        standing |= await reconciliation.that_stand(user, others)
    holding = {each.memory_id: each.because in standing and not each.parted for each in doubts}
    changes = {
        each.memory_id: each.doubt if holding[each.memory_id] else None
        for each in doubts
        if each.stands != holding[each.memory_id]
    }
    related = {each.memory_id: each.because for each in doubts}
    await _write(user, changes, related, actor=actor, job_id=job_id)


async def settle(
    user: UserRows, said: Mapping[UUID, datetime], *, actor: str, job_id: UUID | None
) -> None:
    """Let memories be certain that were said again, at these times, since they were doubted."""
    if not said:
        return
    again = [each for each in await reconciliation.in_doubt(user) if each in said]
    held = await editing.read(user, again) if again else {}
    since = {
        memory_id: datetime.fromisoformat(each.memory.doubt["since"])
        for memory_id, each in held.items()
        if each.memory.doubt is not None
    }
    certain = [memory_id for memory_id, moment in since.items() if moment <= said[memory_id]]
    await _write(user, dict.fromkeys(certain), {}, actor=actor, job_id=job_id, ended=_SAID_AGAIN)


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
