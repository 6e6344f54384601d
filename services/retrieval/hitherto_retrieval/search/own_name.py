"""Rewrites a question that calls the user by name into the words that memories use.

Memories say "User lives in Porto.", and users say "I". In "Where does Ana live?", asked of Ana's
memories, the name therefore finds everything but the answer: greetings, and the memory of the name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hitherto_retrieval.search.intent.question import MAX_CHARACTERS, looked_up
from hitherto_shared.text.normalise import fold, nfc
from hitherto_shared.text.terms import content_terms, looked_up_terms

_USER = "User"
_MAX_NAME = 100
"""Maximum characters of a name."""
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_POSSESSIVE = re.compile(r"['’]s$")


def about_the_user(question: str, own_name: str) -> str:
    """The question with "User" in place of the user's own name.

    The name counts whole or by its first or last word, with or without its diacritics. It must be
    capitalised, because many names are also words ("will", "hoa"), and "Lucia Pereira" is not the
    user Ana Pereira. Scripts without capitals are left unchanged, as is a question about nothing
    but the name.

    Args:
        question: Any text; names are searched for in the part whose words are looked up.
        own_name: The user's name according to the profile; may be empty.
    """
    name = [fold(word) for word in _WORD.findall(own_name[: _MAX_NAME + 1])]
    if not name or len(own_name) > _MAX_NAME or not content_terms(own_name):
        return question
    question = nfc(question)
    words = list(_WORD.finditer(question, 0, MAX_CHARACTERS))
    bare = [_POSSESSIVE.sub("", word[0]) for word in words]
    parts: list[str] = []
    end = at = 0
    while at < len(words):
        size = _names(name, bare, at)
        if size:
            last = words[at + size - 1]
            parts += [question[end : words[at].start()], _USER]
            end = last.end() - (len(last[0]) - len(bare[at + size - 1]))
        at += max(1, size)
    about = "".join([*parts, question[end:]])
    return about if set(content_terms(about)) - set(content_terms(_USER)) else question


def terms_about_the_user(question: str, own_name: str, terms: Sequence[str]) -> list[str]:
    """The terms of a question that remain once the user's own name is removed from it."""
    beginning = looked_up(question)
    about = about_the_user(beginning, own_name)
    if about == beginning:
        return list(terms)
    kept = set(looked_up_terms(about))
    return [term for term in terms if term in kept]


def is_called(name: str, own_name: str) -> bool:
    """Whether this name can be the user's: it has no word that is not in the user's name."""
    return set(fold(name).split()).issubset(fold(own_name).split())


def _names(name: list[str], words: list[str], at: int) -> int:
    """Number of words from `at` that form the user's name; 0 if there are none."""
    if not words[at][0].isupper():
        return 0
    word = fold(words[at])
    if word == name[0] and [fold(each) for each in words[at : at + len(name)]] == name:
        return len(name)
    if word not in (name[0], name[-1]) or not content_terms(words[at]):
        return 0
    # With a capitalised word before or after it, it is part of another name.
    before = at > 0 and words[at - 1][0].isupper() and bool(content_terms(words[at - 1]))
    behind = at + 1 < len(words) and words[at + 1][0].isupper()
    return 0 if before or behind else 1
