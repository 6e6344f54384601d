"""Finds the part of a long text that a question is about."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hitherto_shared.text.terms import content_terms
from hitherto_shared.text.word_forms import forms

_MOST = 12_000
"""Characters of a text that are looked at."""
_BREAK = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])|\n+")


def passage(text: str, terms: Mapping[str, float], size: int) -> tuple[int, str]:
    """Where the part begins, and the part: whole sentences from there on, about `size` characters.

    It has the most of the question's words by their weight, each counted once; of equal ones the
    first, and the beginning if no part has any.

    Args:
        text: The text.
        terms: The question's words with their weights.
        size: The length that will be printed.
    """
    if len(text) <= size or not terms:
        return 0, text
    borders = [0, *(match.end() for match in _BREAK.finditer(text[:_MOST]))]
    sentences = [
        (first, terms.keys() & {forms(term)[0] for term in content_terms(text[first:end])})
        for first, end in zip(borders, [*borders[1:], min(len(text), _MOST)], strict=True)
    ]
    best, begins = 0.0, 0
    for number, (first, words) in enumerate(sentences):
        if not words and number:
            continue
        held = set(words)
        for following, more in sentences[number + 1 :]:
            if following - first >= size:
                break
            held |= more
        weight = sum(terms[word] for word in held)
        if weight > best + 1e-9:
            best, begins = weight, first
    return begins, text[begins:]
