"""Reads the keyword index of passages: messages, summaries and document chunks, one corpus each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from hitherto_retrieval.storage.statement import Rows, Statement
from hitherto_shared.database.arrays import Texts
from hitherto_shared.models import Scope
from hitherto_shared.text.bm25 import Statistics, TermPostings

Corpus = Literal["documents", "messages", "summaries"]
Index = Corpus | Literal["memories"]
"""Memories and each corpus of passages have an index of their own."""

_POSTINGS = """
SELECT corpus, term, lexical_nos, frequencies, lengths
FROM passage_postings
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND corpus = ANY(%(corpora)s)
  AND term = ANY(%(terms)s)
"""

# Those of memories as well.
_ALL_POSTINGS = """
SELECT 'memories', term, lexical_nos, frequencies, lengths
FROM postings
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND term = ANY(%(terms)s)
UNION ALL
SELECT corpus, term, lexical_nos, frequencies, lengths
FROM passage_postings
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND corpus = ANY(%(corpora)s)
  AND term = ANY(%(terms)s)
"""

_STATISTICS = """
SELECT corpus, texts, terms
FROM passage_statistics
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""


def postings(
    scope: Scope, corpora: Sequence[Corpus], terms: Sequence[str]
) -> Statement[dict[str, list[TermPostings]]]:
    """The postings of these terms; every requested corpus has an entry."""

    def read(rows: Rows) -> dict[str, list[TermPostings]]:
        found: dict[str, list[TermPostings]] = {corpus: [] for corpus in corpora}
        for corpus, *segment in rows:
            found[corpus].append(TermPostings(*segment))
        return found

    return Statement(
        _POSTINGS,
        scope.bind(corpora=Texts(corpora), terms=Texts(terms)),
        read,
    )


def all_postings(
    scope: Scope, corpora: Sequence[Corpus], terms: Sequence[str]
) -> Statement[dict[Index, list[TermPostings]]]:
    """What the indexes of memories and of `corpora` hold of these terms; each has an entry."""

    def read(rows: Rows) -> dict[Index, list[TermPostings]]:
        found: dict[Index, list[TermPostings]] = {"memories": []}
        found.update({corpus: [] for corpus in corpora})
        for index, *segment in rows:
            found[index].append(TermPostings(*segment))
        return found

    return Statement(
        _ALL_POSTINGS,
        {
            "tenant_id": scope.tenant_id,
            "user_id": scope.user_id,
            "corpora": Texts(corpora),
            "terms": Texts(terms),
        },
        read,
    )


def statistics(scope: Scope) -> Statement[dict[str, Statistics]]:
    """The number of texts and terms of each corpus; a corpus that never had a text is left out."""
    return Statement(
        _STATISTICS,
        scope.parameters,
        lambda rows: {row[0]: Statistics(row[1], row[2]) for row in rows},
    )
