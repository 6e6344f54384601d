"""Compares and writes sealed memories, which are in no index and are opened one by one.

They are few: only the newest `MOST` of a user count. The thresholds for matches are the same as in
the indexes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

import numpy as np

from hitherto_extraction.pipeline.answer import NewItem
from hitherto_extraction.pipeline.dedupe import CANDIDATE_STATUSES
from hitherto_extraction.storage import (
    editing,
    keyword_index,
    sealed_memories,
    users,
)
from hitherto_extraction.storage.editing import EditableMemory
from hitherto_extraction.storage.known_memories import CurrentMemory
from hitherto_extraction.storage.sealed_memories import OpenedMemory
from hitherto_extraction.storage.sealed_rows import SEALED, SENSITIVE_TYPES
from hitherto_shared.database.pool import Connection
from hitherto_shared.embeddings.active_embedder import active_model
from hitherto_shared.embeddings.protocol import Vector
from hitherto_shared.models import CURRENT_STATUSES, Scope
from hitherto_shared.text.bm25 import Statistics, TermPostings
from hitherto_shared.text.terms import count_terms

_COMPARED = (*CANDIDATE_STATUSES, "superseded")
"""Statuses of memories that a new statement may repeat; a merged one is represented by its
successor."""


def is_sensitive(kind: str, marked: bool) -> bool:
    """Whether encryption seals a memory: by its type, or if it is marked."""
    return marked or kind in SENSITIVE_TYPES


async def find_near(
    connection: Connection,
    scope: Scope,
    items: Sequence[NewItem],
    vectors: Mapping[int, Vector],
    *,
    model: str,
    at_least: float,
    limit: int,
) -> dict[tuple[int, UUID], float | None]:
    """Sealed memories that items may repeat, as in `find_same_words` and `find_neighbours`.

    Returns:
        The cosine by the item's index and the memory; None if only the words are the same.
    """
    if not items:
        return {}
    held = await sealed_memories.read_newest(connection, scope, statuses=_COMPARED, model=model)
    if not held:
        return {}
    # In a thread: comparing thousands would block the event loop.
    return await asyncio.to_thread(_near, held, items, vectors, at_least=at_least, limit=limit)


def _near(
    held: Sequence[OpenedMemory],
    items: Sequence[NewItem],
    vectors: Mapping[int, Vector],
    *,
    at_least: float,
    limit: int,
) -> dict[tuple[int, UUID], float | None]:
    found: dict[tuple[int, UUID], float | None] = {}
    for item in items:
        alike = [each for each in held if each.known.type == item.type]
        words = item.content.lower()
        found |= {
            (item.index, each.known.memory_id): None
            for each in alike
            if each.known.content.lower() == words
        }
        if item.index in vectors:
            near = _cosines(alike, vectors[item.index])
            near.sort(key=lambda pair: -pair[1])
            found |= {
                (item.index, memory_id): cosine
                for memory_id, cosine in near[:limit]
                if cosine >= at_least
            }
    return found


def _cosines(held: Sequence[OpenedMemory], vector: Vector) -> list[tuple[UUID, float]]:
    having = [
        (each.known.memory_id, each.vector)
        for each in held
        if each.vector is not None and len(each.vector) == len(vector)
    ]
    if not having:
        return []
    matrix = np.stack([other for _, other in having])
    lengths = np.linalg.norm(matrix, axis=1) * np.linalg.norm(vector)
    # A zero vector is near nothing.
    cosines = np.divide(
        matrix @ vector, lengths, out=np.full(len(having), -1.0, np.float32), where=lengths > 0
    )
    return [(memory_id, float(each)) for (memory_id, _), each in zip(having, cosines, strict=True)]


async def read_current(connection: Connection, scope: Scope) -> dict[UUID, CurrentMemory]:
    """The newest sealed memories that are current, by id."""
    held = await sealed_memories.read_newest(connection, scope, statuses=CURRENT_STATUSES)
    return {each.known.memory_id: each.known for each in held}


def postings_of(
    held: Sequence[CurrentMemory], terms: Sequence[str], statistics: Statistics
) -> tuple[list[TermPostings], Statistics]:
    """The keyword index entries of sealed memories, and its statistics with them.

    They are already counted as documents; their terms are not.
    """
    counted = {known.lexical_no: count_terms(known.content, *known.keywords) for known in held}
    wanted = set(terms)
    postings = []
    for term in wanted:
        numbers = [number for number, counts in counted.items() if counts[term]]
        if numbers:
            postings.append(
                TermPostings(
                    term,
                    numbers,
                    [counted[number][term] for number in numbers],
                    [counted[number].total() for number in numbers],
                )
            )
    total = sum(counts.total() for counts in counted.values())
    return postings, Statistics(statistics.documents, statistics.terms + total)


def tags_of(tags: Sequence[str], held: Sequence[CurrentMemory], limit: int) -> list[str]:
    """The tags in use with those of sealed memories, which follow."""
    sealed = Counter(tag for known in held for tag in known.tags)
    return list(dict.fromkeys([*tags, *(tag for tag, _ in sealed.most_common())]))[:limit]


async def write_sealed(
    connection: Connection,
    scope: Scope,
    held: EditableMemory,
    after: EditableMemory,
    *,
    at: datetime,
    vector: tuple[str, Vector] | None = None,
    job_id: UUID | None = None,
) -> None:
    """Store the next version of a memory sealed, whether or not it was sealed before.

    What was in clear until now (words in the index, vectors, versions, history, mentions) is left
    to the sweep.

    Args:
        connection: In the transaction of a caller that holds the user's row and records the
            history.
        scope: The user.
        held: The present memory.
        after: Its new state.
        at: The database's clock.
        vector: Of the new content, with the name of its model; stored if that model is active.
        job_id: The responsible job, if any.
    """
    memory_id = held.memory.memory_id
    reworded = after.memory.content != held.memory.content
    kept: list[tuple[str, Vector, int]] = []
    number = held.lexical_no
    if not held.sealed:
        if not reworded:
            kept = await sealed_memories.clear_vectors(connection, scope, memory_id)
        # Under a new number its old words belong to nothing, and are swept.
        number = 1 + await keyword_index.reserve_numbers(
            connection, scope, texts=1, documents=0, terms=-held.lexical_length
        )
    target = replace(
        after,
        memory=replace(after.memory, sensitive=True),
        lexical_no=number,
        lexical_length=0,
        embedding_state=SEALED,
        sealed=True,
    )
    await editing.write_version(connection, scope, target, at=at, job_id=job_id, reworded=reworded)
    active = await active_model(connection)
    if reworded and vector is not None and active is not None and active[0] == vector[0]:
        kept = [(*vector, held.memory.version + 1)]
    for model, each, text_version in kept:
        await sealed_memories.write_vector(
            connection, scope, memory_id, each, model=model, text_version=text_version
        )
    unembedded = not kept and (reworded or not held.sealed)
    if unembedded or not held.sealed:
        await users.leave_to_seal(connection, scope)
