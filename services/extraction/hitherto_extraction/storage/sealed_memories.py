"""The sealed memories of a user and their vectors, which replace indexes."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np

from hitherto_extraction.storage.corpora.corpus import EmbeddableText
from hitherto_extraction.storage.corpora.vectors import MadeVectors
from hitherto_extraction.storage.known_memories import CurrentMemory, known_of
from hitherto_extraction.storage.sealed_rows import opened, opened_bytes
from hitherto_shared.database.arrays import Texts
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.embeddings.protocol import Vector
from hitherto_shared.encryption.at_hand import key_at_hand
from hitherto_shared.encryption.failures import SealBroken
from hitherto_shared.encryption.rows import MEMORY, VECTOR
from hitherto_shared.models import Scope
from hitherto_shared.offloading import in_thread

logger = logging.getLogger("hitherto.sealing")

MOST = 2_000
"""Maximum number of a user's sealed memories that are opened and compared, the newest."""
_HALF = np.dtype("<f2")

_NEWEST = """
SELECT m.memory_id, m.version, m.type, m.content, m.importance, m.confidence, m.origin,
       m.status, m.tags, m.keywords, m.valid_from, m.valid_to, m.updated_at, m.lexical_no,
       m.lexical_length, m.said_at, m.detail, m.sensitive, m.questions,
       m.doubt IS NOT NULL, m.expires_at,
       @sealed_of_memory(m.memory_id, m.version, m.text_version, m.sealed),
       sealed_at(e.sealed, e.text_version)
FROM memories AS m
LEFT JOIN sealed_embeddings AS e ON e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
     AND e.memory_id = m.memory_id AND e.model = %(model)s AND e.text_version = m.text_version
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.sealed IS NOT NULL
  AND m.status = ANY(%(statuses)s)
ORDER BY m.created_at DESC, m.memory_id DESC
LIMIT %(limit)s
"""

_WORDS = """
SELECT m.memory_id,
       @sealed_of_memory(m.memory_id, m.version, m.text_version, m.sealed)
FROM memories AS m
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.sealed IS NOT NULL
  AND (%(statuses)s::text[] IS NULL OR m.status = ANY(%(statuses)s))
"""

_WRITE_VECTOR = """
INSERT INTO sealed_embeddings (tenant_id, user_id, memory_id, model, dimensions, sealed,
                               text_version)
SELECT m.tenant_id, m.user_id, m.memory_id, %(model)s, %(dimensions)s, %(sealed)s, m.text_version
FROM memories AS m
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.memory_id = %(memory_id)s
  AND m.sealed IS NOT NULL
  AND m.text_version = %(text_version)s
ON CONFLICT (tenant_id, user_id, memory_id, model) DO UPDATE
SET sealed = EXCLUDED.sealed, text_version = EXCLUDED.text_version
"""

_CLEAR_VECTORS = """
SELECT e.model, e.embedding, e.text_version
FROM memory_embeddings AS e
JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
     AND m.memory_id = e.memory_id AND m.text_version = e.text_version
WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s AND e.memory_id = %(memory_id)s
"""

_SEALED_VECTORS = """
SELECT e.model, sealed_at(e.sealed, e.text_version)
FROM sealed_embeddings AS e
JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
     AND m.memory_id = e.memory_id AND m.text_version = e.text_version
WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s AND e.memory_id = %(memory_id)s
"""

_WITHOUT = """
SELECT m.memory_id, m.text_version,
       @sealed_of_memory(m.memory_id, m.version, m.text_version, m.sealed)
FROM memories AS m
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.sealed IS NOT NULL
  AND m.memory_id > %(after)s
  AND NOT EXISTS (
      SELECT FROM sealed_embeddings AS e
      WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s AND e.memory_id = m.memory_id
        AND e.model = %(model)s AND e.text_version = m.text_version)
ORDER BY m.memory_id
LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True)
class OpenedMemory:
    """A sealed memory, opened, with its vector of the requested model, if it has one."""

    known: CurrentMemory
    vector: Vector | None


async def read_newest(
    user: UserRows, *, statuses: Sequence[str], model: str = ""
) -> list[OpenedMemory]:
    """The newest sealed memories with these statuses, opened; none if the user has none."""
    rows = await user.fetch_rows(_NEWEST, statuses=Texts(statuses), model=model, limit=MOST)
    # In a thread: opening thousands would block the event loop.
    return await in_thread(_opened, user.scope, rows, model) if rows else []


def _opened(scope: Scope, rows: Sequence[tuple[Any, ...]], model: str) -> list[OpenedMemory]:
    found = []
    for *row, sealed in rows:
        known = known_of(scope, *row)
        vector = None if sealed is None else open_vector(scope, known.memory_id, model, sealed)
        found.append(OpenedMemory(known, vector))
    return found


async def read_words(user: UserRows) -> dict[UUID, dict[str, Any]]:
    """The words of every sealed memory of a user, however many there are."""
    rows = await user.fetch_rows(_WORDS, statuses=None)

    def open_all() -> dict[UUID, dict[str, Any]]:
        return {
            memory_id: opened(user.scope, MEMORY, sealed, memory_id) for memory_id, sealed in rows
        }

    return await in_thread(open_all) if rows else {}


async def find_same_words(
    user: UserRows, contents: Mapping[int, str], *, statuses: Sequence[str]
) -> list[tuple[int, UUID]]:
    """Sealed memories equal to one of these texts except for case: (position, memory).

    One that does not open says nothing.
    """
    rows = await user.fetch_rows(_WORDS, statuses=Texts(statuses)) if contents else ()
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, content in contents.items():
        places[content.lower()].append(place)

    def compare() -> list[tuple[int, UUID]]:
        found = []
        for memory_id, sealed in rows:
            words = _words(user.scope, memory_id, sealed)
            if words is not None:
                found += [(n, memory_id) for n in places.get(words["content"].lower(), ())]
        return found

    return await in_thread(compare) if rows else []


async def find_holding(
    user: UserRows, texts: Sequence[str], *, statuses: Sequence[str], without: Collection[UUID]
) -> set[str]:
    """Those of the texts that stand in sealed memories other than these, in whatever case.

    A memory that does not open says nothing.
    """
    rows = await user.fetch_rows(_WORDS, statuses=Texts(statuses)) if texts else ()

    def compare() -> set[str]:
        said = [_words(user.scope, *row) for row in rows if row[0] not in without]
        contents = [words["content"].lower() for words in said if words is not None]
        return {text for text in texts if any(text.lower() in each for each in contents)}

    return await in_thread(compare) if rows else set()


async def write_vector(
    user: UserRows, memory_id: UUID, vector: Vector, *, model: str, text_version: int
) -> None:
    """Store the vector of a sealed memory's words, if these still have this number."""
    await user.execute(
        _WRITE_VECTOR,
        memory_id=memory_id,
        model=model,
        dimensions=len(vector),
        sealed=key_at_hand(user.scope).seal_bytes(
            np.asarray(vector, dtype=_HALF).tobytes(),
            VECTOR.place(memory_id, model),
            version=text_version,
        ),
        text_version=text_version,
    )


def open_vector(scope: Scope, memory_id: UUID, model: str, sealed: bytes) -> Vector:
    """Open what `write_vector` stored; see `opened`."""
    plain = opened_bytes(scope, VECTOR, sealed, memory_id, model)
    return np.frombuffer(plain, dtype=_HALF).astype(np.float32)


async def clear_vectors(user: UserRows, memory_id: UUID) -> list[tuple[str, Vector, int]]:
    """The vectors in clear of a memory's present words: model, vector, number of these words."""
    rows = await user.fetch_rows(_CLEAR_VECTORS, memory_id=memory_id)
    return [(model, vector.to_numpy().astype(np.float32), number) for model, vector, number in rows]


async def sealed_vectors(user: UserRows, memory_id: UUID) -> list[tuple[str, Vector]]:
    """The vectors of a sealed memory's present words, by model."""
    rows = await user.fetch_rows(_SEALED_VECTORS, memory_id=memory_id)
    return [(model, open_vector(user.scope, memory_id, model, sealed)) for model, sealed in rows]


async def without_vector(
    user: UserRows, model: str, *, after: UUID, limit: int
) -> list[EmbeddableText]:
    """The next sealed memories, by id, that lack a vector and that the key opens."""
    while rows := await user.fetch_rows(_WITHOUT, after=after, model=model, limit=limit):
        found = [text for row in rows if (text := _embeddable(user.scope, *row)) is not None]
        if found:
            return found
        after = rows[-1][0]
    return []


def _embeddable(
    scope: Scope, memory_id: UUID, text_version: int, sealed: bytes
) -> EmbeddableText | None:
    words = _words(scope, memory_id, sealed)
    if words is None:
        return None
    key = (scope.tenant_id, scope.user_id, str(memory_id), text_version)
    return EmbeddableText(key, (str(words["content"]),))


def _words(scope: Scope, memory_id: UUID, sealed: bytes) -> dict[str, Any] | None:
    """The words of a memory; None if they do not open, which an administrator has to mend."""
    try:
        return opened(scope, MEMORY, sealed, memory_id)
    except SealBroken:
        logger.error("cannot open a sealed memory, which is neither compared nor embedded")
        return None


async def write_vectors(user: UserRows, vectors: MadeVectors, *, model: str) -> None:
    """Store the vectors of texts from `without_vector`, of those that still have these words."""
    for text, (vector,) in vectors.items():
        _, _, memory_id, text_version = text.key
        await write_vector(user, UUID(memory_id), vector, model=model, text_version=text_version)
