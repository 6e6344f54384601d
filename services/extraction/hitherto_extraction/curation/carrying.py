"""Forgets or corrects a memory as one act: with what else states its words, or naming it.

Nothing is deleted. The words before a correction become a FORGOTTEN memory with the same messages,
so that these stay out of contexts, and are not learnt again. What is near and says more is only
named: it may be a sibling, and no program can tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from hitherto_extraction.curation import statuses
from hitherto_extraction.curation.also_stating import (
    MOST,
    AlsoStating,
    ProfileValue,
    Words,
    also_stating,
    near_by_vector,
)
from hitherto_extraction.curation.correcting import Correction, NewVector, correct
from hitherto_extraction.pipeline.message_removal import reindex
from hitherto_extraction.pipeline.profile_changes import ProfileState
from hitherto_extraction.pipeline.resting_values import write_state
from hitherto_extraction.pipeline.versions import is_sealed_next
from hitherto_extraction.reconciliation.trigger import Reconciling
from hitherto_extraction.storage import (
    also_stated,
    editing,
    keyword_index,
    ledger,
    memories,
    profiles,
    users,
)
from hitherto_extraction.storage.editing import EditableMemory
from hitherto_extraction.storage.sealed_rows import is_sensitive, opened
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.encryption.rows import MEMORY
from hitherto_shared.identifiers import uuid7
from hitherto_shared.models import Memory

_CARRIED = "states the same as a memory that was forgotten or corrected by hand"
_EARLIER = "the words before a correction by hand"
_VERSIONS = 20


@dataclass(frozen=True, slots=True)
class Place:
    """A place that states something: the field of `AlsoStates` that names it, and the words."""

    field: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Carried:
    """A memory after a change; what else states its earlier words, and what was taken along."""

    memory: Memory
    also_states: Sequence[Place] = ()
    carried_along: Sequence[Place] = ()


async def forget(
    user: UserRows,
    memory_id: UUID,
    *,
    reason: str,
    actor: str,
    threshold: float,
    carry_along: bool,
) -> Carried:
    """Forget a memory; see `statuses.forget`. From the cosine `threshold` on, others are near it.

    Raises:
        KeyNeeded: Something to be read is sealed, and the user's key is not at hand.
    """
    memory = await statuses.forget(user, memory_id, reason=reason, actor=actor)
    near = await near_by_vector(user, memory_id, threshold)
    return await _carried(
        user, memory, Words(memory.content), near, actor=actor, carry_along=carry_along
    )


async def correct_along(
    user: UserRows,
    memory_id: UUID,
    correction: Correction,
    vector: NewVector | None,
    *,
    actor: str,
    reconciling: Reconciling,
    threshold: float,
    carry_along: bool,
) -> Carried:
    """Correct a memory; see `correcting.correct`. From the cosine `threshold` on, others are near.

    Raises:
        KeyNeeded: Something to be read is sealed, and the user's key is not at hand.
    """
    await users.enter_alone(user)
    held = await editing.read_one(user, memory_id)
    near = await near_by_vector(user, memory_id, threshold)
    memory = await correct(
        user, memory_id, correction, vector, actor=actor, reconciling=reconciling
    )
    if ("content",) not in correction.paths:
        return Carried(memory)
    old = held.memory.content
    if old == memory.content:
        # The correction was made before, and this call is the second step.
        old = await _earlier_words(user, memory)
    if not old or memory.status == "quarantined":
        return Carried(memory)
    if carry_along:
        # What is sensitive in new words was so before.
        sensitive = any(is_sensitive(each.type, each.sensitive) for each in (held.memory, memory))
        await _keep_forgotten(user, held.changed(content=old, sensitive=sensitive), actor)
    return await _carried(
        user, memory, Words(old, memory.content), near, actor=actor, carry_along=carry_along
    )


async def still_stating(user: UserRows, memory_id: UUID, threshold: float) -> Carried:
    """A memory that was forgotten or corrected earlier, and what states its earlier words now.

    Raises:
        NotFound: The user has no such memory.
        KeyNeeded: Something to be read is sealed, and the user's key is not at hand.
    """
    memory = (await editing.read_one(user, memory_id)).memory
    words = Words(memory.content)
    if memory.status != "forgotten":
        words = Words(await _earlier_words(user, memory), memory.content)
    if not words.old:
        return Carried(memory)
    near = await near_by_vector(user, memory_id, threshold)
    return Carried(memory, _places(await also_stating(user, memory, words, near))[:MOST])


async def _carried(
    user: UserRows,
    memory: Memory,
    words: Words,
    near: Sequence[UUID],
    *,
    actor: str,
    carry_along: bool,
) -> Carried:
    found = await also_stating(user, memory, words, near)
    if not carry_along:
        return Carried(memory, _places(found)[:MOST])
    for each in found.same:
        # As it is now: what was forgotten before it may have ended its doubt.
        held = await editing.read_one(user, each.memory.memory_id)
        await statuses.forget_held(user, held, ("", _CARRIED), actor=actor)
    await _take_out(user, found.values, actor=actor)
    taken = replace(found, near=(), conversations={})
    left = await also_stating(user, memory, words, near)
    return Carried(memory, _places(left)[:MOST], _places(taken)[:MOST])


async def _take_out(user: UserRows, values: Sequence[ProfileValue], *, actor: str) -> None:
    """Take values out of the profile, as a new version of it."""
    profile, said_at = await profiles.read_profile(user)
    state = ProfileState(profile, said_at)
    for value in values:
        state.remove(value.path, value.text if value.is_item else None)
    await write_state(user, profile, said_at, state, actor=actor)


async def _earlier_words(user: UserRows, memory: Memory) -> str:
    """The last words of a memory that differ from those it has; empty without any."""
    for content, sealed in await also_stated.earlier_words(user, memory.memory_id, _VERSIONS):
        words = content
        if sealed is not None:
            words = str(opened(user.scope, MEMORY, sealed, memory.memory_id)["content"])
        if words != memory.content:
            return words
    return ""


async def _keep_forgotten(user: UserRows, held: EditableMemory, actor: str) -> None:
    """Keep the words before a correction as a forgotten memory, unless one has them already.

    Without messages there is nothing that it would withhold.
    """
    before = held.memory
    if not before.sources:
        return
    alike = await also_stated.forgotten_with(user, before.memory_id, before.content)
    known = await editing.read(user, alike)
    if any(each.memory.content == before.content for each in known.values()):
        return
    at = await users.database_now(user.connection)
    made = replace(
        before,
        memory_id=uuid7(),
        status="forgotten",
        created_at=at,
        updated_at=at,
        expires_at=None,
        superseded_by=None,
        supersedes=(),
        entities=(),
        version=1,
        job_id=None,
        doubt=None,
        may_replace=(),
    )
    number = 1 + await keyword_index.reserve_numbers(user, texts=1, documents=1, terms=0)
    earlier = EditableMemory(
        made, held.said_at, (), number, 0, embedding_state="pending", sealed=held.sealed
    )
    await memories.insert(user, [earlier])
    await memories.add_sources(user, [(made.memory_id, source) for source in before.sources])
    if not await is_sealed_next(user, held, earlier):
        await reindex(user, [made.memory_id], sweep=False, new=True)
    event = ledger.ChangeEvent("created", 1, _EARLIER, made.memory_id, new_status=made.status)
    await ledger.record(user, None, [event], actor=actor)


def _places(found: AlsoStating) -> list[Place]:
    return [
        *(
            Place("memory_id", str(each.memory_id), each.content)
            for each in [*(each.memory for each in found.same), *found.near]
        ),
        *(Place("profile_path", value.name, value.text) for value in found.values),
        *(
            Place("conversation_id", conversation_id, text)
            for conversation_id, text in found.conversations.items()
        ),
    ]
