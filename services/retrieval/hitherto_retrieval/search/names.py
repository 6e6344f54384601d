"""The names that a question may contain: its words and runs of words, folded like entity names."""

from __future__ import annotations

import re

from hitherto_shared.text.normalise import fold, nfc

_MAX_WORDS = 200
"""Maximum per question; of a longer text, the beginning states what it is about."""
_LONGEST_NAME = 5
_WORD = re.compile(r"\w")
_SIGN_AT_AN_END = re.compile(r"^[^\w]|[^\w]$|['’]s$")
_POSSESSIVE = re.compile(r"['’]s$")
# Scripts without spaces: a name may start anywhere in a run.
_RUN = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]{2,}")
_LONGEST_RUN_NAME = 8


def names_in(question: str) -> list[str]:
    """Substrings of the question that may name an entity, the longest first.

    They are folded like names and, where that changes a letter, also only lower-cased, like
    aliases.

    Words are taken as they stand ("node.js", "c++") and without surrounding punctuation. Names have
    up to five words, and in scripts without spaces two to eight characters.
    """
    folded = fold(question)
    lower = " ".join(nfc(question).lower().split())
    found = dict.fromkeys(_names(folded))
    if lower != folded:
        found.update(dict.fromkeys(_names(lower)))
    return list(found)


def _names(folded: str) -> list[str]:
    words = folded.split()[:_MAX_WORDS]
    found: dict[str, None] = {}
    # Most words have no punctuation at either end; a run of such words has one form only.
    bare = [not _SIGN_AT_AN_END.search(word) for word in words]
    for count in range(min(_LONGEST_NAME, len(words)), 0, -1):
        for first in range(len(words) - count + 1):
            last = first + count - 1
            name = " ".join(words[first : last + 1])
            if bare[first] and bare[last]:
                found[name] = None
            else:
                found.update(dict.fromkeys(_forms(name)))
    for run in _RUN.findall(folded[:_MAX_WORDS]):
        for size in range(min(_LONGEST_RUN_NAME, len(run)), 1, -1):
            for first in range(len(run) - size + 1):
                found[run[first : first + size]] = None
    return list(found)


def _forms(name: str) -> list[str]:
    """The forms of words with surrounding punctuation.

    Punctuation that ends the sentence is not part of "C++", nor is the comma after it.
    """
    bare = _without_edges(name)
    forms = (name, name.rstrip(".,;:!?"), bare, _POSSESSIVE.sub("", bare))
    return [form for form in forms if form]


def _without_edges(name: str) -> str:
    """A name without what surrounds its words.

    An expression for the end would try again at each sign of a run inside the name.
    """
    first, last = _WORD.search(name), _WORD.search(name[::-1])
    return name[first.start() : len(name) - last.start()] if first and last else ""
