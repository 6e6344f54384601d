"""The distinct words of a text: folded, in order, each once."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from hitherto_shared.text.normalise import fold

MAX_CHARACTERS = 8_000
"""Of a longer text only the beginning is read."""
# Scripts without spaces: every pair of adjacent characters counts as a word.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_LONE = re.compile(f"[{_UNSPACED}]")
_WORD = re.compile(rf"([{_UNSPACED}]+)|[^\W{_UNSPACED}]+(?:['’][^\W{_UNSPACED}]+)*")


def distinct_words(text: str) -> tuple[str, ...]:
    """The words of the first 8,000 characters; pairs of characters in scripts without spaces."""
    return tuple(dict.fromkeys(_words(text)))


def first_word(text: str) -> str:
    """The first of the distinct words; empty without one."""
    return next(_words(text), "")


def same_words(text: str, words: Sequence[str]) -> bool:
    """Whether `words` are the distinct words of `text`."""
    found: dict[str, None] = {}
    for word in _words(text):
        if word not in found:
            if len(found) == len(words) or words[len(found)] != word:
                return False
            found[word] = None
    return len(found) == len(words)


def _words(text: str) -> Iterator[str]:
    for match in _WORD.finditer(fold(text[:MAX_CHARACTERS])):
        word = match[0]
        if match[1] and len(word) > 1:
            yield from (word[i : i + 2] for i in range(len(word) - 1))
        else:
            yield word


def words_in(words: Collection[str], text: str) -> int:
    """How many of a question's distinct words a text contains.

    A single character in a script without spaces is in any pair that contains it.
    """
    found = frozenset(distinct_words(text))
    return sum(
        word in found or (_LONE.fullmatch(word) is not None and any(word in pair for pair in found))
        for word in words
    )
