"""Compares sealed memories, which are in no index and are opened one by one.

They are few: of those near a text only the newest `MOST` of a user count. The thresholds for
matches are the same as in the indexes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from uuid import UUID

import numpy as np

from hitherto_extraction.pipeline.answer import NewItem
from hitherto_extraction.pipeline.dedupe import CANDIDATE_STATUSES
from hitherto_extraction.pipeline.reply_vectors import Vectors
from hitherto_extraction.storage import reconciliation, sealed_memories
from hitherto_extraction.storage.known_memories import CurrentMemory
from hitherto_extraction.storage.sealed_memories import OpenedMemory
from hitherto_shared.database.together import together
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.embeddings.protocol import Vector
from hitherto_shared.models import CURRENT_STATUSES
from hitherto_shared.offloading import in_thread
from hitherto_shared.text.bm25 import Statistics, TermPostings
from hitherto_shared.text.terms import count_terms

_COMPARED = (*CANDIDATE_STATUSES, "superseded")
"""Statuses of memories that a new statement may repeat; a merged one is represented by its
successor."""


async def find_near(
    user: UserRows, items: Sequence[NewItem], vectors: Vectors, *, at_least: float, limit: int
) -> dict[tuple[int, UUID], float | None]:
    """Sealed memories that items may repeat, as in `find_same_words` and `find_neighbours`.

    Returns:
        The cosine by the item's index and the memory; None if only the words are the same.
    """
    if not items:
        return {}
    model, wanted = vectors.model, vectors.of_new
    held = await sealed_memories.read_newest(user, statuses=_COMPARED, model=model)
    if not held:
        return {}
    # In a thread: comparing thousands would block the event loop.
    return await in_thread(_near, held, items, wanted, at_least=at_least, limit=limit)


async def nearest(
    user: UserRows, memory_ids: Sequence[UUID], *, model: str, limit: int
) -> list[tuple[UUID, UUID, float]]:
    """The current memories nearest to each, sealed or not, as (memory, other, cosine).

    The nearest of all come first.
    """
    clear, held = await together(
        user.connection,
        reconciliation.nearest(user, memory_ids, model=model, limit=limit),
        sealed_memories.read_newest(user, statuses=CURRENT_STATUSES, model=model),
    )
    if not held:
        return list(clear)
    wanted = set(memory_ids)
    own = {
        each.known.memory_id: each.vector
        for each in held
        if each.vector is not None and each.known.memory_id in wanted
    }
    beside, vectors = await together(
        user.connection,
        reconciliation.nearest_to_vectors(user, own, model=model, limit=limit),
        reconciliation.clear_vectors(user, memory_ids, model=model),
    )
    sealed = await in_thread(_nearest, held, vectors | own)
    return _first_of_each([*clear, *beside, *sealed], limit)


def _nearest(
    held: Sequence[OpenedMemory], vectors: Mapping[UUID, Vector]
) -> list[tuple[UUID, UUID, float]]:
    return [
        (memory_id, other, cosine)
        for memory_id, vector in vectors.items()
        for other, cosine in _cosines(held, vector)
        if other != memory_id and cosine > 0
    ]


def _first_of_each(
    pairs: Sequence[tuple[UUID, UUID, float]], limit: int
) -> list[tuple[UUID, UUID, float]]:
    """The nearest of each memory: of all the first, then of all the second."""
    places = Counter[UUID]()
    ranked = []
    for pair in sorted(pairs, key=lambda pair: (-pair[2], pair[1])):
        places[pair[0]] += 1
        if places[pair[0]] <= limit:
            ranked.append((places[pair[0]], pair))
    ranked.sort(key=lambda each: each[0])
    return [pair for _, pair in ranked]


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


async def find_same_words(user: UserRows, contents: Mapping[int, str]) -> list[tuple[int, UUID]]:
    """Sealed memories in the same words, as `known_memories.find_same_words`: however many."""
    return await sealed_memories.find_same_words(user, contents, statuses=_COMPARED)


async def read_current(user: UserRows) -> dict[UUID, CurrentMemory]:
    """The newest sealed memories that are current, by id."""
    held = await sealed_memories.read_newest(user, statuses=CURRENT_STATUSES)
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
