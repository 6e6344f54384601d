"""Takes doubts back whose cause is gone, or is as it was before, and returns them with it.

A doubt names its cause, and holds as long as that is known as it was when the doubt was cast. A
memory that stands for others, merged or joined, is the cause of what these made uncertain.
"""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from hitherto_extraction.pipeline.versions import write_next
from hitherto_extraction.storage import editing, ledger, reconciliation, users
from hitherto_shared.database.user_rows import UserRows

_TAKEN_BACK = "what had made it uncertain was taken back"
_IS_BACK = "what had made it uncertain is back"


async def clear_because_of(
    user: UserRows, memory_ids: Collection[UUID], *, actor: str, job_id: UUID | None = None
) -> int:
    """Let no memory be in doubt because of these, or of what they stand for; returns how many were.

    The caller holds the user's row.
    """
    if not memory_ids:
        return 0
    causes = await reconciliation.standing_for(user, memory_ids)
    found = await reconciliation.in_doubt_because(user, causes)
    return await clear(user, found, actor=actor, job_id=job_id)


async def clear(
    user: UserRows, memory_ids: Collection[UUID], *, actor: str, job_id: UUID | None = None
) -> int:
    """Let these memories be certain; returns how many there are."""
    if not memory_ids:
        return 0
    at = await users.database_now(user.connection)
    events = [
        await write_next(
            user, held, held.changed(doubt=None), "updated", _TAKEN_BACK, at=at, job_id=job_id
        )
        for held in (await editing.read(user, sorted(memory_ids))).values()
    ]
    await ledger.record(user, job_id, events, actor=actor)
    return len(events)


async def return_because_of(
    user: UserRows, memory_ids: Collection[UUID], *, actor: str, job_id: UUID | None = None
) -> None:
    """Let memories be in doubt again that were certain only while these were forgotten.

    What was said since the doubt began, or has been looked at, stays certain. The caller holds the
    user's row.
    """
    if not memory_ids:
        return
    causes = await reconciliation.standing_for(user, memory_ids)
    cleared = await reconciliation.cleared_because(user, causes, reason=_TAKEN_BACK)
    if not cleared:
        return
    at = await users.database_now(user.connection)
    events = [
        await write_next(
            user, held, held.changed(doubt=cleared[each]), "updated", _IS_BACK, at=at, job_id=job_id
        )
        for each, held in (await editing.read(user, sorted(cleared))).items()
    ]
    await ledger.record(user, job_id, events, actor=actor)
