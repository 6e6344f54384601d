"""Finds single characters of scripts without spaces in the pairs that the index holds (D13).

The index holds "猫" as "黒猫" and "猫が". No index supports finding the second character of a pair:
all terms of the user are scanned, and only for a question with such a character.
"""

from __future__ import annotations

from collections.abc import Sequence

from hitherto_retrieval.storage.passages import Corpus, Index, by_index
from hitherto_retrieval.storage.statement import Statement
from hitherto_shared.models import Scope
from hitherto_shared.text.bm25 import TermPostings

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


def pairs(
    scope: Scope, corpora: Sequence[Corpus], characters: Sequence[str]
) -> Statement[dict[Index, list[TermPostings]]]:
    """Postings of pairs with one of the characters, in the indexes of memories and of `corpora`.

    Every requested index has an entry.
    """
    return Statement(
        _PAIRS,
        scope.bind(corpora=list(corpora), characters=list(characters)),
        lambda rows: by_index(rows, ["memories", *corpora]),
    )
