"""Writes a plan: every row of one reply, on the connection of the worker's last transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from hitherto_extraction.pipeline.events import events_of
from hitherto_extraction.pipeline.indexing import IndexEntry, index_plan, last_rewordings
from hitherto_extraction.pipeline.operations import Closure, Creation, Occasion, Plan, Rewrite
from hitherto_extraction.pipeline.reply_vectors import Vectors
from hitherto_extraction.pipeline.sealed_memories import is_sensitive
from hitherto_extraction.pipeline.source_statements import statements_of
from hitherto_extraction.pipeline.versions import write_sealed
from hitherto_extraction.storage import (
    editing,
    ledger,
    memories,
    profiles,
    sealed_memories,
    statements,
    users,
)
from hitherto_extraction.storage.statements import NewStatement
from hitherto_shared.database.arrays import Texts
from hitherto_shared.database.pool import Connection
from hitherto_shared.database.together import together
from hitherto_shared.embeddings.active_embedder import active_model
from hitherto_shared.models import Scope


async def write_plan(
    connection: Connection,
    occasion: Occasion,
    plan: Plan,
    vectors: Vectors,
    *,
    also_said: Sequence[NewStatement] = (),
) -> None:
    """Write everything in `plan`, with its history and its index entries.

    `also_said` are statements about something else than memories, to be recorded with those.
    """
    scope = occasion.scope
    plan = replace(plan, sealed=_to_seal(plan, occasion))
    vectors, numbers = await together(
        connection,
        _of_active_model(connection, vectors),
        index_plan(connection, scope, plan, heard=not occasion.encrypts),
    )
    await _create(connection, occasion, plan, vectors, numbers)
    reworded = last_rewordings(plan)
    for rewrite in plan.rewrites:
        if rewrite.after.memory_id in plan.sealed:
            await _rewrite_sealed(connection, occasion, rewrite, vectors)
            continue
        last = reworded.get(rewrite.after.memory_id) is rewrite
        indexed = numbers[rewrite.after.memory_id] if last else None
        await _rewrite(connection, occasion, rewrite, vectors, indexed)
    for closure in plan.closures:
        await _close(connection, occasion, closure)
    for memory_id, said_at in plan.confirmed.items():
        await memories.confirm(connection, scope, memory_id, said_at)
    for memory_id, challenged in plan.challenges:
        await memories.add_challenge(connection, scope, memory_id, challenged)
    await memories.add_sources(connection, scope, list(dict.fromkeys(plan.sources)))
    await profiles.mention_entities(
        connection,
        scope,
        [
            (memory_id, entity.name, entity.type)
            for memory_id, item in plan.mentions
            for entity in item.entities
            if memory_id not in plan.sealed
        ],
    )
    await statements.record(connection, scope, [*also_said, *statements_of(plan, occasion)])
    await ledger.record(
        connection,
        scope,
        occasion.job_id,
        events_of(plan, occasion),
        actor=occasion.actor,
    )


def _to_seal(plan: Plan, occasion: Occasion) -> frozenset[UUID]:
    """The memories of a plan whose words must not be anywhere in clear once it is written."""
    if not occasion.encrypts:
        # If the user has turned encryption off, sealed memories stay sealed.
        return plan.sealed
    marked = occasion.marked
    new = {made.memory_id for made in plan.creations if is_sensitive(made.item.type, marked)}
    known = {change.after.memory_id for change in plan.rewrites if marked}
    return plan.sealed | plan.sensitive | new | known


async def _of_active_model(connection: Connection, vectors: Vectors) -> Vectors:
    """The vectors, or none if another model has become active since they were computed."""
    active = await active_model(connection)
    return vectors if active is not None and active[0] == vectors.model else Vectors()


async def _create(
    connection: Connection,
    occasion: Occasion,
    plan: Plan,
    vectors: Vectors,
    numbers: Mapping[UUID, IndexEntry],
) -> None:
    scope, creations = occasion.scope, plan.creations
    rows = [_row(occasion, made, vectors, numbers[made.memory_id]) for made in creations]
    await memories.insert(connection, scope, rows, sealed=plan.sealed)
    for made in creations:
        if made.superseded_by is not None:
            await memories.add_superseded(connection, scope, made.memory_id, by=made.superseded_by)
    await memories.write_vectors(
        connection,
        scope,
        [
            (made.memory_id, made.status, vectors.found[made.vector_of])
            for made in creations
            if made.vector_of in vectors.found and made.memory_id not in plan.sealed
        ],
        model=vectors.model,
    )
    if occasion.encrypts:
        hidden = [made for made in creations if made.memory_id in plan.sealed]
        await _seal_vectors(connection, scope, hidden, vectors)
        return
    await memories.write_source_vectors(
        connection,
        scope,
        [
            (made.memory_id, vectors.found["source", made.position])
            for made in creations
            if made.list_name == "new" and ("source", made.position) in vectors.found
        ],
        model=vectors.model,
    )


async def _seal_vectors(
    connection: Connection,
    scope: Scope,
    creations: Sequence[Creation],
    vectors: Vectors,
) -> None:
    for made in creations:
        vector = vectors.found.get(made.vector_of)
        if vector is None:
            # The sweep creates it.
            await users.leave_to_seal(connection, scope)
            continue
        await sealed_memories.write_vector(
            connection, scope, made.memory_id, vector, model=vectors.model, text_version=1
        )


def _row(
    occasion: Occasion, made: Creation, vectors: Vectors, indexed: IndexEntry
) -> dict[str, Any]:
    item = made.item
    has_vector = made.vector_of in vectors.found
    return {
        "memory_id": made.memory_id,
        "type": item.type,
        "content": item.content,
        "detail": item.detail,
        "importance": item.importance,
        "confidence": item.confidence,
        "source": occasion.source,
        "origin": made.evidence.origin,
        "status": made.status,
        "tags": Texts(item.tags),
        "keywords": Texts(item.keywords),
        "questions": Texts(item.questions),
        "context": dict(item.context),
        "conversation_id": occasion.conversation_id,
        "valid_from": made.valid_from,
        "valid_to": made.valid_to,
        "said_at": made.evidence.said_at,
        "superseded_by": made.superseded_by,
        "supersedes": [],
        "challenges": list(made.challenges),
        "at": occasion.at,
        "job_id": occasion.job_id,
        "lexical_no": indexed.lexical_no,
        "lexical_length": indexed.length,
        "embedding_state": "stored" if has_vector else "pending",
        "metadata": dict(occasion.kept.get("metadata", {})),
        "expires_at": occasion.kept.get("expires_at"),
        "sensitive": is_sensitive(item.type, occasion.marked),
    }


async def _rewrite(
    connection: Connection,
    occasion: Occasion,
    change: Rewrite,
    vectors: Vectors,
    indexed: IndexEntry | None,
) -> None:
    after = change.after
    vector = vectors.found.get(change.vector_of) if change.vector_of is not None else None
    state = None
    if change.vector_of is not None:
        state = "pending" if vector is None else "stored"
    await memories.rewrite(
        connection,
        occasion.scope,
        {
            "memory_id": after.memory_id,
            "content": after.content,
            "detail": after.detail,
            "importance": after.importance,
            "confidence": after.confidence,
            "origin": after.origin,
            "status": after.status,
            "tags": list(after.tags),
            "keywords": list(after.keywords),
            "questions": list(after.questions),
            "said_at": after.said_at,
            "lexical_no": indexed.lexical_no if indexed else None,
            "lexical_length": indexed.length if indexed else None,
            "embedding_state": state,
            "at": occasion.at,
            "job_id": occasion.job_id,
        },
    )
    if vector is not None:
        found = [(after.memory_id, after.status, vector)]
        await memories.write_vectors(connection, occasion.scope, found, model=vectors.model)
    kind, position = change.vector_of or ("", 0)
    source = vectors.found.get(("source", position)) if kind == "new" else None
    if source is not None and not occasion.encrypts:
        await memories.write_source_vectors(
            connection, occasion.scope, [(after.memory_id, source)], model=vectors.model
        )


async def _rewrite_sealed(
    connection: Connection, occasion: Occasion, change: Rewrite, vectors: Vectors
) -> None:
    """The same for a memory that is sealed, or becomes sealed."""
    scope, after = occasion.scope, change.after
    held = await editing.read_one(connection, scope, after.memory_id)
    vector = vectors.found.get(change.vector_of) if change.vector_of is not None else None
    memory = replace(
        held.memory,
        content=after.content,
        detail=after.detail,
        importance=after.importance,
        confidence=after.confidence,
        origin=after.origin,
        status=after.status,
        tags=list(after.tags),
        keywords=list(after.keywords),
    )
    await write_sealed(
        connection,
        scope,
        held,
        replace(
            held,
            memory=memory,
            said_at=after.said_at,
            challenges=held.challenges if after.status == "quarantined" else (),
        ),
        at=occasion.at,
        vector=None if vector is None else (vectors.model, vector),
        job_id=occasion.job_id,
    )


async def _close(connection: Connection, occasion: Occasion, closure: Closure) -> None:
    await memories.close(
        connection,
        occasion.scope,
        {
            "memory_id": closure.before.memory_id,
            "status": closure.status,
            "importance": closure.importance,
            "valid_to": closure.valid_to,
            "superseded_by": closure.superseded_by,
            "at": occasion.at,
            "job_id": occasion.job_id,
        },
    )
