"""Writes merges, with history, indexes and vectors, and reverts them.

A merge supersedes its originals. Reverted, they are active again and the merged memory is archived.
Runs in the transaction of a caller that holds the user's row.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from hitherto_extraction.consolidation.groups import mark_of
from hitherto_extraction.consolidation.merging import Merge, merged_memory
from hitherto_extraction.pipeline import doubts
from hitherto_extraction.pipeline.evidence import MAX_SOURCE_TEXT
from hitherto_extraction.pipeline.indexing import terms_of
from hitherto_extraction.pipeline.versions import write_next
from hitherto_extraction.storage import (
    consolidation,
    editing,
    keyword_index,
    known_memories,
    ledger,
    memories,
    users,
)
from hitherto_extraction.storage.consolidation import Member
from hitherto_extraction.storage.editing import EditableMemory
from hitherto_extraction.storage.ledger import ChangeEvent
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.encryption.at_hand import KeyNeeded
from hitherto_shared.identifiers import uuid7
from hitherto_shared.models import CURRENT_STATUSES, Memory

ACTOR = "consolidation"
_REASON = "merged with memories that say much the same"
_SOURCES = 4
"""Number of an original's newest messages whose words count for the merged memory."""
UNDONE = "the merge was undone"
_UNDOABLE = (*CURRENT_STATUSES, "quarantined", "forgotten", "archived")
_CURRENT = (*CURRENT_STATUSES, "quarantined")


async def write_merge(
    user: UserRows,
    merge: Merge,
    *,
    model: str | None,
    at: datetime,
    job_id: UUID,
) -> Member | None:
    """Carry out one merge; None if an original is no longer as the model was shown it.

    `model` names the embedding model of the vectors; None: they can no longer be used. If the user
    has encryption on, no index gets words of messages.
    """
    originals = await _originals(user, merge)
    if originals is None:
        return None
    made = merged_memory(merge, originals, memory_id=uuid7(), at=at, job_id=job_id)
    encrypts = (await users.encryption_of(user)).on
    said = {} if encrypts else await read_words(user, made.memory.supersedes)
    words = source_words(said, merge.originals)
    await _store(user, made, words, merge, model)
    memory, merged_id = made.memory, made.memory.memory_id
    events = [
        ChangeEvent(
            "created",
            1,
            f"merged from {len(originals)} memories",
            merged_id,
            new_status=memory.status,
        )
    ]
    for original in originals:
        after = original.changed(status="superseded", superseded_by=merged_id)
        event = await write_next(
            user, original, after, "superseded", _REASON, at=at, job_id=job_id, related=merged_id
        )
        events.append(event)
    await ledger.record(user, job_id, events, actor=ACTOR)
    return Member(
        memory_id=merged_id,
        version=1,
        type=memory.type,
        content=memory.content,
        origin=memory.origin,
        tags=memory.tags,
        valid_from=memory.valid_from,
        said_at=made.said_at,
    )


async def _originals(user: UserRows, merge: Merge) -> list[EditableMemory] | None:
    """The originals of a merge; None if one is no longer as the model was shown it."""
    ids = [each.memory_id for each in merge.originals]
    try:
        found = await editing.read(user, ids)
    except KeyNeeded:
        # One has been sealed since: sensitive memories are not merged.
        return None
    if any(_changed(each, found.get(each.memory_id)) for each in merge.originals):
        return None
    if await consolidation.may_be_replaced(user, ids):
        return None
    return [found[each.memory_id] for each in merge.originals]


async def _store(
    user: UserRows, made: EditableMemory, words: str, merge: Merge, model: str | None
) -> None:
    """Store a merged memory, indexed with its source `words`, and its vectors of `model`."""
    vector = merge.content_vector if model is not None else None
    memory, merged_id = made.memory, made.memory.memory_id
    terms = terms_of(memory.content, words, memory.keywords, made.questions)
    number = 1 + await keyword_index.reserve_numbers(
        user, texts=1, documents=1, terms=terms.total()
    )
    await keyword_index.append(user, {number: terms})
    made = replace(
        made,
        lexical_no=number,
        lexical_length=terms.total(),
        embedding_state="pending" if vector is None else "stored",
    )
    await memories.insert(user, [made])
    await consolidation.inherit(user, memory.supersedes, into=merged_id)
    if vector is None or model is None:
        return
    await memories.write_vectors(user, [(merged_id, "active", vector)], model=model)
    # A message may have been sealed or deleted since the vector was computed.
    if merge.words_vector is not None and words == merge.words:
        await memories.write_source_vectors(user, [(merged_id, merge.words_vector)], model=model)


def _changed(shown: Member, now: EditableMemory | None) -> bool:
    return (
        now is None
        or now.memory.version != shown.version
        or now.memory.status != "active"
        or now.memory.sensitive
        or bool(now.memory.may_replace)
    )


async def read_words(user: UserRows, memory_ids: Sequence[UUID]) -> dict[UUID, list[str]]:
    """For each memory the words of its messages that are stored in clear."""
    said = await known_memories.source_words(
        user, memory_ids, newest=_SOURCES, characters=MAX_SOURCE_TEXT
    )
    return {memory_id: [text for _, text in found] for memory_id, found in said.items()}


def source_words(words: Mapping[UUID, Sequence[str]], originals: Sequence[Member]) -> str:
    """The source words of several memories together, each once, up to `MAX_SOURCE_TEXT`."""
    said = (text for each in originals for text in words.get(each.memory_id, ()) if text)
    return "\n".join(dict.fromkeys(said))[:MAX_SOURCE_TEXT]


async def read_originals(user: UserRows, memory_ids: Sequence[UUID]) -> list[Memory]:
    """The present state of the originals of a merge that was undone, the oldest first."""
    found = await editing.read(user, memory_ids)
    held = [each.memory for each in found.values()]
    return sorted(held, key=lambda memory: (memory.created_at, memory.memory_id))


async def undo_merge(
    user: UserRows,
    memory_id: UUID,
    *,
    actor: str,
    reason: str,
    share: bool = False,
    archive: bool = True,
) -> list[Memory]:
    """Take a merged memory apart; returns the originals, ACTIVE again, the oldest first.

    With `share`, a merged memory of any status is taken apart, and its status is passed on to its
    originals: a contradicted one leaves contradicted ones.

    The caller holds the user's row. Originals with another status since stay unchanged. The merged
    memory becomes ARCHIVED: neither reads nor the duplicate search find it any more. Without
    `archive`, it is left to the caller, and only no longer names them. What became of the originals
    in the end is to be left alone (`leave_alone`).

    Raises:
        NotFound: The user has no such memory.
        WrongState: It was not created by consolidation, was replaced, or replaces nothing any more.
    """
    merged = await editing.read_one(user, memory_id)
    if merged.memory.source != "consolidation":
        raise editing.status_conflict(
            merged.memory, "this memory was not made by consolidation, so there is nothing to undo"
        )
    if merged.memory.status not in _UNDOABLE and not share:
        raise editing.status_conflict(
            merged.memory,
            f"this memory is {merged.memory.status.upper()}: see the memory that replaced it",
        )
    held = await editing.read(user, merged.memory.supersedes)
    originals = [
        each
        for each in held.values()
        if each.memory.status == "superseded" and each.memory.superseded_by == memory_id
    ]
    if not originals:
        raise editing.status_conflict(
            merged.memory,
            "this memory no longer replaces any memory, so there is nothing to restore",
        )
    at = await users.database_now(user.connection)
    events = []
    back = {each.memory.memory_id for each in originals}
    ended = merged.memory if share and merged.memory.status not in _CURRENT else None
    for each in originals:
        after = each.changed(status="active", superseded_by=None)
        events.append(
            await write_next(user, each, after, "restored", reason, at=at, related=memory_id)
        )
        if ended is not None and ended.superseded_by != each.memory.memory_id:
            events.append(await _end_too(user, after, ended, reason, at))
    if not archive:
        for each in originals:
            await memories.remove_superseded(user, each.memory.memory_id, by=memory_id)
    else:
        events.append(await _archive(user, merged, back, reason, at))
    await ledger.record(user, None, events, actor=actor)
    await doubts.follow(user, [memory_id, *back], actor=actor)
    return await read_originals(user, sorted(back))


async def _archive(
    user: UserRows, merged: EditableMemory, back: Collection[UUID], reason: str, at: datetime
) -> ChangeEvent:
    """Let a merged memory be found no more, once its originals are back."""
    if merged.memory.superseded_by is not None:
        await memories.remove_superseded(
            user, merged.memory.memory_id, by=merged.memory.superseded_by
        )
    left = [each for each in merged.memory.supersedes if each not in back]
    archived = replace(merged, challenges=()).changed(
        status="archived", superseded_by=None, supersedes=left
    )
    return await write_next(user, merged, archived, "archived", reason, at=at)


async def _end_too(
    user: UserRows, original: EditableMemory, ended: Memory, reason: str, at: datetime
) -> ChangeEvent:
    """Let an original that is active again end as its merged memory has ended."""
    before = original.changed(version=original.memory.version + 1)
    valid_to = max(ended.valid_to, before.memory.valid_from) if ended.valid_to else None
    after = before.changed(
        status=ended.status, superseded_by=ended.superseded_by, valid_to=valid_to
    )
    if ended.superseded_by is not None:
        await memories.add_superseded(user, before.memory.memory_id, by=ended.superseded_by)
    return await write_next(
        user,
        before,
        after,
        ended.status,
        reason,
        at=at,
        # By the job that ended the merged memory, so that it is rolled back with that job.
        job_id=ended.job_id,
        related=ended.superseded_by,
    )


async def leave_alone(user: UserRows, memory_ids: Sequence[UUID]) -> None:
    """Let the tags of originals count as processed: nothing merges them again at once."""
    held = await editing.read(user, memory_ids)
    # A record holds the tag in clear, and sealed memories are never merged by it.
    tags = sorted({tag for each in held.values() if not each.sealed for tag in each.memory.tags})
    members = await consolidation.read_members(user, tags, model="")
    await consolidation.mark(user, [mark_of(tag, members) for tag in tags], job_id=None)
