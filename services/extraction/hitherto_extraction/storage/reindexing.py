"""Indexes memories again under new numbers, and sweeps words that no memory has any more.

The role is hitherto_removal, and the caller holds the user's row; for `find_to_sweep` it is
hitherto_maintenance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from hitherto_extraction.storage import keyword_index
from hitherto_extraction.storage.known_memories import source_words
from hitherto_shared.database.pool import Connection
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.models import Scope

# Postings of numbers that no memory has, including those of earlier wordings, contain words to be
# deleted.
_SWEEP_POSTINGS = """
WITH posting AS (
    SELECT p.ctid AS place_in_table, n.lexical_no, n.frequency, n.length, n.place,
           m.memory_id IS NOT NULL AS live
    FROM postings AS p
    CROSS JOIN LATERAL unnest(p.lexical_nos, p.frequencies, p.lengths) WITH ORDINALITY
        AS n (lexical_no, frequency, length, place)
    LEFT JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
         AND m.lexical_no = n.lexical_no
    WHERE p.tenant_id = %(tenant_id)s AND p.user_id = %(user_id)s
), changed AS (
    SELECT place_in_table, array_agg(lexical_no ORDER BY place) FILTER (WHERE live) AS nos,
           array_agg(frequency ORDER BY place) FILTER (WHERE live) AS frequencies,
           array_agg(length ORDER BY place) FILTER (WHERE live) AS lengths
    FROM posting
    GROUP BY place_in_table
    HAVING NOT bool_and(live)
), emptied AS (
    DELETE FROM postings AS p USING changed AS c
    WHERE p.tenant_id = %(tenant_id)s AND p.user_id = %(user_id)s AND p.ctid = c.place_in_table
      AND c.nos IS NULL
)
UPDATE postings AS p
SET lexical_nos = c.nos, frequencies = c.frequencies, lengths = c.lengths
FROM changed AS c
WHERE p.tenant_id = %(tenant_id)s AND p.user_id = %(user_id)s AND p.ctid = c.place_in_table
  AND c.nos IS NOT NULL
"""

_LEAVE_TO_SWEEP = """
UPDATE users SET words_to_sweep = true WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""

_SWEPT = """
UPDATE users SET words_to_sweep = false
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND words_to_sweep
"""

# Across users.
_FIND_TO_SWEEP = """
SELECT tenant_id, user_id
FROM users
WHERE words_to_sweep AND erased_at IS NULL
ORDER BY tenant_id, user_id
LIMIT %(limit)s
"""

_INDEXED = """
SELECT memory_id, content, lexical_length, keywords, questions
FROM memories
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = ANY(%(memory_ids)s)
"""

_RENUMBER = """
UPDATE memories AS m
SET lexical_no = new.lexical_no, lexical_length = new.lexical_length
FROM unnest(%(memory_ids)s::uuid[], %(lexical_nos)s::int[], %(lengths)s::int[])
    AS new (memory_id, lexical_no, lexical_length)
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.memory_id = new.memory_id
"""


@dataclass(frozen=True, slots=True)
class IndexedMemory:
    """A memory with its indexed words."""

    memory_id: UUID
    content: str
    lexical_length: int
    keywords: Sequence[str]
    questions: Sequence[str]
    source_text: str = ""


async def read_indexed(
    user: UserRows, memory_ids: Sequence[UUID], *, newest: int, characters: int
) -> list[IndexedMemory]:
    """Memories with the words of the `newest` sources left, each cut at `characters`."""
    said = await source_words(user, memory_ids, newest=newest, characters=characters)
    return [
        replace(each, source_text="\n".join(words for _, words in said.get(each.memory_id, ())))
        for each in await user.fetch(IndexedMemory, _INDEXED, memory_ids=list(memory_ids))
    ]


async def index_anew(
    user: UserRows, texts: Mapping[UUID, Counter[str]], *, growth: int, sweep: bool
) -> None:
    """Give memories new numbers in the keyword index, after their old words were swept.

    `texts` are their terms, and `growth` is that of the index in terms, usually negative. Without
    `sweep` the old words stay, under numbers that nothing has, until the next sweep.
    """
    first = 1 + await keyword_index.reserve_numbers(
        user, texts=len(texts), documents=0, terms=growth
    )
    numbered = dict(enumerate(texts.items(), first))
    await user.execute(
        _RENUMBER,
        memory_ids=[memory_id for memory_id, _ in numbered.values()],
        lexical_nos=list(numbered),
        lengths=[terms.total() for _, terms in numbered.values()],
    )
    numbers = list(numbered)
    for start in range(0, len(numbers), keyword_index.SEGMENT):
        chunk = numbers[start : start + keyword_index.SEGMENT]
        await keyword_index.append(user, {no: numbered[no][1] for no in chunk})
    if sweep:
        await sweep_postings(user)


async def sweep_postings(user: UserRows) -> None:
    """Remove the words of texts that no memory has any more from the keyword index."""
    await user.execute(_SWEEP_POSTINGS)
    await user.execute(_SWEPT)


async def sweep_if_left(user: UserRows) -> int:
    """Remove them if they are still to be swept: 0 if another process has done so by now."""
    left = (await user.execute(_SWEPT)).rowcount
    if left:
        await sweep_postings(user)
    return left


async def leave_to_sweep(user: UserRows) -> None:
    """Record that words of deleted texts are in the index, until they are swept."""
    await user.execute(_LEAVE_TO_SWEEP)


async def find_to_sweep(connection: Connection, *, limit: int) -> list[Scope]:
    """Users of all tenants with such words."""
    rows = await connection.fetch_rows(_FIND_TO_SWEEP, {"limit": limit})
    return [Scope(*row) for row in rows]
