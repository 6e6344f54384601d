"""Reads the memories known when something is learnt, in the form that the rules use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from pgvector import HalfVector

from hitherto_extraction.storage.sealed_rows import opened
from hitherto_shared.database.arrays import Integers, Texts, Uuids
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.embeddings.protocol import Vector
from hitherto_shared.encryption.rows import MEMORY
from hitherto_shared.models import CURRENT_STATUSES, Scope, SourceRef

_KNOWN_WORDS = ("content", "detail", "tags", "keywords")

_READ = """
SELECT * FROM @known_memories AS m WHERE m.memory_id = ANY(%(memory_ids)s)
"""

_TOP = """
SELECT m.*
FROM (
    SELECT memory_id, importance, created_at FROM memories
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND status IN ('active', 'achieved')
    ORDER BY importance DESC, created_at DESC
    LIMIT %(limit)s) AS top
JOIN @known_memories AS m ON m.memory_id = top.memory_id
ORDER BY top.importance DESC, top.created_at DESC
"""

_BY_LEXICAL_NO = """
SELECT *
FROM @known_memories AS m
WHERE m.lexical_no = ANY(%(lexical_nos)s) AND m.status IN ('active', 'achieved')
"""

_TAGS_IN_USE = """
SELECT tag
FROM memories, unnest(tags) AS tag
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND status IN ('active', 'achieved')
GROUP BY tag
ORDER BY count(*) DESC, tag
LIMIT %(limit)s
"""

_COUNT_ACTIVE = """
SELECT count(*) FROM memories
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND status = 'active'
"""

# For each new text the nearest memories of the same user and type that could be the same statement.
# Forgotten ones are included because they stay forgotten, quarantined ones because repetition does
# not duplicate them, and merged ones because their successor represents them. The vector of words
# that were rewritten during an embedder outage is meaningless: such a memory waits for its new one.
# Vectors are sent in binary: as text they would cost more than everything else a job sends. Without
# statistics, as on a new database, Postgres assumes that every user has one memory, and would scan
# all of them for each memory and each text. Each table is therefore read once and combined by full
# joins, which cannot be executed as nested loops. OFFSET 0 keeps the condition on the cosine from
# turning them into inner joins. A materialised CTE would do so too, but writes what it holds to
# disk: all vectors of the user.
_NEIGHBOURS = """
WITH stored AS (
    SELECT memory_id, text_version, embedding
    FROM memory_embeddings
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND model = %(model)s
      AND status IN ('active', 'achieved', 'quarantined', 'forgotten', 'superseded')
), described AS (
    SELECT memory_id, type, text_version, octet_length(content) AS bytes
    FROM memories
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
), near AS (
    SELECT wanted.position, stored.memory_id, 1 - (stored.embedding <=> wanted.vector) AS cosine,
           described.bytes
    FROM stored
    FULL JOIN described ON described.memory_id = stored.memory_id
         AND described.text_version = stored.text_version
    FULL JOIN unnest(%(positions)s::int[], %(types)s::text[], %(vectors)b::halfvec[])
         AS wanted (position, type, vector) ON wanted.type = described.type
    OFFSET 0
), ranked AS (
    SELECT position, memory_id, cosine,
           row_number() OVER nearest_first AS place, sum(bytes) OVER nearest_first AS bytes
    FROM near
    WHERE cosine >= %(at_least)s
    WINDOW nearest_first AS (PARTITION BY position ORDER BY cosine DESC, memory_id)
)
SELECT position, memory_id, cosine
FROM ranked
WHERE place <= %(fewest)s OR (place <= %(limit)s AND bytes <= %(most_bytes)s)
"""

# Without vectors to compare: exactly the same words. Combined as above.
_SAME_WORDS = """
WITH described AS (
    SELECT memory_id, lower(content) AS words
    FROM memories
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
      AND status IN ('active', 'achieved', 'quarantined', 'forgotten', 'superseded')
), wanted AS (
    SELECT position, lower(content) AS words
    FROM unnest(%(positions)s::int[], %(contents)s::text[]) AS wanted (position, content)
), same AS (
    SELECT wanted.position, described.memory_id
    FROM wanted
    FULL JOIN described ON described.words = wanted.words
    OFFSET 0
)
SELECT position, memory_id FROM same WHERE position IS NOT NULL AND memory_id IS NOT NULL
"""


# Memories that a job has changed already, with their importance when it began.
_IMPORTANCE_BEFORE = """
SELECT DISTINCT ON (v.memory_id) v.memory_id, v.importance
FROM memories AS m
JOIN memory_versions AS v ON v.tenant_id = %(tenant_id)s AND v.user_id = %(user_id)s
    AND v.memory_id = m.memory_id
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
  AND m.memory_id = ANY(%(memory_ids)s) AND m.job_id = %(job_id)s
  AND v.job_id IS DISTINCT FROM %(job_id)s
ORDER BY v.memory_id, v.version DESC
"""

# For a user with encryption on, messages are sealed or about to be: no index gets their words.
_SOURCE_WORDS = """
SELECT memory_id, conversation_id, message_id, content
FROM (
    SELECT s.memory_id, s.conversation_id, s.message_id, left(m.content, %(characters)s) AS content,
           row_number() OVER (
               PARTITION BY s.memory_id
               ORDER BY least(m.said_at, m.accepted_at) DESC, m.message_no DESC) AS place
    FROM memory_sources AS s
    JOIN messages AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
         AND m.conversation_id = s.conversation_id AND md5(m.message_id) = md5(s.message_id)
         AND m.message_id = s.message_id AND m.sealed IS NULL AND m.role <> 'system'
    WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
      AND s.memory_id = ANY(%(memory_ids)s)
) AS said
WHERE place <= %(newest)s
ORDER BY memory_id, place
"""


@dataclass(frozen=True, slots=True)
class CurrentMemory:
    """A memory in the form that the rules use: its current version without other fields.

    A `doubtful` one may no longer hold because something else has changed. For a `sealed` one, the
    words are the opened ones. `questions` are those that its words answer; a sealed one has none.
    `forgotten_at`, `taken_back_from` and `partly_taken_back` are those of its `Forgetting`, where
    that was read.
    """

    memory_id: UUID
    version: int
    type: str
    content: str
    importance: float
    confidence: str
    origin: str
    status: str
    tags: Sequence[str]
    keywords: Sequence[str]
    valid_from: datetime
    valid_to: datetime | None
    updated_at: datetime
    lexical_no: int
    lexical_length: int
    said_at: datetime
    detail: str
    sensitive: bool = False
    questions: Sequence[str] = ()
    doubtful: bool = False
    expires_at: datetime | None = None
    sealed: bool = False
    forgotten_at: datetime | None = None
    taken_back_from: Sequence[str] | None = None
    partly_taken_back: bool = False

    @property
    def changed_at(self) -> datetime:
        """When it was said, or, if it has ended, until when it held."""
        ended = self.status not in CURRENT_STATUSES
        return self.valid_to if ended and self.valid_to is not None else self.said_at

    def expiry_after(self, at: datetime) -> datetime | None:
        """When it expires once something newer was said about it: never, if it had by then."""
        return None if self.is_over(at) else self.expires_at

    def is_over(self, at: datetime) -> bool:
        """Whether it has expired by a time: what is said from then on says something new."""
        return self.expires_at is not None and self.expires_at <= at

    def was_reached(self, at: datetime) -> bool:
        """Whether it is a goal that was reached before: who states it then sets it again."""
        return self.status == "achieved" and self.valid_to is not None and self.valid_to < at

    def may_be_said_again(self, at: datetime, sources: Sequence[SourceRef]) -> bool:
        """Whether the user brings a forgotten one back by saying it at this time.

        Only later; if nobody asked to forget it, at any time in another conversation.
        """
        later = at > (self.forgotten_at or self.updated_at)
        if later or self.taken_back_from is None:
            return later
        said_in = {each.conversation_id for each in sources}
        return bool(said_in) and said_in.isdisjoint(self.taken_back_from)


def known_of(scope: Scope, *columns_and_sealed: Any) -> CurrentMemory:
    """The memory in a row with the columns of `@known_memories`."""
    *columns, sealed = columns_and_sealed
    known = CurrentMemory(*columns)
    if sealed is None:
        return known
    words = opened(scope, MEMORY, sealed, known.memory_id)
    return replace(known, sealed=True, **{name: words[name] for name in _KNOWN_WORDS})


async def read_known(user: UserRows, memory_ids: Sequence[UUID]) -> dict[UUID, CurrentMemory]:
    """The current versions of these memories, by id."""
    if not memory_ids:
        return {}
    found = await user.fetch(partial(known_of, user.scope), _READ, memory_ids=Uuids(memory_ids))
    return {each.memory_id: each for each in found}


async def read_top(user: UserRows, limit: int) -> list[CurrentMemory]:
    """The most important current memories."""
    return await user.fetch(partial(known_of, user.scope), _TOP, limit=limit)


async def read_by_lexical_no(user: UserRows, lexical_nos: Sequence[int]) -> list[CurrentMemory]:
    """Current memories by their numbers in the keyword index."""
    make, numbers = partial(known_of, user.scope), Integers(lexical_nos)
    return await user.fetch(make, _BY_LEXICAL_NO, lexical_nos=numbers)


async def tags_in_use(user: UserRows, limit: int) -> list[str]:
    """The user's most frequent tags."""
    return await user.fetch_values(_TAGS_IN_USE, limit=limit)


async def count_active(user: UserRows) -> int:
    """The number of the user's active memories."""
    return int(await user.fetch_value(_COUNT_ACTIVE) or 0)


async def importance_before(
    user: UserRows, memory_ids: Sequence[UUID], job_id: UUID
) -> dict[UUID, float]:
    """The importance before the job of the memories that it has already changed."""
    if not memory_ids:
        return {}
    return dict(
        await user.fetch_rows(_IMPORTANCE_BEFORE, memory_ids=Uuids(memory_ids), job_id=job_id)
    )


async def find_neighbours(
    user: UserRows,
    vectors: Mapping[int, tuple[str, Vector]],
    *,
    model: str,
    at_least: float,
    fewest: int,
    limit: int,
    most_bytes: int,
) -> list[tuple[int, UUID, float]]:
    """Memories of the same type near each (type, vector), as (its position, memory, cosine).

    The cosine is at least `at_least`. Of each come the `fewest` nearest; of more at most `limit`,
    whose contents have `most_bytes` together.
    """
    if not vectors:
        return []
    return list(
        await user.fetch_rows(
            _NEIGHBOURS,
            positions=Integers(vectors),
            types=Texts(kind for kind, _ in vectors.values()),
            vectors=[HalfVector(vector) for _, vector in vectors.values()],
            model=model,
            at_least=at_least,
            fewest=fewest,
            limit=limit,
            most_bytes=most_bytes,
        )
    )


async def find_same_words(user: UserRows, contents: Mapping[int, str]) -> list[tuple[int, UUID]]:
    """Memories of any type equal to one of these texts except for case: (position, memory)."""
    if not contents:
        return []
    return list(
        await user.fetch_rows(
            _SAME_WORDS,
            positions=Integers(contents),
            contents=Texts(contents.values()),
        )
    )


async def source_words(
    user: UserRows, memory_ids: Sequence[UUID], *, newest: int, characters: int
) -> dict[UUID, list[tuple[SourceRef, str]]]:
    """The `newest` messages in clear behind each memory, newest first, each cut at `characters`."""
    rows = await user.fetch_rows(
        _SOURCE_WORDS, memory_ids=list(memory_ids), newest=newest, characters=characters
    )
    found: defaultdict[UUID, list[tuple[SourceRef, str]]] = defaultdict(list)
    for memory_id, conversation_id, message_id, said in rows:
        found[memory_id].append((SourceRef(conversation_id, message_id), said))
    return dict(found)
