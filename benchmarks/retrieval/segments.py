"""The keyword index of some texts, as its rows are stored."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

SEGMENT = 256
"""Postings per row, as the schema's CHECK has it."""

Posting = tuple[str, int, list[int], list[int], list[int]]
"""Term, segment, lexical numbers, frequencies, lengths."""


def postings(texts: Sequence[Counter[str]]) -> Iterator[Posting]:
    """Rows of the index of texts, given by their terms, which are numbered from 1 on."""
    held: defaultdict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for number, counts in enumerate(texts, start=1):
        length = counts.total()
        for term, frequency in counts.items():
            held[term].append((number, frequency, length))
    for term in sorted(held):
        for segment, start in enumerate(range(0, len(held[term]), SEGMENT)):
            rows = held[term][start : start + SEGMENT]
            numbers, frequencies, lengths = ([row[i] for row in rows] for i in range(3))
            yield term, segment, numbers, frequencies, lengths
