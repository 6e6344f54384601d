"""Finds the past conversations about a question, and those in which its results were said."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from hitherto_retrieval.search.corpora.corpus import Item
from hitherto_retrieval.search.question import Hit, Question
from hitherto_retrieval.search.ranking.ranking import RankedCandidate
from hitherto_retrieval.search.reads import UserReads
from hitherto_retrieval.storage.statement import Statement
from hitherto_shared.models import Summary

_BM25_HALF = 8.0
_ABOUT = 0.5
"""Sum of cosine and keyword score from which a past conversation counts as being about a
question."""


class RelatedConversations:
    """Selects the best past conversations.

    Those that are not results are read along with the results.
    """

    def __init__(
        self,
        reads: UserReads,
        ranked: Sequence[RankedCandidate],
        best: Sequence[RankedCandidate],
        question: Question,
        *,
        limit: int,
    ) -> None:
        summaries = [item for item in ranked if item.candidate.kind == "summary"]
        about = (item.candidate.key for item in summaries if _is_about(item))
        self._keys = list(islice(about, limit))
        said_in = [
            item.candidate.conversation_id
            for item in (best if question.for_a_prompt else ())
            if item.candidate.kind == "message"
        ]
        self._said_in = list(dict.fromkeys(each for each in said_in if each is not None))
        wanted = dict.fromkeys((*self._keys, *self._said_in))
        if wanted:
            included = {item.candidate.key for item in best if item.candidate.kind == "summary"}
            wanted = {key: None for key in wanted if key not in included}
        self._beside = reads.whole("summary", list(wanted)) if wanted else None

    @property
    def statements(self) -> Sequence[Statement[Any]]:
        """Statements to run along with those of the results."""
        return [] if self._beside is None else [self._beside]

    def summaries(self, hits: Sequence[Hit]) -> tuple[list[Summary], list[Summary]]:
        """Those about the question, best first, and those in which messages of a prompt were said.

        Call it after `statements` have run and the results are read.
        """
        if not (self._keys or self._said_in):
            return [], []
        items: list[Item] = [hit.item for hit in hits]
        if self._beside is not None:
            items += self._beside.answer.values()
        found = {item.conversation_id: item for item in items if isinstance(item, Summary)}
        return (
            [found[key] for key in self._keys if isinstance(key, str) and key in found],
            [found[key] for key in self._said_in if key in found],
        )


def _is_about(item: RankedCandidate) -> bool:
    """Whether a past conversation is about a question, and not merely the nearest to it.

    A conversation of the time that the question names is.
    """
    candidate = item.candidate
    if item.timely:
        return True
    words = candidate.bm25 / (candidate.bm25 + _BM25_HALF)
    return max(0.0, candidate.cosine or 0.0) + words >= _ABOUT
