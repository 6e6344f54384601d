"""Reads the keyword indexes: of memories, and of messages, summaries and chunks of documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeVar

from hitherto_retrieval.storage.statement import Rows, Statement
from hitherto_shared.database.arrays import Texts
from hitherto_shared.models import Scope
from hitherto_shared.text.bm25 import Statistics, TermPostings

Corpus = Literal["documents", "messages", "summaries"]
Index = Corpus | Literal["memories"]
"""Memories and each corpus of passages have an index of their own."""
Name = TypeVar("Name", bound=str)

_POSTINGS = """
SELECT 'memories', term, lexical_nos, frequencies, lengths
FROM postings
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND term = ANY(%(terms)s)
UNION ALL
SELECT corpus, term, lexical_nos, frequencies, lengths
FROM passage_postings
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND corpus = ANY(%(corpora)s)
  AND term = ANY(%(terms)s)
"""

# No index finds the second character of a pair: all terms of the user are scanned, and only for a
# question with a lone character of a script without spaces (D13).
_PAIRS = """
SELECT 'memories', term, lexical_nos, frequencies, lengths
FROM postings
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND char_length(term) = 2
  AND (left(term, 1) = ANY(%(characters)s) OR right(term, 1) = ANY(%(characters)s))
UNION ALL
SELECT corpus, term, lexical_nos, frequencies, lengths
FROM passage_postings
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND corpus = ANY(%(corpora)s)
  AND char_length(term) = 2
  AND (left(term, 1) = ANY(%(characters)s) OR right(term, 1) = ANY(%(characters)s))
"""

_STATISTICS = """
SELECT corpus, texts, terms
FROM passage_statistics
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""


def postings(
    scope: Scope, corpora: Sequence[Corpus], terms: Sequence[str]
) -> Statement[dict[Index, list[TermPostings]]]:
    """What the indexes of memories and of `corpora` hold of these terms; each has an entry."""
    return Statement(
        _POSTINGS,
        scope.bind(corpora=Texts(corpora), terms=Texts(terms)),
        lambda rows: _by_index(rows, ["memories", *corpora]),
    )


def pairs(
    scope: Scope, corpora: Sequence[Corpus], characters: Sequence[str]
) -> Statement[dict[Index, list[TermPostings]]]:
    """Postings of pairs with one of the characters: the index holds "猫" as "黒猫" and "猫が".

    The indexes are those of memories and of `corpora`; each has an entry.
    """
    return Statement(
        _PAIRS,
        scope.bind(corpora=list(corpora), characters=list(characters)),
        lambda rows: _by_index(rows, ["memories", *corpora]),
    )


def statistics(scope: Scope) -> Statement[dict[Index, Statistics]]:
    """The number of texts and terms of each corpus; a corpus that never had a text is left out."""
    return Statement(
        _STATISTICS,
        scope.parameters,
        lambda rows: {row[0]: Statistics(row[1], row[2]) for row in rows},
    )


def _by_index(rows: Rows, indexes: Sequence[Name]) -> dict[Name, list[TermPostings]]:
    """Segments by the index that they are of, the first column; each of `indexes` has an entry."""
    found: dict[Name, list[TermPostings]] = {index: [] for index in indexes}
    for index, *segment in rows:
        found[index].append(TermPostings(*segment))
    return found
