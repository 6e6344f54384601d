"""Keyword scores of words that memories no longer have, as pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hitherto_retrieval.storage.candidate import Candidate
from hitherto_retrieval.storage.past_candidates import PastCandidate
from hitherto_shared.text.bm25 import Statistics, TermPostings, score
from hitherto_shared.text.terms import count_terms, occurrences

# Above every number that the index assigns, so that earlier wordings do not collide with present
# ones.
FIRST = 1 << 40
"""The first number of texts that are scored beside those of the index."""


def with_old_words(
    found: Sequence[PastCandidate],
    terms: Sequence[str],
    postings: Sequence[TermPostings],
    statistics: Statistics,
    *,
    wanted: int,
) -> list[Candidate]:
    """The candidates with the keyword scores of their earlier words.

    Earlier wordings are scored as further texts of the index, so that both are on one scale: a word
    that is rare among the present texts weighs much in an earlier one too.

    Args:
        found: The candidates from storage, with their earlier words.
        terms: The terms of the question.
        postings: Index entries of these terms.
        statistics: Statistics of the whole index.
        wanted: Maximum number of candidates found by earlier words alone, the best first; those
            without a word of the question do not count.
    """
    old = {place: item.old_words for place, item in enumerate(found) if item.old_words}
    if not terms or not old:
        return [item.candidate for item in found if item.chosen]
    scores = score(
        [
            *postings,
            *postings_of(terms, {FIRST + place: count_terms(text) for place, text in old.items()}),
        ],
        statistics.documents,
        statistics.terms,
    )
    earned = {place: scores.get(FIRST + place, 0.0) for place in old}
    by_words = [place for place in old if earned[place] > 0 and not found[place].chosen]
    by_words.sort(key=lambda place: -earned[place])
    admitted = set(by_words[:wanted])
    return [
        replace(item.candidate, bm25=earned.get(place, item.candidate.bm25))
        for place, item in enumerate(found)
        if item.chosen or place in admitted
    ]


def postings_of(terms: Sequence[str], counted: Mapping[int, Counter[str]]) -> list[TermPostings]:
    """The index entries that an index of the texts would have for the terms, by text number."""
    lengths = {number: counts.total() for number, counts in counted.items()}
    found = []
    for term in terms:
        having = {n: times for n, counts in counted.items() if (times := occurrences(counts, term))}
        found.append(
            TermPostings(
                term, list(having), list(having.values()), [lengths[number] for number in having]
            )
        )
    return found
