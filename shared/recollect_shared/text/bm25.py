"""BM25: how well the words of a memory answer the words of a question.

The formula is the one of Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and
Beyond" (Foundations and Trends in Information Retrieval, 2009), with one added inside the
logarithm of the idf, so that a word in most of a user's memories counts little but never against
them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

_Number = TypeVar("_Number", np.int64, np.float64)

K1 = 1.2
"""How soon further occurrences of a term stop to count."""
B = 0.75
"""How much the length of a document counts: 0 not at all, 1 in full."""


class TermPostings(NamedTuple):
    """One segment of a term's postings: three lists of one length.

    A document stands in one segment of a term only. `lengths` are the documents' terms in all.
    """

    term: str
    lexical_nos: Sequence[int]
    frequencies: Sequence[int]
    lengths: Sequence[int]


class Statistics(NamedTuple):
    """What the formula needs of a user's index as a whole: documents, and terms in all of them."""

    documents: int
    terms: int


def score(
    postings: Iterable[TermPostings],
    documents: int,
    total_terms: int,
    *,
    k1: float = K1,
    b: float = B,
) -> dict[int, float]:
    """The score of every document that has at least one of the terms, by its lexical number.

    Args:
        postings: the segments of the question's terms, in any order; segments of one term count
            together for its document frequency.
        documents: how many documents the user has. Where the postings know of more, because the
            two were not read at the same moment, a term's own number of documents is used.
        total_terms: the length of all documents together; with `documents` it gives the average.
        k1: how soon further occurrences stop to count; 0 counts a term once.
        b: how much the length of a document counts, from 0 to 1.

    Raises:
        ValueError: a segment's three lists differ in length, so the stored row is damaged.
    """
    segments = [segment for segment in postings if len(segment.lexical_nos)]
    if not segments:
        return {}
    document_frequency: dict[str, int] = {}
    for segment in segments:
        size = len(segment.lexical_nos)
        if len(segment.frequencies) != size or len(segment.lengths) != size:
            raise ValueError(
                f"the postings of {segment.term!r} have lists of unequal length: "
                "rebuild this user's keyword index"
            )
        document_frequency[segment.term] = document_frequency.get(segment.term, 0) + size
    average = total_terms / documents if documents > 0 and total_terms > 0 else 1.0

    numbers = _join([segment.lexical_nos for segment in segments], np.int64)
    frequencies = _join([segment.frequencies for segment in segments], np.float64)
    lengths = _join([segment.lengths for segment in segments], np.float64)
    weights = np.repeat(
        [_idf(document_frequency[segment.term], documents) for segment in segments],
        [len(segment.lexical_nos) for segment in segments],
    )
    saturation = frequencies + k1 * (1.0 - b + b * lengths / average)
    parts = weights * (frequencies * (k1 + 1.0)) / saturation

    found, places = np.unique(numbers, return_inverse=True)
    sums = np.bincount(places, weights=parts, minlength=len(found))
    return dict(zip(found.tolist(), sums.tolist(), strict=True))


def _idf(having: int, documents: int) -> float:
    """The weight of a term that `having` of the documents have; never negative."""
    return math.log1p((max(documents, having) - having + 0.5) / (having + 0.5))


def _join(lists: list[Sequence[int]], kind: type[_Number]) -> NDArray[_Number]:
    return np.concatenate([np.asarray(values, dtype=kind) for values in lists])
