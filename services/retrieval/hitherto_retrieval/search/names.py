"""What a question may name: its words and runs of words, folded as entity names are."""

from __future__ import annotations

import re

from hitherto_shared.text.normalise import fold, nfc

_MAX_WORDS = 200
"""Of a question; a longer one is a text, and its beginning says what it is about."""
_LONGEST_NAME = 5
_EDGES = re.compile(r"^[^\w]+|[^\w]+$")
_SIGN_AT_AN_END = re.compile(r"^[^\w]|[^\w]$|['’]s$")
_POSSESSIVE = re.compile(r"['’]s$")
# Scripts without spaces: a name may stand anywhere in a run.
_RUN = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]{2,}")
_LONGEST_RUN_NAME = 8


def names_in(question: str) -> list[str]:
    """Strings of the question that an entity may be called, longest question part first.

    Folded as names are, and where that changes a letter also in lower case only, as aliases are.

    Words are taken as they stand ("node.js", "c++") and without the signs around them; names of up
    to five words are found, and in scripts without spaces names of two to eight characters.
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
    # Most words have no sign at either end: then a run of words has one form only.
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
    """What words with signs around them may stand for.

    A sign that ends the sentence is no part of "C++", nor is the comma after it.
    """
    bare = _EDGES.sub("", name)
    forms = (name, name.rstrip(".,;:!?"), bare, _POSSESSIVE.sub("", bare))
    return [form for form in forms if form]
