"""The write side of the keyword index: postings in segments, and the statistics for BM25."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from hitherto_shared.database.together import together
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.offloading import in_thread_if_long
from hitherto_shared.text.bm25 import Statistics, TermPostings

SEGMENT = 256
"""Postings per row, as in the schema's CHECK."""
_MAX_COUNT = 32_767

# A sweep reads the whole index of the user: it waits until a tenth of it is under numbers that
# nothing has. Their count only grows, and each multiple of a power of two below that is a reason.
_RESERVE = """
UPDATE users
SET last_lexical_no = last_lexical_no + %(texts)s,
    lexical_documents = greatest(lexical_documents + %(documents)s, 0),
    lexical_terms = greatest(lexical_terms + %(terms)s, 0),
    words_to_sweep = words_to_sweep OR (
        SELECT div(dead + %(texts)s - %(documents)s, step) > div(dead, step)
        FROM (SELECT (last_lexical_no - lexical_documents)::numeric AS dead,
                     2 ^ floor(log(2, greatest(lexical_documents / 10.0, 1))) AS step) AS so_far)
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
RETURNING last_lexical_no - %(texts)s
"""

# Most terms of a user fill less than one segment. They are looked up by one scan, extended by their
# physical position, or begun, without a look for conflicts: the caller holds the user's row, so
# that no other transaction writes the same segments. Other terms continue where their last segment
# ends, segment by segment. Numbers ascend in each segment. Postings come by term, as one string per
# column: writing arrays of hundreds costs the service more than everything else here. The range of
# `used` says nothing new, but makes the planner expect a single row: while nothing is known about
# the table, it would compare every row of the user with every term instead of going by position.
_APPEND = """
WITH incoming AS MATERIALIZED @incoming_postings, first AS MATERIALIZED (
    SELECT ctid AS place, term, cardinality(lexical_nos) AS used
    FROM postings
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
      AND term = ANY(string_to_array(%(terms)s, E'\\n')) AND segment = 0
), met AS MATERIALIZED (
    SELECT incoming.*, first.place, first.used,
           coalesce(first.used, 0) + cardinality(incoming.lexical_nos) <= %(segment)s AS fits
    FROM incoming LEFT JOIN first USING (term)
), extended AS (
    UPDATE postings AS held
    SET lexical_nos = held.lexical_nos || met.lexical_nos,
        frequencies = held.frequencies || met.frequencies,
        lengths = held.lengths || met.lengths
    FROM met
    WHERE held.tenant_id = %(tenant_id)s AND held.user_id = %(user_id)s
      AND held.ctid = met.place AND met.fits AND met.used BETWEEN 1 AND %(segment)s
), begun AS (
    INSERT INTO postings (tenant_id, user_id, term, segment, lexical_nos, frequencies, lengths)
    SELECT %(tenant_id)s, %(user_id)s, term, 0, lexical_nos, frequencies, lengths
    FROM met
    WHERE place IS NULL AND fits
), latest AS @latest_postings(postings, p.term = met.term),
     placed AS @placed_postings
INSERT INTO postings AS held
    (tenant_id, user_id, term, segment, lexical_nos, frequencies, lengths)
SELECT %(tenant_id)s, %(user_id)s, term, segment,
       array_agg(lexical_no ORDER BY lexical_no), array_agg(frequency ORDER BY lexical_no),
       array_agg(length ORDER BY lexical_no)
FROM placed
GROUP BY term, segment
ON CONFLICT (tenant_id, user_id, term, segment) DO UPDATE
SET lexical_nos = held.lexical_nos || EXCLUDED.lexical_nos,
    frequencies = held.frequencies || EXCLUDED.frequencies,
    lengths = held.lengths || EXCLUDED.lengths
"""

# The same on a cluster, where rows cannot be extended by position: every term continues where its
# last segment ends. On one server that takes Postgres a quarter more time for this statement.
_APPEND_BY_KEY = """
INSERT INTO postings AS held
    (tenant_id, user_id, term, segment, lexical_nos, frequencies, lengths)
SELECT placed.tenant_id, placed.user_id, placed.term, placed.segment,
       array_agg(placed.lexical_no ORDER BY placed.lexical_no),
       array_agg(placed.frequency ORDER BY placed.lexical_no),
       array_agg(placed.length ORDER BY placed.lexical_no)
FROM @continued_postings(postings, p.term = new.term) AS placed
GROUP BY placed.tenant_id, placed.user_id, placed.term, placed.segment
ON CONFLICT (tenant_id, user_id, term, segment) DO UPDATE
SET lexical_nos = held.lexical_nos || EXCLUDED.lexical_nos,
    frequencies = held.frequencies || EXCLUDED.frequencies,
    lengths = held.lengths || EXCLUDED.lengths
"""

# The same for the passages of several corpora at once.
_APPEND_PASSAGES = """
WITH incoming AS MATERIALIZED @incoming_postings, first AS MATERIALIZED (
    SELECT ctid AS place, corpus, term, cardinality(lexical_nos) AS used
    FROM passage_postings
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
      AND corpus = ANY(string_to_array(%(each_corpus)s, ','))
      AND term = ANY(string_to_array(%(terms)s, E'\n')) AND segment = 0
), met AS MATERIALIZED (
    SELECT incoming.*, first.place, first.used,
           coalesce(first.used, 0) + cardinality(incoming.lexical_nos) <= %(segment)s AS fits
    FROM incoming LEFT JOIN first USING (corpus, term)
), extended AS (
    UPDATE passage_postings AS held
    SET lexical_nos = held.lexical_nos || met.lexical_nos,
        frequencies = held.frequencies || met.frequencies,
        lengths = held.lengths || met.lengths
    FROM met
    WHERE held.tenant_id = %(tenant_id)s AND held.user_id = %(user_id)s
      AND held.ctid = met.place AND met.fits AND met.used BETWEEN 1 AND %(segment)s
), begun AS (
    INSERT INTO passage_postings
        (tenant_id, user_id, corpus, term, segment, lexical_nos, frequencies, lengths)
    SELECT %(tenant_id)s, %(user_id)s, corpus, term, 0, lexical_nos, frequencies, lengths
    FROM met
    WHERE place IS NULL AND fits
), latest AS @latest_postings(passage_postings, p.corpus = met.corpus AND p.term = met.term),
     placed AS @placed_postings
INSERT INTO passage_postings AS held
    (tenant_id, user_id, corpus, term, segment, lexical_nos, frequencies, lengths)
SELECT %(tenant_id)s, %(user_id)s, corpus, term, segment,
       array_agg(lexical_no ORDER BY lexical_no), array_agg(frequency ORDER BY lexical_no),
       array_agg(length ORDER BY lexical_no)
FROM placed
GROUP BY corpus, term, segment
ON CONFLICT (tenant_id, user_id, corpus, term, segment) DO UPDATE
SET lexical_nos = held.lexical_nos || EXCLUDED.lexical_nos,
    frequencies = held.frequencies || EXCLUDED.frequencies,
    lengths = held.lengths || EXCLUDED.lengths
"""

_APPEND_PASSAGES_BY_KEY = """
INSERT INTO passage_postings AS held
    (tenant_id, user_id, corpus, term, segment, lexical_nos, frequencies, lengths)
SELECT placed.tenant_id, placed.user_id, placed.corpus, placed.term, placed.segment,
       array_agg(placed.lexical_no ORDER BY placed.lexical_no),
       array_agg(placed.frequency ORDER BY placed.lexical_no),
       array_agg(placed.length ORDER BY placed.lexical_no)
FROM @continued_postings(passage_postings, p.corpus = new.corpus AND p.term = new.term) AS placed
GROUP BY placed.tenant_id, placed.user_id, placed.corpus, placed.term, placed.segment
ON CONFLICT (tenant_id, user_id, corpus, term, segment) DO UPDATE
SET lexical_nos = held.lexical_nos || EXCLUDED.lexical_nos,
    frequencies = held.frequencies || EXCLUDED.frequencies,
    lengths = held.lengths || EXCLUDED.lengths
"""

_READ_POSTINGS = """
SELECT term, lexical_nos, frequencies, lengths
FROM postings
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND term = ANY(string_to_array(%(terms)s, E'\n'))
"""

# The terms that are rarest among this user's texts distinguish best.
_READ_DISTINCTIVE = """
WITH distinctive AS (
    SELECT term
    FROM postings
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
      AND term = ANY(string_to_array(%(terms)s, E'\n'))
    GROUP BY term
    ORDER BY sum(cardinality(lexical_nos)), term
    LIMIT %(most)s
)
SELECT term, lexical_nos, frequencies, lengths
FROM postings JOIN distinctive USING (term)
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""

_STATISTICS = """
SELECT lexical_documents, lexical_terms
FROM users
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""


_WORK_OF_A_POSTING = 8
"""The work of writing a posting, in characters read (`in_thread_if_long`)."""


async def reserve_numbers(user: UserRows, *, texts: int, documents: int, terms: int) -> int:
    """Reserve numbers for `texts` new texts; returns the number before the first.

    `documents` and `terms` are the growth of the index: a text that replaces another adds no
    document and only the difference of their lengths. The words of what it replaces stand under a
    number that nothing has, and make the words of the user look frequent until they are swept.
    """
    return int(await user.fetch_value(_RESERVE, texts=texts, documents=documents, terms=terms))


async def append(user: UserRows, texts: Mapping[int, Counter[str]]) -> None:
    """Add the terms of memories by number; numbers are above all earlier ones."""
    columns = await in_thread_if_long(
        sum(map(len, texts.values())) * _WORK_OF_A_POSTING, _columns, [("", texts)]
    )
    if columns:
        statement = _APPEND_BY_KEY if user.connection.is_distributed else _APPEND
        await user.later(statement, segment=SEGMENT, **columns)


async def append_passages(
    user: UserRows, corpora: Mapping[str, Mapping[int, Counter[str]]]
) -> None:
    """Add the terms of passages by number in each corpus; numbers are above all earlier ones."""
    terms = sum(len(counts) for texts in corpora.values() for counts in texts.values())
    columns = await in_thread_if_long(terms * _WORK_OF_A_POSTING, _columns, corpora.items())
    if columns:
        distributed = user.connection.is_distributed
        statement = _APPEND_PASSAGES_BY_KEY if distributed else _APPEND_PASSAGES
        await user.later(statement, segment=SEGMENT, each_corpus=",".join(corpora), **columns)


def _columns(corpora: Iterable[tuple[str, Mapping[int, Counter[str]]]]) -> dict[str, str]:
    """The postings of each term, column by column; no term has a line break, no corpus a comma."""
    of_corpora: list[str] = []
    terms: list[str] = []
    columns: list[list[str]] = []
    for corpus, texts in corpora:
        found: dict[str, list[str]] = {}
        for lexical_no, counts in sorted(texts.items()):
            number, length = str(lexical_no), str(min(counts.total(), _MAX_COUNT))
            for term, count in counts.items():
                frequency = "1" if count == 1 else str(min(count, _MAX_COUNT))
                if (known := found.get(term)) is None:
                    found[term] = [number, frequency, length]
                else:
                    known[0] += "," + number
                    known[1] += "," + frequency
                    known[2] += "," + length
        of_corpora += [corpus] * len(found)
        terms += found
        columns += found.values()
    if not terms:
        return {}
    lexical_nos, frequencies, lengths = (
        "{" + "};{".join(column) + "}" for column in zip(*columns, strict=True)
    )
    return {
        "corpora": ",".join(of_corpora),
        "terms": "\n".join(terms),
        "lexical_nos": lexical_nos,
        "frequencies": frequencies,
        "lengths": lengths,
    }


async def read_postings(
    user: UserRows, terms: Sequence[str], *, most: int
) -> tuple[list[TermPostings], Statistics]:
    """The postings of the `most` distinctive of these terms, with their weights."""
    read = _READ_DISTINCTIVE if len(terms) > most else _READ_POSTINGS
    distinctive, statistics = await together(
        user.connection,
        user.execute(read, terms="\n".join(terms), most=most),
        user.execute(_STATISTICS),
    )
    postings = [TermPostings(*row) for row in distinctive.rows]
    return postings, Statistics(*statistics.rows[0]) if statistics.rows else Statistics(0, 0)
