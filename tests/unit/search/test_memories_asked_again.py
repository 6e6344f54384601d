"""A search that is cut off and begins anew forgets what it had (rows 16, 17; D12)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import numpy as np

from hitherto_retrieval.search.corpora.memories import MemoryCorpus
from hitherto_retrieval.search.reads import UserReads
from hitherto_retrieval.storage.filters import Filters
from hitherto_retrieval.storage.item_query import ItemQuery
from hitherto_shared.models import Scope

NOW = datetime.now(UTC)
QUERY = ItemQuery(Scope("t", "ana"), vector=np.ones(2, dtype=np.float32), model="m", wanted=2)


def rows(*numbers: int) -> list[tuple[Any, ...]]:
    """What the quick look answers, of memories that are all among the two nearest."""
    return [(UUID(int=n), 0.5, NOW, NOW, None, n, 0.5, None, 0, True, 2, 0) for n in numbers]


def test_an_exact_look_of_before_is_not_taken_for_that_of_now() -> None:
    corpus = MemoryCorpus(Filters(), 100, UserReads(QUERY.scope))
    (quick,) = corpus.first(QUERY)
    # One of the nearest had expired: everything has to be compared.
    quick.answered(rows(1))
    (exact,) = corpus.second()
    exact.answered([row[:9] for row in rows(1, 7)])
    assert [candidate.key for candidate in corpus.candidates()] == [UUID(int=1), UUID(int=7)]
    # The connection is lost. Where the search is done again nothing has expired.
    (again,) = corpus.first(QUERY)
    assert again is not quick
    again.answered(rows(1, 2))
    assert corpus.second() == ()
    assert [candidate.key for candidate in corpus.candidates()] == [UUID(int=1), UUID(int=2)]
