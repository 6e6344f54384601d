"""Looks up a single character of a script without spaces in the pairs that contain it (D13)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from hitherto_retrieval.storage import passages
from hitherto_retrieval.storage.passages import Corpus, Index
from hitherto_retrieval.storage.statement import Statement
from hitherto_shared.models import Scope
from hitherto_shared.text.bm25 import TermPostings
from hitherto_shared.text.terms import lone_characters

_MAX_CHARACTERS = 16
"""Maximum per question; a text with more is not a question in such a script."""


class LoneCharacters:
    """The single characters of one question: the index holds "猫" as "黒猫" and "猫が"."""

    def __init__(self, scope: Scope, terms: Sequence[str], corpora: Sequence[Corpus]) -> None:
        self._characters = lone_characters(terms)[:_MAX_CHARACTERS]
        self._pairs = passages.pairs(scope, corpora, self._characters)

    @property
    def statements(self) -> Sequence[Statement[Any]]:
        """Statements to run before `counted`; none for most questions."""
        return [self._pairs] if self._characters else []

    def counted(self, postings: Sequence[TermPostings], index: Index) -> list[TermPostings]:
        """The postings of the question's terms, in which a character counts wherever it stands."""
        if not self._characters:
            return list(postings)
        return with_pairs(postings, self._pairs.answer[index], self._characters)


def with_pairs(
    postings: Sequence[TermPostings], pairs: Sequence[TermPostings], characters: Sequence[str]
) -> list[TermPostings]:
    """The pure part of `LoneCharacters.counted`.

    Args:
        postings: Index entries of the question's terms, including the single characters.
        pairs: Index entries of all pairs that contain one of the characters.
        characters: Terms of the question that are one character.
    """
    alone: dict[str, list[TermPostings]] = {character: [] for character in characters}
    first: dict[str, list[TermPostings]] = {character: [] for character in characters}
    second: dict[str, list[TermPostings]] = {character: [] for character in characters}
    for segment in postings:
        if segment.term in alone:
            alone[segment.term].append(segment)
    for segment in pairs:
        for at, character in zip((first, second), segment.term, strict=True):
            if character in at:
                at[character].append(segment)
    return [
        *(segment for segment in postings if segment.term not in alone),
        *(_one(each, alone[each], first[each], second[each]) for each in alone),
    ]


def _one(
    character: str,
    alone: Sequence[TermPostings],
    first: Sequence[TermPostings],
    second: Sequence[TermPostings],
) -> TermPostings:
    lengths: dict[int, int] = {}
    by_itself, opening, closing = (_counted(each, lengths) for each in (alone, first, second))
    # Inside a run, a character is the second of one pair and the first of the next.
    frequencies = [
        by_itself.get(number, 0) + max(opening.get(number, 0), closing.get(number, 0))
        for number in lengths
    ]
    return TermPostings(character, list(lengths), frequencies, list(lengths.values()))


def _counted(segments: Sequence[TermPostings], lengths: dict[int, int]) -> Mapping[int, int]:
    """How often each document contains one of the terms.

    Adds the documents' lengths to `lengths`.
    """
    counts: dict[int, int] = defaultdict(int)
    for segment in segments:
        for number, frequency, length in zip(*segment[1:], strict=True):
            counts[number] += frequency
            lengths[number] = length
    return counts
