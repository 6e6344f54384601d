"""Divides statements into tokens that preserve case, digits, signs and script.

The terms of the keyword index are stemmed, folded and stripped of signs, which is right for
searching and wrong for distinguishing "C++" from "C#" or "cá" from "cà"; comparisons therefore need
a separate tokeniser.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from hitherto_shared.text.normalise import fold, normalized
from hitherto_shared.vocabulary import times

WORD = "word"
"""A word of a script with capitals (Latin, Cyrillic, Greek, Armenian …)."""
UNCASED = "uncased"
"""A run of letters of a script without capitals (Han, Kana, Hangul, Arabic, Hebrew, Thai …)."""
NUMBER = "number"
SIGN = "sign"
"""A currency sign, an emoji, a mathematical sign."""
POINT = "point"
"""Punctuation. It separates tokens and is never compared."""

_ISO_DATE = re.compile(r"(?<![\d-])(\d{4})-(0?[1-9]|1[0-2])-(0?[1-9]|[12]\d|3[01])(?![\d-])")
_MERIDIEM = re.compile(r"(?<=[\d\s])([ap])\.\s?m\.?(?!\w)", re.IGNORECASE)
_ENDS_SENTENCE = frozenset(".!?…。！？\n")
# Vowel points and the tatweel are optional in writing.
_OPTIONAL_MARKS = re.compile("[\u0591-\u05bd\u05bf\u05c1-\u05c7\u0640\u064b-\u0652\u0670]")

# Without those that are words of another language ("of", "car", "die").
JOINTS = (
    "and but or nor yet while whereas although though because however who whose which "
    "và nhưng hoặc y pero aunque et mais und aber oder weil и но или ve veya tetapi atau "
    "و ولكن أو או אבל और लेकिन या"
).split()
_CLAUSE_SIGNS = "而且 并且 並且 以及 但是 そして しかし また 그리고 하지만".split()
# A point, comma or colon inside a number, a time or an address is not a boundary.
_CLAUSE_END = re.compile(
    r"[.,:](?=\s|$)|[;!?…\n()\[\]—–。，；！？、؟،؛।]|(?<!\w)(?:"
    + "|".join(JOINTS)
    + r")(?!\w)|"
    + "|".join(_CLAUSE_SIGNS),
    re.IGNORECASE,
)

Read = TypeVar("Read")

_readings: list[Any] = []


def kept_for_a_while(most: int) -> Callable[[Callable[[str], Read]], Callable[[str], Read]]:
    """Cache a function's results for the last `most` texts, until `forget_readings`.

    A text is compared with many others within a moment. It may be sealed or erased soon after, so
    no process keeps it for long.
    """

    def decorate(read: Callable[[str], Read]) -> Callable[[str], Read]:
        keeping = lru_cache(maxsize=most)(read)
        _readings.append(keeping)
        return keeping

    return decorate


def forget_readings() -> None:
    """Clear the caches of all functions under `kept_for_a_while`."""
    for keeping in _readings:
        keeping.cache_clear()


@dataclass(frozen=True, slots=True)
class Token:
    """One token. `first` is true for the first word of a sentence."""

    text: str
    kind: str
    first: bool = False

    @property
    def lower(self) -> str:
        """The token without case."""
        return self.text.casefold()

    @property
    def capital(self) -> bool:
        """Whether it contains an upper-case letter ("iOS" is as much a name as "Berlin")."""
        return self.kind == WORD and any(ch.isupper() for ch in self.text)


def key(token: Token, *, loose: bool) -> str:
    """The form in which the token is compared.

    Args:
        token: The token.
        loose: Compare without diacritics, if one of the texts was typed without any.
    """
    if token.kind == UNCASED:
        return _OPTIONAL_MARKS.sub("", token.lower)
    return fold(token.text) if loose else token.lower


def without_possessive(word: str) -> str:
    """A word without the ending of a possessive."""
    return word.removesuffix("'s").removesuffix("'")


@lru_cache(maxsize=4_096)
def _character_kind(ch: str) -> str | None:
    category = unicodedata.category(ch)
    if category[0] == "L":
        return UNCASED if category in ("Lo", "Lm") else WORD
    if category == "Nd":
        return NUMBER
    if category in ("Sc", "So", "Sm"):
        return SIGN
    if category[0] == "M":
        return "mark"
    return None if category[0] == "C" and ch != "\n" else POINT


def tokenise(text: str) -> list[Token]:
    """Divide a statement into tokens; all digits become 0-9, ISO dates are spelt out."""
    text = normalized("NFKC", text).replace("’", "'").replace("‘", "'")
    text = "".join(str(unicodedata.decimal(ch, ch)) for ch in text)
    text = _ISO_DATE.sub(
        lambda m: f" {times.MONTHS[int(m[2]) - 1].capitalize()} {int(m[3])} {m[1]} ", text
    )
    text = _MERIDIEM.sub(r"\1m", text)
    found: list[Token] = []
    first = True
    at = 0
    while at < len(text):
        kind = _character_kind(text[at])
        end = at + 1
        if kind in (WORD, UNCASED):
            end = _word_end(text, at, kind)
            found.append(Token(text[at:end], kind, first))
            first = False
        elif kind == NUMBER:
            end = _number_end(text, at)
            sign = "-" if _negative(text, at) else ""
            found.append(Token(sign + text[at:end], NUMBER))
            first = False
        elif kind == SIGN:
            found.append(Token(text[at], SIGN))
        elif kind == POINT and not text[at].isspace():
            found.append(Token(text[at], POINT))
        if text[at] in _ENDS_SENTENCE and (end == len(text) or not text[end].isalnum()):
            first = True
        at = end
    return found


def _word_end(text: str, at: int, kind: str) -> int:
    end = at + 1
    while end < len(text):
        here = _character_kind(text[end])
        inner = text[end] == "'" and end + 1 < len(text) and _character_kind(text[end + 1]) == kind
        if here not in (kind, "mark") and not inner:
            break
        end += 1
    # C++, C#, F#: the sign is part of the name.
    while kind == WORD and end < len(text) and text[end] in "+#":
        end += 1
    return end


def _number_end(text: str, at: int) -> int:
    end = at
    while end < len(text) and (
        text[end].isdigit()
        or (text[end] in ".,:" and end + 1 < len(text) and text[end + 1].isdigit())
    ):
        end += 1
    return end


def _negative(text: str, at: int) -> bool:
    return at > 0 and text[at - 1] in "-−" and (at == 1 or text[at - 2] in " (\n")


def clauses(text: str) -> list[str]:
    """The clauses of a text, divided at punctuation and conjunctions."""
    return [clause for each in _CLAUSE_END.split(text) if (clause := each.strip())]
