"""Lets a value of the profile go with the last memory that it rests on, and writes what is left."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from uuid import UUID

from hitherto_extraction.pipeline.draft import whole
from hitherto_extraction.pipeline.profile_changes import ProfileState
from hitherto_extraction.storage import editing, known_memories, profiles
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.identifiers import parse_uuid
from hitherto_shared.models import CURRENT_STATUSES, HIDDEN_STATUSES, Profile


async def drop_resting_on(
    user: UserRows,
    memory_ids: Collection[UUID],
    *,
    actor: str,
    job_id: UUID | None = None,
    corrected: bool = False,
) -> int:
    """Take values out of the profile that rested on these memories alone; returns how many.

    The memories have ended, or have other words, in the caller's transaction, which holds the
    user's row. Of those `corrected` by hand, the new words decide what still rests on them.

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
    # A rebuilt profile may name memories that were replaced long ago.
    successors = await _successors(user, rests)
    if not successors.keys() & changed:
        return 0
    known = await known_memories.read_known(user, sorted(successors))

    def says(memory_id: UUID) -> str | None:
        words = told(memory_id)
        return words if words and known[memory_id].status in CURRENT_STATUSES else None

    def told(memory_id: UUID) -> str | None:
        if memory_id in changed and memory_id not in known:
            return None
        each = known[memory_id]
        return whole(each) if each.status not in HIDDEN_STATUSES else None

    def heir(memory_id: UUID) -> UUID | None:
        passed = {memory_id}
        while (following := successors[memory_id]) is not None and following not in passed:
            memory_id = following
            passed.add(memory_id)
        return memory_id if len(passed) > 1 else None

    state = ProfileState(profile, said_at)
    state.drop_unsupported(says, heir, told=told, corrected=changed if corrected else ())
    return await write_state(user, profile, said_at, state, actor=actor, job_id=job_id)


async def write_state(
    user: UserRows,
    before: Profile,
    said_before: Mapping[str, str],
    state: ProfileState,
    *,
    actor: str,
    job_id: UUID | None = None,
) -> int:
    """Store a changed profile as its next version; returns how many of its values have changed.

    If none has, what values rest on, and when they were said, is stored without a version. If the
    user has encryption on, the key must be at hand.
    """
    after = replace(state.profile, version=before.version + bool(state.changed))
    if state.changed:
        await profiles.write_profile(
            user,
            before,
            after,
            state.said_at,
            actor=actor,
            job_id=job_id,
            changed=list(state.changed),
        )
    else:
        await profiles.write_sources(user, before, after, said_before, state.said_at)
    return len(state.changed)


async def _successors(user: UserRows, memory_ids: Collection[UUID]) -> dict[UUID, UUID | None]:
    """What replaced each of these memories, what replaced that, and so on."""
    found: dict[UUID, UUID | None] = {}
    wanted = set(memory_ids)
    while wanted:
        held = await editing.read(user, sorted(wanted))
        found |= {
            each: held[each].memory.superseded_by if each in held else None for each in wanted
        }
        wanted = {each for each in found.values() if each is not None} - found.keys()
    return found
