"""Finds memories for a question about another time.

The legs are those of a search of the present (`filtered_candidates.find`), over the state
of the memories at a `Moment`. Only present wordings have vectors and postings. A memory with
another wording at the moment has the vector of its present one, which is close for most rewordings
but not exact; its earlier words are returned for the ranking to score (`search.past`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hitherto_retrieval.storage import filtered_candidates, memory_candidates
from hitherto_retrieval.storage.candidate import Candidate
from hitherto_retrieval.storage.filters import Filters
from hitherto_retrieval.storage.memory_candidates import Sought
from hitherto_retrieval.storage.moment import Moment
from hitherto_retrieval.storage.statement import Rows, Statement
from hitherto_shared.models import Scope

_CHOSEN = 10
"""The column that tells whether a leg found a memory; its earlier words stand before it."""


@dataclass(frozen=True, slots=True)
class PastCandidate:
    """A candidate as of a moment.

    Attributes:
        candidate: The candidate, with keyword score 0 if its words have changed since.
        old_words: Its words then, with its keywords; empty if they are unchanged.
        chosen: Whether a leg found it; if not, it is returned for its earlier words only.
    """

    candidate: Candidate
    old_words: str
    chosen: bool


def candidates(
    scope: Scope, sought: Sought, moment: Moment, filters: Filters
) -> Statement[list[PastCandidate]]:
    """Candidates that pass `filters` at `moment`; `search.past` completes them.

    Memories count by their state at the moment, but by the entities that they mention now.
    """
    return filtered_candidates.find_at(
        scope, sought, moment, filters, lambda rows: _candidates(rows, sought)
    )


def _candidates(rows: Rows, sought: Sought) -> list[PastCandidate]:
    chosen = [row for row in rows if row[_CHOSEN]]
    others = [row for row in rows if not row[_CHOSEN]]
    return [
        PastCandidate(candidate, old_words=row[_CHOSEN - 1], chosen=row[_CHOSEN])
        for found, leg in ((chosen, sought), (others, replace(sought, newest=0)))
        for row, candidate in zip(
            found,
            memory_candidates.candidates_of([row[: _CHOSEN - 1] for row in found], leg),
            strict=True,
        )
    ]
