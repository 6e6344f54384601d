"""Joins what a roll-back brings back to what was said in the same words while it had ended.

Had it not ended, those words would have confirmed it. It takes over what states the other memory,
statement by statement, so that each goes with its own source. The other one is SUPERSEDED by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from hitherto_extraction.pipeline.answer import NewItem
from hitherto_extraction.pipeline.dedupe import find_duplicate
from hitherto_extraction.pipeline.draft import hides
from hitherto_extraction.pipeline.nearby_memories import look_around
from hitherto_extraction.pipeline.reply_vectors import Vectors
from hitherto_extraction.pipeline.versions import write_next
from hitherto_extraction.storage import (
    editing,
    ledger,
    memories,
    mentions,
    reconciliation,
    statements,
    users,
)
from hitherto_extraction.storage import rollback as storage
from hitherto_extraction.storage.known_memories import CurrentMemory
from hitherto_extraction.storage.reconciliation import MemoryLinks
from hitherto_extraction.storage.statements import NewStatement
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.embeddings.active_embedder import active_model

_ACTOR = "reconciliation"
"""As whatever joins memories, so that RestoreMemory parts them."""
_JOINED = "another memory says the same"
_STATING = ("said", "updated", "joined")
_NEAR = 0.9
"""The cosine from which words are compared; those that are equal are nearer."""


async def find(user: UserRows, back: Sequence[UUID]) -> dict[UUID, UUID]:
    """For each of these current memories another one in the same words, if they may be joined."""
    if not back:
        return {}
    known = await editing.read(user, back)
    items = [_item(i, known[memory_id]) for i, memory_id in enumerate(back)]
    active = await active_model(user.connection)
    model = active[0] if active is not None else ""
    held = await reconciliation.clear_vectors(user, back, model=model)
    found = {("new", i): held[each] for i, each in enumerate(back) if each in held}
    rows, neighbours = await look_around(
        user, items, Vectors(model=model, found=found), also=back, threshold=_NEAR
    )
    pairs: dict[UUID, UUID] = {}
    for item, memory_id in zip(items, back, strict=True):
        one = rows[memory_id]
        near = [
            each
            for each in neighbours.get(item.index, ())
            if each.original is None and each.status == one.status and each.memory_id not in back
        ]
        same = find_duplicate(item.type, item.content, near, sensitive=hides(one))
        if same is not None and same.memory_id not in pairs.values():
            pairs[memory_id] = same.memory_id
    links = await reconciliation.read_links(user, pairs.values())
    corrected = await _corrected(user, list(pairs.values()))
    undone = await reconciliation.settled_before(user, list(pairs.values()))
    return {
        memory_id: other
        for memory_id, other in pairs.items()
        if _fit(rows[memory_id], rows[other], links[other])
        and other not in corrected
        and (other, memory_id, "superseded") not in undone
    }


async def take_over(user: UserRows, memory_id: UUID, *, into: UUID) -> None:
    """Let one memory stand for another that says the same, with all that states it."""
    at = await users.database_now(user.connection)
    held = await editing.read(user, [memory_id, into])
    said = (await statements.of_memories(user, [memory_id]))[memory_id]
    stating = [each for each in said if each.action in _STATING and not each.taken]
    version = held[into].memory.version
    await statements.record(
        user,
        [
            NewStatement(
                each.action, version, False, each.origin, each.said_at, each.said, into,
                each.conversation_id, each.document_id, each.job_id,
            )
            for each in stating
        ],
    )  # fmt: skip
    encrypts = (await users.encryption_of(user)).on
    await reconciliation.join_sources(user, memory_id, into=into, quotes=not encrypts)
    if not held[into].sealed:
        named = [pair for each in stating for pair in each.said.get("entities", ())]
        await mentions.mention(user, [(into, name, kind) for name, kind in named])
    after = held[memory_id].changed(status="superseded", superseded_by=into, doubt=None)
    event = await write_next(
        user, held[memory_id], after, "superseded", _JOINED, at=at, related=into
    )
    await memories.add_superseded(user, memory_id, by=into)
    await ledger.record(user, None, [event], actor=_ACTOR)


def _item(index: int, held: editing.EditableMemory) -> NewItem:
    memory = held.memory
    return NewItem(
        index, memory.type, memory.content, memory.detail, memory.importance, memory.confidence,
        tuple(memory.tags), tuple(memory.keywords),
    )  # fmt: skip


def _fit(back: CurrentMemory, other: CurrentMemory, links: MemoryLinks) -> bool:
    """Whether a memory in the same words would have confirmed one, and nothing about it is open."""
    return (
        back.sealed == other.sealed
        and hides(back) == hides(other)
        and not (back.is_over(other.said_at) or other.doubtful or links.may_replace)
    )


async def _corrected(user: UserRows, memory_ids: Sequence[UUID]) -> set[UUID]:
    """Those of these memories of which a version was made by hand: they stay as they are."""
    versions = await storage.read_versions(user, memory_ids)
    said = await statements.of_memories(user, memory_ids)
    explained = {(m, each.version) for m, found in said.items() for each in found}
    return {
        memory_id
        for memory_id, found in versions.items()
        if any(each.job_id is None and (memory_id, each.version) not in explained for each in found)
    }
