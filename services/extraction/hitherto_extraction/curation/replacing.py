"""Ends what a saved or approved statement replaces, and tells what stands near it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from hitherto_extraction.pipeline import sealed_memories
from hitherto_extraction.pipeline.resting_values import drop_resting_on
from hitherto_extraction.pipeline.versions import write_next
from hitherto_extraction.storage import editing, ledger, memories
from hitherto_extraction.storage.editing import EditableMemory
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.embeddings.active_embedder import active_model
from hitherto_shared.errors import not_found
from hitherto_shared.models import CURRENT_STATUSES, Memory

MAX_REPLACED = 20
MOST_NEAR = 5
BY_HAND = "replaced by hand"


async def read_replaced(user: UserRows, memory_ids: Sequence[UUID]) -> list[EditableMemory]:
    """The memories that a statement is to replace.

    Raises:
        NotFound: The user has no such memory.
    """
    held = await editing.read(user, memory_ids)
    for each in memory_ids:
        if each not in held:
            raise not_found("memory", each)
    return list(held.values())


async def replace_by(
    user: UserRows,
    replaced: Sequence[EditableMemory],
    by: Memory,
    reason: str = BY_HAND,
    *,
    at: datetime,
    actor: str,
) -> None:
    """Let memories end when the one that replaces them begins to hold.

    One that waits for review ends nothing yet: its approval does.
    """
    standing = [
        each
        for each in replaced
        if each.memory.status in CURRENT_STATUSES and each.memory.memory_id != by.memory_id
    ]
    if by.status not in CURRENT_STATUSES:
        for each in standing:
            await memories.add_challenge(user, by.memory_id, each.memory.memory_id)
        return
    for each in standing:
        memory_id = each.memory.memory_id
        after = each.changed(
            status="contradicted",
            valid_to=max(by.valid_from, each.memory.valid_from),
            superseded_by=by.memory_id,
            doubt=None,
        )
        event = await write_next(
            user, each, after, "contradicted", reason, at=at, related=by.memory_id
        )
        await memories.add_superseded(user, memory_id, by=by.memory_id)
        await ledger.record(user, None, [event], actor=actor)
    await drop_resting_on(user, [each.memory.memory_id for each in standing], actor=actor)


async def near_to(user: UserRows, memory_id: UUID, *, threshold: float) -> list[Memory]:
    """The active memories whose vectors are nearest to a memory's, from a cosine on."""
    active = await active_model(user.connection)
    if active is None:
        return []
    found = await sealed_memories.nearest(user, [memory_id], model=active[0], limit=2 * MOST_NEAR)
    near = [other for _, other, cosine in found if cosine >= threshold]
    held = await editing.read(user, near)
    return [held[each].memory for each in near if held[each].memory.status == "active"][:MOST_NEAR]
