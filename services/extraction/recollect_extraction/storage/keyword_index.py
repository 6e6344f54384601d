"""The write side of the keyword index: postings in segments, and the statistics BM25 needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from recollect_shared.database.pool import Connection
from recollect_shared.models import Scope
from recollect_shared.text.bm25 import Statistics, TermPostings

SEGMENT = 256
"""Postings per row, as the schema's CHECK has it."""
_MAX_COUNT = 32_767

_RESERVE = """
UPDATE users
SET last_lexical_no = last_lexical_no + %(texts)s,
    lexical_documents = greatest(lexical_documents + %(documents)s, 0),
    lexical_terms = greatest(lexical_terms + %(terms)s, 0)
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
RETURNING last_lexical_no - %(texts)s
"""

# Goes on where the last segment of each term ends, segment by segment. The caller holds the user's
# row, so that nobody else extends the same segments: numbers ascend in each.
_APPEND_TO = """
WITH incoming AS (
    SELECT term, lexical_no, frequency, length,
           row_number() OVER (PARTITION BY term ORDER BY lexical_no) - 1 AS place
    FROM unnest(%(terms)s::text[], %(lexical_nos)s::int[], %(frequencies)s::smallint[],
                %(lengths)s::smallint[]) AS posting (term, lexical_no, frequency, length)
), latest AS (
    SELECT wanted.term, held.segment * %(segment)s + held.used AS used
    FROM (SELECT DISTINCT term FROM incoming) AS wanted
    CROSS JOIN LATERAL (
        SELECT segment, cardinality(lexical_nos) AS used
        FROM {postings}
        WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s{of_corpus}
          AND term = wanted.term
        ORDER BY segment DESC
        LIMIT 1
    ) AS held
), placed AS (
    SELECT term, lexical_no, frequency, length,
           (coalesce(latest.used, 0) + place) / %(segment)s AS segment
    FROM incoming LEFT JOIN latest USING (term)
)
INSERT INTO {postings} AS held
    (tenant_id, user_id, {corpus}term, segment, lexical_nos, frequencies, lengths)
SELECT %(tenant_id)s, %(user_id)s, {corpus_value}term, segment,
       array_agg(lexical_no ORDER BY lexical_no), array_agg(frequency ORDER BY lexical_no),
       array_agg(length ORDER BY lexical_no)
FROM placed
GROUP BY term, segment
ON CONFLICT (tenant_id, user_id, {corpus}term, segment) DO UPDATE
SET lexical_nos = held.lexical_nos || EXCLUDED.lexical_nos,
    frequencies = held.frequencies || EXCLUDED.frequencies,
    lengths = held.lengths || EXCLUDED.lengths
"""
_APPEND = _APPEND_TO.format(postings="postings", of_corpus="", corpus="", corpus_value="")
_APPEND_PASSAGES = _APPEND_TO.format(
    postings="passage_postings",
    of_corpus=" AND corpus = %(corpus)s",
    corpus="corpus, ",
    corpus_value="%(corpus)s, ",
)

# The rarest of the terms among this user's texts say most about what to look for.
_READ_TELLING = """
WITH telling AS (
    SELECT term
    FROM postings
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND term = ANY(%(terms)s)
    GROUP BY term
    ORDER BY sum(cardinality(lexical_nos)), term
    LIMIT %(most)s
)
SELECT term, lexical_nos, frequencies, lengths
FROM postings JOIN telling USING (term)
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""

_STATISTICS = """
SELECT lexical_documents, lexical_terms
FROM users
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""


async def reserve_numbers(
    connection: Connection, scope: Scope, *, texts: int, documents: int, terms: int
) -> int:
    """Numbers for `texts` new texts: the one before the first.

    `documents` and `terms` are by how much the index grows: a text that replaces another adds no
    document and only the difference of their lengths.
    """
    cursor = await connection.execute(
        _RESERVE,
        {
            "tenant_id": scope.tenant_id,
            "user_id": scope.user_id,
            "texts": texts,
            "documents": documents,
            "terms": terms,
        },
    )
    row = await cursor.fetchone()
    assert row is not None
    return int(row[0])


async def append(
    connection: Connection,
    scope: Scope,
    texts: Mapping[int, Counter[str]],
    *,
    corpus: str | None = None,
) -> None:
    """Add the terms of texts, by their numbers, which are above all earlier ones.

    Without a `corpus` of passages the texts are memories.
    """
    terms: list[str] = []
    numbers: list[int] = []
    frequencies: list[int] = []
    lengths: list[int] = []
    for lexical_no, counts in texts.items():
        length = min(sum(counts.values()), _MAX_COUNT)
        for term, frequency in counts.items():
            terms.append(term)
            numbers.append(lexical_no)
            frequencies.append(min(frequency, _MAX_COUNT))
            lengths.append(length)
    if terms:
        await connection.execute(
            (_APPEND if corpus is None else _APPEND_PASSAGES).encode(),
            {
                "tenant_id": scope.tenant_id,
                "user_id": scope.user_id,
                "corpus": corpus,
                "terms": terms,
                "lexical_nos": numbers,
                "frequencies": frequencies,
                "lengths": lengths,
                "segment": SEGMENT,
            },
        )


async def read_postings(
    connection: Connection, scope: Scope, terms: Sequence[str], *, most: int
) -> tuple[list[TermPostings], Statistics]:
    """What the index holds of the `most` telling of these terms, and what to weigh them by."""
    values = {
        "tenant_id": scope.tenant_id,
        "user_id": scope.user_id,
        "terms": list(terms),
        "most": most,
    }
    cursor = await connection.execute(_READ_TELLING, values)
    postings = [TermPostings(*row) for row in await cursor.fetchall()]
    cursor = await connection.execute(_STATISTICS, values)
    row = await cursor.fetchone()
    return postings, Statistics(*row) if row else Statistics(0, 0)
