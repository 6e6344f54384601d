"""Writes the next version of a whole memory, sealed or in clear, with its history entry.

The caller holds the user's row, and records the entry.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from uuid import UUID

from hitherto_extraction.storage import editing, keyword_index, sealed_memories, users
from hitherto_extraction.storage.editing import EditableMemory
from hitherto_extraction.storage.ledger import ChangeEvent
from hitherto_extraction.storage.sealed_rows import SEALED, key_of_memory
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.embeddings.active_embedder import active_model
from hitherto_shared.embeddings.protocol import Vector
from hitherto_shared.errors import Conflict


def check_version(what: str, actual: int, expected: int) -> None:
    """Raise a Conflict unless a change is based on the present version; 0: on any."""
    if expected and expected != actual:
        raise Conflict(
            f"the {what} has changed since that version: read it again and reapply the change",
            reason="VERSION_MISMATCH",
            metadata={"expected": str(expected), "actual": str(actual)},
        )


async def write_next(
    user: UserRows,
    held: EditableMemory,
    after: EditableMemory,
    action: str,
    reason: str,
    *,
    at: datetime,
    vector: tuple[str, Vector] | None = None,
    job_id: UUID | None = None,
    related: UUID | None = None,
) -> ChangeEvent:
    """Store the next version of a memory, sealed if need be; returns its history entry.

    The reason must not quote a sealed memory. `vector` is that of the new content of a sealed
    memory, with the name of its model; `related` is the other memory concerned.
    """
    if await is_sealed_next(user, held, after):
        await write_sealed(user, held, after, at=at, vector=vector, job_id=job_id)
    else:
        after = replace(after, sealed=False)
        await editing.write_version(user, after, at=at, job_id=job_id)
    memory = held.memory
    return ChangeEvent(
        action,
        memory.version + 1,
        reason,
        memory.memory_id,
        old_status=memory.status,
        new_status=after.memory.status,
        related=related,
    )


async def is_sealed_next(user: UserRows, held: EditableMemory, after: EditableMemory) -> bool:
    """Whether the next version is to be stored sealed; then the user's key must be at hand."""
    memory = after.memory
    key = await key_of_memory(user, memory.type, memory.sensitive, stays_sealed=held.sealed)
    return key is not None


async def write_sealed(
    user: UserRows,
    held: EditableMemory,
    after: EditableMemory,
    *,
    at: datetime,
    vector: tuple[str, Vector] | None,
    job_id: UUID | None,
) -> EditableMemory:
    """Store the next version of a memory sealed, whether or not it was sealed before; returns it.

    What was in clear until now (words in the index, vectors, versions, history, mentions) is left
    to the sweep. `vector`, of the new content, is stored if its model is active.
    """
    memory_id = held.memory.memory_id
    reworded = after.memory.content != held.memory.content
    kept: list[tuple[str, Vector, int]] = []
    number = held.lexical_no
    if not held.sealed:
        if not reworded:
            kept = await sealed_memories.clear_vectors(user, memory_id)
        # Under a new number its old words belong to nothing, and are swept.
        number = 1 + await keyword_index.reserve_numbers(
            user, texts=1, documents=0, terms=-held.lexical_length
        )
    target = replace(
        after.changed(sensitive=True),
        lexical_no=number,
        lexical_length=0,
        embedding_state=SEALED,
        sealed=True,
    )
    target = await editing.write_version(user, target, at=at, job_id=job_id, reworded=reworded)
    if reworded and vector is not None:
        active = await active_model(user.connection)
        if active is not None and active[0] == vector[0]:
            kept = [(*vector, target.memory.version)]
    for model, each, text_version in kept:
        await sealed_memories.write_vector(
            user, memory_id, each, model=model, text_version=text_version
        )
    unembedded = not kept and (reworded or not held.sealed)
    if unembedded or not held.sealed:
        await users.leave_to_seal(user)
    return target
