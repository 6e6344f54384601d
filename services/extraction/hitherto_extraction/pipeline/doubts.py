"""Takes doubts back whose cause is gone, or is as it was before."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from hitherto_extraction.pipeline.versions import write_next
from hitherto_extraction.storage import editing, ledger, reconciliation, users
from hitherto_shared.database.user_rows import UserRows

_REASON = "what had made it uncertain was taken back"


async def clear_because_of(user: UserRows, memory_ids: Collection[UUID], *, actor: str) -> int:
    """Let no memory be in doubt because of these; returns how many were.

    The caller holds the user's row.
    """
    found = await reconciliation.in_doubt_because(user, memory_ids) if memory_ids else []
    if not found:
        return 0
    at = await users.database_now(user.connection)
    events = [
        await write_next(user, held, held.changed(doubt=None), "updated", _REASON, at=at)
        for held in (await editing.read(user, found)).values()
    ]
    await ledger.record(user, None, events, actor=actor)
    return len(events)
