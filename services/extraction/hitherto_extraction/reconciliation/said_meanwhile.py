"""Lets what is current again stand for what was said in the same words while it was not.

The join is one of a reconciliation, without a model: its rules decide, RestoreMemory parts the two,
and each goes with its own sources.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from hitherto_extraction.pipeline import sealed_memories
from hitherto_extraction.pipeline.dedupe import same_words
from hitherto_extraction.reconciliation.reply import Proposals, Proposed
from hitherto_extraction.reconciliation.settling import ReconciliationRows, Settlement, settle
from hitherto_extraction.reconciliation.writing import write_settlement
from hitherto_extraction.storage import (
    forgettings,
    known_memories,
    reconciliation,
    rollback,
    superseded,
    users,
)
from hitherto_extraction.storage.known_memories import CurrentMemory
from hitherto_extraction.storage.rollback import StoredVersion
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.models import CURRENT_STATUSES


async def join_said_meanwhile(user: UserRows, back: Collection[UUID]) -> None:
    """Join to memories that are current again what says the same, in words that differ in case.

    The caller holds the user's row.
    """
    pairs = [
        (keep, other)
        for keep, other in await _in_same_words(user, back)
        if other.status in CURRENT_STATUSES
    ]
    if not pairs:
        return
    known = {each.memory_id: each for pair in pairs for each in pair}
    made = settle(
        Proposals(
            same=[Proposed("", str(other.memory_id), str(keep.memory_id)) for keep, other in pairs]
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


async def keep_forgotten(
    user: UserRows, changed: Collection[UUID], *, since: datetime
) -> set[UUID]:
    """Join memories that have changed `since` then to what somebody asked to forget meanwhile.

    They say the same, and did not when that was asked for, or it would not have concerned them.
    Returns what was joined, which is told to nobody. The caller holds the user's row.
    """
    found = await _in_same_words(user, changed)
    heads = await superseded.successors(user, {other.memory_id for _, other in found})
    made = await forgettings.read(
        user, sorted({*heads.values(), *(other.memory_id for _, other in found)})
    )
    asked_at = {m: each.at for m, each in made.items() if each.taken_back_from is None}
    pairs = [
        (told, by)
        for told, other in found
        if told.status in CURRENT_STATUSES
        and (by := heads.get(other.memory_id, other.memory_id)) in asked_at
        and told.said_at <= asked_at[by]
    ]
    versions = await rollback.read_versions(user, sorted({told.memory_id for told, _ in pairs}))
    joins = {
        told.memory_id: by
        for told, by in pairs
        if not _was_told(told, versions[told.memory_id], asked_at[by], since)
    }
    if joins:
        at = await users.database_now(user.connection)
        await write_settlement(user, Settlement(joins=joins), at=at, job_id=None)
    return set(joins)


def _was_told(
    told: CurrentMemory, versions: Collection[StoredVersion], begin: datetime, end: datetime
) -> bool:
    """Whether a memory said the same between two moments."""
    before = [each for each in versions if each.at < end]
    then = [each for each in before if each.at <= begin][-1:]
    return any(
        each.fields["status"] in CURRENT_STATUSES
        and same_words(each.fields["content"], told.content)
        for each in (*then, *(each for each in before if each.at > begin))
    )


async def _in_same_words(
    user: UserRows, memory_ids: Collection[UUID]
) -> list[tuple[CurrentMemory, CurrentMemory]]:
    """Each of these memories, the oldest first, with every other one in the same words."""
    kept = sorted(
        (await known_memories.read_known(user, sorted(memory_ids))).values(),
        key=lambda each: (each.valid_from, each.memory_id),
    )
    words = {n: each.content for n, each in enumerate(kept)}
    found = sorted(
        [
            *await known_memories.find_same_words(user, words),
            *await sealed_memories.find_same_words(user, words),
        ]
    )
    others = await known_memories.read_known(user, sorted({other for _, other in found}))
    return [
        (kept[place], others[other]) for place, other in found if other != kept[place].memory_id
    ]
