"""Checks whether a quote stands in a message, in any language, by its characters alone.

A model that changes what is known must copy the words that say so. Models drop commas, change
quotation marks and join lines; everything else must agree.
"""

from __future__ import annotations

import re
from functools import lru_cache

from hitherto_shared.text.normalise import normalized

MAX_QUOTE = 1_000
"""Maximum characters of a quote; a longer one is no quote."""
_SHORTEST = 3
"""Minimum characters of a quote that is not a whole message."""
_FEWEST_WORDS = 3
_FEWEST_SIGNS = 6
"""Minimum length of a run: in words, or in signs of a script without spaces."""
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Japanese, Chinese
)
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")
_SIGN = re.compile(rf"[{_UNSPACED}]")
_ALIKE = str.maketrans(
    dict.fromkeys("“”„‟«»‹›「」『』〝〞〟＂", '"')
    | dict.fromkeys("‘’‚‛′`´＇", "'")
    | dict.fromkeys("‐‑‒–—―−﹘﹣－", "-")
    | {"\u200b": "", "\u200c": "", "\u200d": "", "\u2060": "", "\ufeff": "", "\xad": ""}
)


def stands_in(quote: str, message: str) -> bool:
    """Whether a quote is genuine: it stands in the message, or nine tenths of it in one run.

    Case, forms of characters, spaces, quotation marks and dashes do not count; for the run, no
    punctuation does, whether an apostrophe parts a word ("I'm" for "Im") or not.
    """
    if len(quote) > MAX_QUOTE:
        return False
    wanted, said = _alike(quote), _alike(message)
    if not wanted:
        return False
    if wanted in said:
        return len(wanted) >= _SHORTEST or wanted == said
    return any(
        _has_run(_WORD.findall(wanted.replace("'", by)), _words(message, by)) for by in (" ", "")
    )


def contains(text: str, value: str) -> bool:
    """Whether a text holds a value as whole words, after the same normalisation."""
    wanted, said = _alike(value), _alike(text)
    at = said.find(wanted) if wanted else -1
    while at >= 0:
        end = at + len(wanted)
        if not (_runs_on(said[at - 1 : at + 1]) or _runs_on(said[end - 1 : end + 1])):
            return True
        at = said.find(wanted, at + 1)
    return False


def says_the_rest(text: str, value: str, other: str) -> bool:
    """Whether another text says, word for word, all that a text says around a value."""
    wanted, said = _alike(value), _words(other, " ")
    if not wanted:
        return False
    parts = (_WORD.findall(part) for part in _alike(text).split(wanted))
    return all(f" {' '.join(words)} " in said for words in parts if words)


def _runs_on(pair: str) -> bool:
    """Whether two neighbouring signs are of one word."""
    return len(pair) == 2 and all(_WORD.match(ch) and not _SIGN.match(ch) for ch in pair)


def _has_run(wanted: list[str], said: str) -> bool:
    """Whether nine tenths of some words stand in one run; linear in the message for each start."""
    signs = sum(map(bool, map(_SIGN.match, wanted)))
    fewest = _FEWEST_SIGNS if 2 * signs > len(wanted) else _FEWEST_WORDS
    length = max(fewest, -(-len(wanted) * 9 // 10))
    starts = range(len(wanted) - length + 1)
    return any(f" {' '.join(wanted[at : at + length])} " in said for at in starts)


@lru_cache(64)
def _alike(text: str) -> str:
    folded = normalized("NFKC", normalized("NFKC", text).casefold()).translate(_ALIKE)
    return " ".join(folded.split())


@lru_cache(64)
def _words(text: str, apostrophe: str) -> str:
    """The words of a text, with this in place of each apostrophe."""
    words = _WORD.findall(_alike(text).replace("'", apostrophe))
    return f" {' '.join(words)} "
