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

_RESERVE = """
UPDATE users
SET last_lexical_no = last_lexical_no + %(texts)s,
    lexical_documents = greatest(lexical_documents + %(documents)s, 0),
    lexical_terms = greatest(lexical_terms + %(terms)s, 0)
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
RETURNING last_lexical_no - %(texts)s
"""

# A term's postings continue where its last segment ends if they find room there, else in segments
# of their own: the caller splits them by the room of one, and holds the user's row, so that no
# other transaction writes the same segments. Numbers ascend in each segment. Postings come by term,
# as one string per column: writing arrays of hundreds costs the service more than all else here.
_APPEND = """
INSERT INTO postings AS held
    (tenant_id, user_id, term, segment, lexical_nos, frequencies, lengths)
SELECT u.tenant_id, u.user_id, new.term,
       new.part::int + CASE WHEN last.segment IS NULL THEN 0
                            WHEN last.used + new.begin::int <= %(segment)s THEN last.segment
                            ELSE last.segment + 1 END,
       new.lexical_nos::int[], new.frequencies::smallint[], new.lengths::smallint[]
FROM @its_user AS u
CROSS JOIN unnest(
    string_to_array(%(terms)s, E'\\n'), string_to_array(%(parts)s, ','),
    string_to_array(%(begins)s, ','), string_to_array(%(lexical_nos)s, ';'),
    string_to_array(%(frequencies)s, ';'), string_to_array(%(lengths)s, ';'))
    AS new (term, part, begin, lexical_nos, frequencies, lengths)
LEFT JOIN (
    SELECT p.tenant_id, p.user_id, p.term, max(p.segment) AS segment,
           (array_agg(cardinality(p.lexical_nos) ORDER BY p.segment DESC))[1] AS used
    FROM postings AS p
    WHERE p.tenant_id = %(tenant_id)s AND p.user_id = %(user_id)s
      AND p.term = ANY(string_to_array(%(terms)s, E'\\n'))
    GROUP BY p.tenant_id, p.user_id, p.term) AS last ON last.term = new.term
ON CONFLICT (tenant_id, user_id, term, segment) DO UPDATE
SET lexical_nos = held.lexical_nos || EXCLUDED.lexical_nos,
    frequencies = held.frequencies || EXCLUDED.frequencies,
    lengths = held.lengths || EXCLUDED.lengths
"""

# The same for the passages of several corpora at once.
_APPEND_PASSAGES = """
INSERT INTO passage_postings AS held
    (tenant_id, user_id, corpus, term, segment, lexical_nos, frequencies, lengths)
SELECT u.tenant_id, u.user_id, new.corpus, new.term,
       new.part::int + CASE WHEN last.segment IS NULL THEN 0
                            WHEN last.used + new.begin::int <= %(segment)s THEN last.segment
                            ELSE last.segment + 1 END,
       new.lexical_nos::int[], new.frequencies::smallint[], new.lengths::smallint[]
FROM @its_user AS u
CROSS JOIN unnest(
    string_to_array(%(corpora)s, ','), string_to_array(%(terms)s, E'\\n'),
    string_to_array(%(parts)s, ','), string_to_array(%(begins)s, ','),
    string_to_array(%(lexical_nos)s, ';'), string_to_array(%(frequencies)s, ';'),
    string_to_array(%(lengths)s, ';'))
    AS new (corpus, term, part, begin, lexical_nos, frequencies, lengths)
LEFT JOIN (
    SELECT p.tenant_id, p.user_id, p.corpus, p.term, max(p.segment) AS segment,
           (array_agg(cardinality(p.lexical_nos) ORDER BY p.segment DESC))[1] AS used
    FROM passage_postings AS p
    WHERE p.tenant_id = %(tenant_id)s AND p.user_id = %(user_id)s
      AND p.corpus = ANY(string_to_array(%(each_corpus)s, ','))
      AND p.term = ANY(string_to_array(%(terms)s, E'\\n'))
    GROUP BY p.tenant_id, p.user_id, p.corpus, p.term) AS last
    ON last.corpus = new.corpus AND last.term = new.term
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
    document and only the difference of their lengths.
    """
    return int(await user.fetch_value(_RESERVE, texts=texts, documents=documents, terms=terms))


async def append(user: UserRows, texts: Mapping[int, Counter[str]]) -> None:
    """Add the terms of memories by number; numbers are above all earlier ones."""
    columns = await in_thread_if_long(
        sum(map(len, texts.values())) * _WORK_OF_A_POSTING, _columns, [("", texts)]
    )
    if columns:
        await user.later(_APPEND, segment=SEGMENT, **columns)


async def append_passages(
    user: UserRows, corpora: Mapping[str, Mapping[int, Counter[str]]]
) -> None:
    """Add the terms of passages by number in each corpus.

    Numbers are above all earlier ones there.
    """
    terms = sum(len(counts) for texts in corpora.values() for counts in texts.values())
    columns = await in_thread_if_long(terms * _WORK_OF_A_POSTING, _columns, corpora.items())
    if columns:
        await user.later(
            _APPEND_PASSAGES, segment=SEGMENT, each_corpus=",".join(corpora), **columns
        )


def _columns(corpora: Iterable[tuple[str, Mapping[int, Counter[str]]]]) -> dict[str, str]:
    """All postings by term, column by column, a term's as Postgres writes arrays; {} if none.

    Those of a term that fill more than one segment come in several parts, numbered from 0; `begins`
    is the size of its first part. No term contains a line break, no corpus a comma.
    """
    of_corpora: list[str] = []
    terms: list[str] = []
    parts: list[str] = []
    begins: list[str] = []
    columns: list[tuple[str, str, str]] = []
    for corpus, texts in corpora:
        found: dict[str, tuple[list[str], list[str], list[str]]] = {}
        for lexical_no, counts in sorted(texts.items()):
            number, length = str(lexical_no), str(min(counts.total(), _MAX_COUNT))
            for term, count in counts.items():
                frequency = "1" if count == 1 else str(min(count, _MAX_COUNT))
                if (known := found.get(term)) is None:
                    found[term] = [number], [frequency], [length]
                else:
                    known[0].append(number)
                    known[1].append(frequency)
                    known[2].append(length)
        for term, of_term in found.items():
            many = len(of_term[0])
            for part, start in enumerate(range(0, many, SEGMENT)):
                of_corpora.append(corpus)
                terms.append(term)
                parts.append(str(part))
                begins.append(str(min(many, SEGMENT)))
                of_part = slice(start, start + SEGMENT)
                columns.append(tuple(",".join(each[of_part]) for each in of_term))  # type: ignore[arg-type]
    if not terms:
        return {}
    lexical_nos, frequencies, lengths = (
        "{" + "};{".join(column) + "}" for column in zip(*columns, strict=True)
    )
    return {
        "corpora": ",".join(of_corpora),
        "terms": "\n".join(terms),
        "parts": ",".join(parts),
        "begins": ",".join(begins),
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
    postings = [TermPostings(*row) for row in await distinctive.fetchall()]
    row = await statistics.fetchone()
    return postings, Statistics(*row) if row else Statistics(0, 0)
