"""Finds the past conversations about a question, beside its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hitherto_retrieval.search.corpora.corpus import Item
from hitherto_retrieval.search.corpora.held import AtHand
from hitherto_retrieval.search.question import Hit
from hitherto_retrieval.search.ranking.ranking import RankedCandidate
from hitherto_retrieval.search.whole_results import whole
from hitherto_retrieval.storage.candidate import Key
from hitherto_retrieval.storage.statement import Answered, Statement
from hitherto_shared.models import Scope, Summary

_BM25_HALF = 8.0
_ABOUT = 0.5
"""Sum of cosine and keyword score from which a past conversation counts as being about a
question."""


class RelatedConversations:
    """Selects the best past conversations.

    Those that are not results are read along with the results.

    Args:
        scope: The user.
        ranked: All scored candidates, best first.
        best: The results to return.
        limit: Maximum number of conversations.
        held: The snapshot.
    """

    def __init__(
        self,
        scope: Scope,
        ranked: Sequence[RankedCandidate],
        best: Sequence[RankedCandidate],
        *,
        limit: int,
        held: AtHand | None = None,
    ) -> None:
        self._keys = [item.candidate.key for item in ranked if _is_about(item)][:limit]
        included = [item.candidate.key for item in best if item.candidate.kind == "summary"]
        missing = [key for key in self._keys if key not in included]
        self._beside: Statement[Mapping[Key, Item]] | Answered[Mapping[Key, Item]] | None = None
        if missing:
            known = held.whole("summary", missing) if held is not None else None
            self._beside = whole(scope, "summary", missing) if known is None else Answered(known)

    @property
    def statements(self) -> Sequence[Statement[Any]]:
        """Statements to run along with those of the results."""
        return [self._beside] if isinstance(self._beside, Statement) else []

    def summaries(self, hits: Sequence[Hit]) -> list[Summary]:
        """The summaries, best first.

        Call it after `statements` have run and the results are read.
        """
        items: list[Item] = [hit.item for hit in hits]
        if self._beside is not None:
            items += self._beside.answer.values()
        found = {item.conversation_id: item for item in items if isinstance(item, Summary)}
        return [found[key] for key in self._keys if isinstance(key, str) and key in found]


def _is_about(item: RankedCandidate) -> bool:
    """Whether an item is a past conversation about a question, and not merely the nearest to it.

    A conversation of the time that the question names is.
    """
    candidate = item.candidate
    if candidate.kind != "summary":
        return False
    if item.timely:
        return True
    words = candidate.bm25 / (candidate.bm25 + _BM25_HALF)
    return max(0.0, candidate.cosine or 0.0) + words >= _ABOUT
