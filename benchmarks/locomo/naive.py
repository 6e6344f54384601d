"""Lists that anybody can make of what was said: the best by BM25 or by cosine, until it is full."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.locomo.data import BenchmarkQuestion
from benchmarks.serving import vectors_of
from hitherto_retrieval.render.tokens import CountTokens
from hitherto_shared.embeddings.protocol import Embedder
from hitherto_shared.text.bm25 import TermPostings, score
from hitherto_shared.text.passages import message_text
from hitherto_shared.text.terms import count_terms, query_terms


class NaiveLists:
    """All that was said to or by one user, to be put in order by one feature.

    Args:
        sessions: Rows of the data set, of this user only.
    """

    def __init__(self, sessions: Sequence[Mapping[str, Any]]) -> None:
        said = [message for session in sessions for message in session["messages"]]
        self._texts = [message_text(each.get("name", ""), each["content"]) for each in said]
        self._lines = [
            f"- {each['created_at'][:10]} {text}\n"
            for each, text in zip(said, self._texts, strict=True)
        ]
        counted = [count_terms(text) for text in self._texts]
        self._lengths = [counts.total() for counts in counted]
        self._postings: dict[str, Counter[int]] = {}
        for number, counts in enumerate(counted):
            for term, frequency in counts.items():
                self._postings.setdefault(term, Counter())[number] = frequency
        self._vectors = np.zeros((0, 0))

    async def embed(self, embedder: Embedder) -> None:
        """Have the vectors of all, which `by_cosine` needs."""
        self._vectors = np.asarray(await vectors_of(embedder, self._texts), dtype=np.float32)

    def by_words(self, question: BenchmarkQuestion) -> Sequence[int]:
        """Numbers of the messages that have a word of the question, best first."""
        postings = []
        for term in dict.fromkeys(query_terms(question.text)):
            if found := self._postings.get(term):
                numbers = list(found)
                lengths = [self._lengths[number] for number in numbers]
                postings.append(TermPostings(term, numbers, list(found.values()), lengths))
        return score(postings, len(self._texts), sum(self._lengths)).best(len(self._texts))

    def by_cosine(self, vector: np.ndarray[Any, Any]) -> Sequence[int]:
        """Numbers of all messages, the nearest first."""
        order: list[int] = np.argsort(-(self._vectors @ vector), kind="stable").tolist()
        return order

    def printed(self, numbers: Sequence[int], budget: int, count: CountTokens) -> str:
        """Their lines with day and speaker, in this order, until one does not fit."""
        lines: list[str] = []
        for number in numbers:
            budget -= count(self._lines[number])
            if budget < 0:
                break
            lines.append(self._lines[number])
        return "".join(lines)
