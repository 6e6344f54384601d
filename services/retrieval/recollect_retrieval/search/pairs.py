"""A single character of a script without spaces, counted in the pairs that have it. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from recollect_shared.text.bm25 import TermPostings


def with_characters_of_pairs(
    postings: Sequence[TermPostings], pairs: Sequence[TermPostings], characters: Sequence[str]
) -> list[TermPostings]:
    """The postings of a question, in which a character is a term wherever it stands.

    Args:
        postings: What the index holds of the question's terms, also of the characters alone.
        pairs: What it holds of all pairs that have one of the characters.
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
    # In the middle of a run a character is the second of one pair and the first of the next.
    frequencies = [
        by_itself.get(number, 0) + max(opening.get(number, 0), closing.get(number, 0))
        for number in lengths
    ]
    return TermPostings(character, list(lengths), frequencies, list(lengths.values()))


def _counted(segments: Sequence[TermPostings], lengths: dict[int, int]) -> Mapping[int, int]:
    """How often each document has one of the terms; `lengths` learns of the documents."""
    counts: dict[int, int] = defaultdict(int)
    for segment in segments:
        for number, frequency, length in zip(*segment[1:], strict=True):
            counts[number] += frequency
            lengths[number] = length
    return counts
