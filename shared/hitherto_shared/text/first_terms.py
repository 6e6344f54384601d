"""The terms of the keyword index by earlier rules, under which older rows stand.

By these rules letters had the form in which they were written, an apostrophe joined its words, and
of letters without a decomposition only đ had a plain form. Before that, Cyrillic and Arabic words
were not stemmed. The rules are kept as they were: nothing new is written by them.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from hitherto_shared.text.normalise import nfc, normalized
from hitherto_shared.text.tokens import TOKEN
from hitherto_shared.text.word_forms import stem

_MAX_TERM = 64
_MAX_WORD = 4 * _MAX_TERM
_MAX_TERMS = 4_000


def first_terms(text: str) -> set[str]:
    """Every term of a text's words and runs by earlier rules."""
    found: set[str] = set()
    for match in TOKEN.finditer(normalized("NFC", text)):
        if len(found) >= _MAX_TERMS:
            break
        token = match.group()
        if match.lastgroup == "word":
            found.update(_word(token[:_MAX_WORD]))
        elif match.lastgroup == "run":
            pairs = min(len(token) - 1, _MAX_TERMS)
            found.update([token[at : at + 2] for at in range(pairs)] or [token])
    return found


@lru_cache(maxsize=4_096)
def _word(word: str) -> tuple[str, ...]:
    whole = nfc(word.casefold()).replace("’", "'")
    lowered = whole[:-2] if whole.endswith("'s") else whole
    if lowered.isascii():
        return (stem(lowered)[:_MAX_TERM],)
    plain = _plain(lowered)
    forms = [lowered, stem(plain) if plain.isascii() else plain]
    if language := _language(lowered):
        joined = _without_joined(plain) if language == "arabic" else lowered
        stemmed = stem(joined, language) or joined
        forms += [whole, _plain(whole), stemmed, _plain(stemmed)]
    return tuple(form[:_MAX_TERM] for form in forms)


def _plain(lowered: str) -> str:
    decomposed = normalized("NFD", lowered.replace("đ", "d"))
    return nfc("".join(ch for ch in decomposed if not unicodedata.combining(ch)))


def _language(word: str) -> str | None:
    if "\u0400" <= word[0] <= "\u04ff":
        return "russian"
    return "arabic" if "\u0620" <= word[0] <= "\u06ff" else None


def _without_joined(word: str) -> str:
    if len(word) > 5 and word[0] in "وفبك" and word[1:3] == "ال":
        return word[1:]
    return word[2:] if len(word) > 4 and word.startswith("لل") else word
