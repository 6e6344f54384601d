"""BM25: scores how well the words of a memory match those of a question.

The formula is the one of Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and
Beyond" (Foundations and Trends in Information Retrieval, 2009), with one added inside the logarithm
of the idf, so that a word in most of a user's memories counts little but never against them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, chain, pairwise
from typing import NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from hitherto_shared.text.word_forms import forms

_Number = TypeVar("_Number", np.int64, np.float64)

K1 = 1.2
"""How soon further occurrences of a term stop counting."""
B = 0.75
"""How much the length of a document matters: 0 not at all, 1 in full."""


class TermPostings(NamedTuple):
    """One segment of a term's postings: three lists of equal length.

    A document is in only one segment of a term. `lengths` are the total terms of the documents.
    """

    term: str
    lexical_nos: Sequence[int]
    frequencies: Sequence[int]
    lengths: Sequence[int]


class Statistics(NamedTuple):
    """What the formula needs about a user's whole index: the numbers of documents and terms."""

    documents: int
    terms: int


class Scores(Mapping[int, float]):
    """The score of every document that has one, by its lexical number.

    A mapping that also answers for many numbers at once: a frequent word is in thousands of
    documents, of which a hundred are looked up.
    """

    def __init__(self, numbers: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        self._numbers = numbers
        self._values = values

    @classmethod
    def of(cls, scores: Mapping[int, float]) -> Self:
        """The same, from any mapping."""
        numbers = sorted(scores)
        return cls(
            np.asarray(numbers, dtype=np.int64),
            np.asarray([scores[number] for number in numbers], dtype=np.float64),
        )

    def best(self, count: int, *, with_equals: bool = False) -> list[int]:
        """The numbers of the `count` best, best first; equal scores in the order of numbers.

        `with_equals` adds those that score as much as the last of them.
        """
        if with_equals and 0 < count < len(self._values):
            count = int(np.count_nonzero(self._values >= self.least_of_best(count)))
        order = np.argsort(-self._values, kind="stable")[:count]
        found: list[int] = self._numbers[order].tolist()
        return found

    def least_of_best(self, count: int) -> float:
        """The score of the last of the `count` best, at least one; 0 if there are fewer."""
        if count > len(self._values):
            return 0.0
        return float(-np.partition(-self._values, count - 1)[count - 1])

    def places(self) -> list[int]:
        """The rank of each number, 1 for the best score, and 0 for none."""
        if not len(self._numbers):
            return []
        found = np.zeros(int(self._numbers.max()), dtype=np.int64)
        order = np.argsort(-self._values, kind="stable")
        found[self._numbers[order] - 1] = np.arange(1, len(order) + 1)
        places: list[int] = found.tolist()
        return places

    def of_each(self, numbers: Sequence[int]) -> list[float]:
        """The score of each of `numbers`, 0 for those that have none."""
        if not len(self._numbers) or not numbers:
            return [0.0] * len(numbers)
        asked = np.asarray(numbers, dtype=np.int64)
        places = np.minimum(np.searchsorted(self._numbers, asked), len(self._numbers) - 1)
        found: list[float] = np.where(
            self._numbers[places] == asked, self._values[places], 0.0
        ).tolist()
        return found

    @cached_property
    def _by_number(self) -> dict[int, float]:
        return dict(zip(self._numbers.tolist(), self._values.tolist(), strict=True))

    def __getitem__(self, number: int) -> float:
        return self._by_number[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._by_number)

    def __len__(self) -> int:
        return len(self._numbers)


NO_SCORES = Scores.of({})

_DENSE = 1_000_000
"""Up to this number, scores are summed in an array over all numbers, which avoids sorting."""


def score(postings: Iterable[TermPostings], documents: int, total_terms: int) -> Scores:
    """The score of every document that has at least one of the terms, by its lexical number.

    Args:
        postings: the segments of the question's terms, in any order; segments of one term count
            together for its document frequency. Forms of a word ("go", "went") are one term.
        documents: how many documents the user has. Where the postings know of more, because the
            two were not read at the same moment, a term's own number of documents is used.
        total_terms: the length of all documents together; with `documents` it gives the average.

    Raises:
        ValueError: a segment's three lists differ in length, so the stored row is damaged.
    """
    _, numbers, parts = _parts(postings, documents, total_terms)
    return Scores(*_sums(numbers, parts))


def score_each(
    questions: Iterable[Sequence[str]],
    postings: Iterable[TermPostings],
    documents: int,
    total_terms: int,
) -> list[Scores]:
    """`score` of several questions, whose postings were read together.

    A question is given by its terms, with all forms of its words (`terms.looked_up_terms`).
    """
    having, numbers, parts = _parts(postings, documents, total_terms)
    ends = dict(zip(having, accumulate(having.values()), strict=True))
    words = [
        [word for word in dict.fromkeys([forms(term)[0] for term in terms]) if word in ends]
        for terms in questions
    ]
    places = [slice(ends[word] - having[word], ends[word]) for its in words for word in its]
    if not places:
        return [NO_SCORES] * len(words)
    # All questions are summed at once, each in a range of numbers of its own: numpy takes as long
    # to begin as for a hundred numbers.
    least = int(numbers.min())
    width = int(numbers.max()) - least + 1
    starts = np.arange(len(words)) * width
    sizes = [sum([having[word] for word in its]) for its in words]
    found, sums = _sums(
        np.concatenate([numbers[place] for place in places]) - least + np.repeat(starts, sizes),
        np.concatenate([parts[place] for place in places]),
    )
    ends_of_ranges = np.searchsorted(found, starts + width).tolist()
    found = found % width + least
    return [
        Scores(found[begin:end], sums[begin:end]) for begin, end in pairwise([0, *ends_of_ranges])
    ]


def _parts(
    postings: Iterable[TermPostings], documents: int, total_terms: int
) -> tuple[dict[str, int], NDArray[np.int64], NDArray[np.float64]]:
    """How many documents have each word; their numbers, and what the word adds to their scores."""
    by_word = _by_word(segment for segment in postings if len(segment.lexical_nos))
    segments = list(chain.from_iterable(by_word.values()))
    having = {
        word: sum([len(segment.lexical_nos) for segment in its]) for word, its in by_word.items()
    }
    average = total_terms / documents if documents > 0 and total_terms > 0 else 1.0
    numbers = _join([segment.lexical_nos for segment in segments], np.int64)
    frequencies = _join([segment.frequencies for segment in segments], np.float64)
    lengths = _join([segment.lengths for segment in segments], np.float64)
    sizes = list(having.values())
    weights = np.repeat([_idf(size, documents) for size in sizes], sizes)
    saturation = frequencies + K1 * (1.0 - B + B * lengths / average)
    return having, numbers, weights * (frequencies * (K1 + 1.0)) / saturation


def _sums(
    numbers: NDArray[np.int64], parts: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Each number once, ascending, and the sum of the parts beside it."""
    if len(numbers) and numbers.min() >= 0 and numbers.max() <= _DENSE:
        # A document that has a term counts, even if the term has no weight.
        found = np.flatnonzero(np.bincount(numbers))
        return found, np.bincount(numbers, weights=parts)[found].astype(np.float64)
    found, places = np.unique(numbers, return_inverse=True)
    return found, np.bincount(places, weights=parts, minlength=len(found)).astype(np.float64)


def weights(
    postings: Iterable[TermPostings], terms: Iterable[str], documents: int
) -> dict[str, float]:
    """The weight of each of a question's words, also of those that no document has.

    Forms of a word count as one word, under its first form.
    """
    having: dict[str, int] = dict.fromkeys((forms(term)[0] for term in terms), 0)
    for segment in postings:
        word = forms(segment.term)[0]
        having[word] = having.get(word, 0) + len(segment.lexical_nos)
    return {word: _idf(number, documents) for word, number in having.items()}


def _by_word(segments: Iterable[TermPostings]) -> dict[str, list[TermPostings]]:
    """The segments by headword, those of several forms of a word as one."""
    words: dict[str, list[TermPostings]] = {}
    for segment in segments:
        size = len(segment.lexical_nos)
        if len(segment.frequencies) != size or len(segment.lengths) != size:
            raise ValueError(
                f"the postings of {segment.term!r} have lists of unequal length: "
                "rebuild this user's keyword index"
            )
        words.setdefault(forms(segment.term)[0], []).append(segment)
    for word, its in words.items():
        if len(its) == 1 or len({segment.term for segment in its}) == 1:
            continue
        # A document with two forms has the word as often as both together.
        numbers = _join([segment.lexical_nos for segment in its], np.int64)
        frequencies = _join([segment.frequencies for segment in its], np.float64)
        lengths = _join([segment.lengths for segment in its], np.int64)
        documents, first, places = np.unique(numbers, return_index=True, return_inverse=True)
        times = np.bincount(places, weights=frequencies)
        words[word] = [
            TermPostings(word, documents.tolist(), times.tolist(), lengths[first].tolist())
        ]
    return words


def _idf(having: int, documents: int) -> float:
    """The weight of a term that `having` of the documents contain; never negative."""
    return math.log1p((max(documents, having) - having + 0.5) / (having + 0.5))


def _join(lists: list[Sequence[int]], kind: type[_Number]) -> NDArray[_Number]:
    # In one go: most lists are short.
    return np.fromiter(chain.from_iterable(lists), dtype=kind)
