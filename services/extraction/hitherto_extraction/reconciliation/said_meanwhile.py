"""Lets what is current again stand for what was said in the same words while it was not.

Had it not ended, those words would have confirmed it. The join is one of a reconciliation, without
a model: its rules decide, RestoreMemory parts the two, and each goes with its own sources. Neither
takes over weight or labels of the other, which would outlive their source.
"""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from hitherto_extraction.reconciliation.reply import Proposals, SameItem
from hitherto_extraction.reconciliation.settling import ReconciliationRows, settle
from hitherto_extraction.reconciliation.writing import write_settlement
from hitherto_extraction.storage import known_memories, reconciliation, users
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.models import CURRENT_STATUSES


async def join_said_meanwhile(user: UserRows, back: Collection[UUID]) -> None:
    """Join to memories that are current again what says the same, in words that differ in case.

    The caller holds the user's row. What is sealed is left to the next reconciliation, because no
    statement of the database can compare it.
    """
    kept = sorted(
        (await known_memories.read_known(user, sorted(back))).values(),
        key=lambda each: (each.valid_from, each.memory_id),
    )
    words = {place: each.content for place, each in enumerate(kept) if not each.sealed}
    found = await known_memories.find_same_words(user, words)
    others = await known_memories.read_known(user, sorted({other for _, other in found}))
    pairs = [
        (kept[place], others[other])
        for place, other in found
        if other != kept[place].memory_id and others[other].status in CURRENT_STATUSES
    ]
    if not pairs:
        return
    known = {each.memory_id: each for pair in pairs for each in pair}
    made = settle(
        Proposals(
            same=tuple(
                SameItem("", str(keep.memory_id), (str(other.memory_id),)) for keep, other in pairs
            )
        ),
        ReconciliationRows(
            local={str(memory_id): memory_id for memory_id in known},
            known=known,
            links=await reconciliation.read_links(user, known),
            settled=await reconciliation.settled_before(user, known),
            room=None,
        ),
    )
    at = await users.database_now(user.connection)
    await write_settlement(user, made, at=at, job_id=None)
