"""The keyword index of passages: texts other than memories, one corpus per kind.

The same index as that of memories, in separate tables, so that the words of documents neither slow
down nor outweigh those of memories.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hitherto_extraction.storage import keyword_index
from hitherto_shared.database.pool import Connection
from hitherto_shared.models import Scope

DOCUMENTS = "documents"
MESSAGES = "messages"
SUMMARIES = "summaries"
_TEXTS_AT_ONCE = 2_048
"""Some 300,000 postings. A term costs one row for all of them."""

# In one order for all writers.
_COUNT = """
INSERT INTO passage_statistics AS held
    (tenant_id, user_id, corpus, last_lexical_no, texts, terms)
SELECT %(tenant_id)s, %(user_id)s, corpus, texts, texts, terms
FROM unnest(%(corpora)s::text[], %(texts)s::int[], %(terms)s::bigint[])
    AS new (corpus, texts, terms)
ORDER BY corpus
ON CONFLICT (tenant_id, user_id, corpus) DO UPDATE
SET last_lexical_no = held.last_lexical_no + EXCLUDED.last_lexical_no,
    texts = held.texts + EXCLUDED.texts, terms = held.terms + EXCLUDED.terms
RETURNING corpus, last_lexical_no
"""

_DISCOUNT = """
UPDATE passage_statistics
SET texts = greatest(texts - %(texts)s, 0), terms = greatest(terms - %(length)s, 0)
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND corpus = %(corpus)s
"""

# Numbers ascend in a segment, so its ends tell whether it can hold one of those to remove. Rows are
# updated by their physical position: a join by key is planned badly if the table has grown since it
# was analysed, and writers here hold the user's row.
_REMOVE = """
WITH touched AS (
    SELECT ctid AS place, lexical_nos, frequencies, lengths
    FROM passage_postings
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND corpus = %(corpus)s
      AND term = ANY(%(terms)s::text[])
      AND lexical_nos[1] <= %(last)s
      AND lexical_nos[cardinality(lexical_nos)] >= %(first)s
), posting AS (
    SELECT t.place, n.lexical_no, n.frequency, n.length,
           n.lexical_no <> ALL(%(lexical_nos)s::int[]) AS stays
    FROM touched AS t
    CROSS JOIN LATERAL unnest(t.lexical_nos, t.frequencies, t.lengths)
        AS n (lexical_no, frequency, length)
), changed AS (
    SELECT place, array_agg(lexical_no ORDER BY lexical_no) FILTER (WHERE stays) AS nos,
           array_agg(frequency ORDER BY lexical_no) FILTER (WHERE stays) AS frequencies,
           array_agg(length ORDER BY lexical_no) FILTER (WHERE stays) AS lengths
    FROM posting
    GROUP BY place
    HAVING NOT bool_and(stays)
), emptied AS (
    DELETE FROM passage_postings AS p USING changed AS c
    WHERE p.tenant_id = %(tenant_id)s AND p.user_id = %(user_id)s AND p.ctid = c.place
      AND c.nos IS NULL
)
UPDATE passage_postings AS p
SET lexical_nos = c.nos, frequencies = c.frequencies, lengths = c.lengths
FROM changed AS c
WHERE p.tenant_id = %(tenant_id)s AND p.user_id = %(user_id)s AND p.ctid = c.place
  AND c.nos IS NOT NULL
"""


async def add(
    connection: Connection, scope: Scope, corpus: str, texts: Sequence[Counter[str]]
) -> list[int]:
    """Index new texts, given by their terms; returns their numbers, in order.

    The caller holds the user's row.
    """
    return (await add_to_each(connection, scope, {corpus: texts}))[corpus]


async def add_to_each(
    connection: Connection, scope: Scope, corpora: Mapping[str, Sequence[Counter[str]]]
) -> dict[str, list[int]]:
    """See `add`, for several corpora at once."""
    numbers: dict[str, list[int]] = {corpus: [] for corpus in corpora}
    fresh = {corpus: texts for corpus, texts in corpora.items() if texts}
    if not fresh:
        return numbers
    cursor = await connection.execute(
        _COUNT,
        {
            **scope.parameters,
            "corpora": list(fresh),
            "texts": [len(texts) for texts in fresh.values()],
            "terms": [sum(terms.total() for terms in texts) for texts in fresh.values()],
        },
    )
    for corpus, last in await cursor.fetchall():
        numbers[corpus] = list(range(last + 1 - len(fresh[corpus]), last + 1))
    for start in range(0, max(map(len, fresh.values())), _TEXTS_AT_ONCE):
        end = start + _TEXTS_AT_ONCE
        await keyword_index.append_passages(
            connection,
            scope,
            {
                corpus: dict(zip(numbers[corpus][start:end], texts[start:end], strict=True))
                for corpus, texts in fresh.items()
            },
        )
    return numbers


async def remove(
    connection: Connection,
    scope: Scope,
    corpus: str,
    lengths: Mapping[int, int],
    terms: Collection[str],
) -> None:
    """Remove texts from the index with all of their words.

    The caller holds the user's row.

    Args:
        connection: In a transaction.
        scope: The user.
        corpus: The kind of passages.
        lengths: The number of terms of each text, by its number.
        terms: The terms of all of them.
    """
    if not lengths:
        return
    await connection.execute(
        _REMOVE,
        {
            **_of(scope, corpus),
            "terms": list(terms),
            "lexical_nos": list(lengths),
            "first": min(lengths),
            "last": max(lengths),
        },
    )
    await connection.execute(
        _DISCOUNT,
        {**_of(scope, corpus), "texts": len(lengths), "length": sum(lengths.values())},
    )


def _of(scope: Scope, corpus: str) -> dict[str, Any]:
    return {**scope.parameters, "corpus": corpus}
