"""Lets a value of the profile go with the last memory that it rests on."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from uuid import UUID

from hitherto_extraction.pipeline.operations import whole
from hitherto_extraction.pipeline.profile_changes import ProfileState
from hitherto_extraction.storage import editing, known_memories, profiles
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.identifiers import parse_uuid
from hitherto_shared.models import CURRENT_STATUSES


async def drop_resting_on(
    user: UserRows, memory_ids: Collection[UUID], *, actor: str, job_id: UUID | None = None
) -> int:
    """Take values out of the profile that rested on these memories alone; returns how many.

    The memories have ended, or have other words, in the caller's transaction, which holds the
    user's row.

    Raises:
        KeyNeeded: The profile is sealed, and the user's key is not at hand.
    """
    changed = set(memory_ids)
    if not changed:
        return 0
    profile, said_at = await profiles.read_profile(user)
    rests = {
        memory_id
        for source in profile.sources.values()
        for each in source.get("memory_ids", ())
        if (memory_id := parse_uuid(each)) is not None
    }
    if not rests & changed:
        return 0
    ended = await editing.read(user, sorted(rests & changed))
    heirs = {each: held.memory.superseded_by for each, held in ended.items()}
    named = {*rests, *(heir for heir in heirs.values() if heir is not None)}
    known = await known_memories.read_known(user, sorted(named))
    gone = rests & changed - known.keys()

    def says(memory_id: UUID) -> str | None:
        if memory_id in gone:
            return None
        each = known[memory_id]
        return whole(each) if each.status in CURRENT_STATUSES else None

    state = ProfileState(profile, said_at)
    standing = {m for m in changed & known.keys() if known[m].status in CURRENT_STATUSES}
    state.drop_unsupported(says, heirs.get, corrected=standing)
    if not state.changed:
        return 0
    await profiles.write_profile(
        user,
        profile,
        replace(state.profile, version=profile.version + 1),
        state.said_at,
        actor=actor,
        job_id=job_id,
        changed=list(state.changed),
    )
    return len(state.changed)
