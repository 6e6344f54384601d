"""Tells the part of a long text that a question is about: its beginning, and what answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from itertools import pairwise
from math import fsum

from hitherto_retrieval.render.values import ELLIPSIS, beginning, clean, whole_letters
from hitherto_shared.text.terms import content_terms
from hitherto_shared.text.word_forms import forms

_MOST = 12_000
"""Characters of a text that are looked at."""
_BREAK = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])|\n+")
_MOST_TRIED = 200
"""Sentences with words of the question among which the best are looked for."""
_PARTS = 2
"""A longer sentence than the room divided by this is told in parts."""


def passage(text: str, terms: Mapping[str, float], size: int) -> str:
    """The part of a text in one line, with an ellipsis where something is left out.

    It is the first sentence, and then those that have the most of the question's words by their
    weight, each word counted once until all are there; of equal ones the earlier. They stand in
    their order. Where the answer is one of many points of a long text, they are rarely side by
    side.

    Args:
        text: The text.
        terms: The question's words with their weights.
        size: Characters that are printed, besides ellipses.
    """
    if len(text) <= size:
        return clean(text)
    sentences = _sentences(text[:_MOST], size // _PARTS)
    words = [
        terms.keys() & {forms(term)[0] for term in content_terms(sentence)}
        for sentence in sentences
    ]
    taken = {0}
    left = size - len(sentences[0])
    told: Set[str] = words[0]
    about = [place for place in range(1, len(sentences)) if words[place]][:_MOST_TRIED]
    while about := [place for place in about if len(sentences[place]) <= left]:
        # Exact, because a set has another order in each process.
        weights = [fsum(terms[word] for word in words[place] - told) for place in about]
        if not any(weights) and told:
            # All are there: a further sentence with some of them tells more than one without any.
            told = set()
            continue
        place = about.pop(weights.index(max(weights)))
        taken.add(place)
        left -= len(sentences[place])
        told = told | words[place]
    for place, sentence in enumerate(sentences):
        if place not in taken and len(sentence) <= left:
            taken.add(place)
            left -= len(sentence)
    return beginning(_joined(sentences, sorted(taken), whole=len(text) <= _MOST), 2 * size)


def _sentences(text: str, most: int) -> Sequence[str]:
    """The sentences of a text, with the white space after them; overlong ones in parts."""
    borders = [0, *(match.end() for match in _BREAK.finditer(text)), len(text)]
    found: list[str] = []
    at = 0
    for start, end in pairwise(borders):
        # The number of a point is no sentence, but begins the next one.
        if end < len(text) and not any(map(str.isalpha, text[start:end])):
            continue
        while end - at > most:
            cut = text.rfind(" ", at + most // 2, at + most) + 1 or at + most
            cut = whole_letters(text, cut, at)
            found.append(text[at:cut])
            at = cut
        found.append(text[at:end])
        at = end
    return [each for each in found if each.strip()] or [text]


def _joined(sentences: Sequence[str], taken: Sequence[int], *, whole: bool) -> str:
    """The sentences at these places in one line, neighbours without an ellipsis."""
    line, before = "", -1
    for place in taken:
        if line and place != before + 1:
            line += f" {ELLIPSIS} "
        line += sentences[place]
        before = place
    ended = whole and before == len(sentences) - 1
    return clean(line) + ("" if ended else f" {ELLIPSIS}")
