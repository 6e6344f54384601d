"""Finds words that changed places: "runs 5 km and swims 3 km", "swims 5 km and runs 3 km".

A word belongs to the number, date or name before it or to the one after it. It has moved if both
are others now. Clauses that keep their words may therefore stand in any order. What moved counts if
it exchanged two of them; an adverb that moves exchanges nothing. In doubt, the statements differ.
The rule needs neither grammar nor a list of conjunctions, which would lack a language.

Without numbers and names, one phrase or clause may move as a whole ("every morning"). Anything else
is an exchange: "her mother is a doctor, her father a lawyer".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeVar

from hitherto_extraction.pipeline.guards.placement import word_form
from hitherto_extraction.pipeline.guards.quantities import found_in, without_signs
from hitherto_extraction.pipeline.guards.subjects import is_name
from hitherto_extraction.pipeline.guards.support import JOINING_SIGNS, content
from hitherto_extraction.pipeline.guards.tokens import POINT, UNCASED, Token, key
from hitherto_shared.text.terms import lone_characters

_SHORT_ANDS = frozenset(("e", "ed", "i"))
"""Italian, Portuguese and Polish. An "and" that is not left out changes its sides, and thus keeps
two statements apart, if its clauses change their order."""
_ARABIC_AND = "و"
_SHORTEST_JOINED = 4
"""Characters of an Arabic word that may begin with "and"."""
_Item = TypeVar("_Item")
_NONE = frozenset[str]()
_QUANTITY, _NAME, _WORD = "quantity", "name", "word"

_Part = tuple[str, str]
"""What a part of a statement is, and its text."""
_Sides = Mapping[str, Set[str]]
"""By word, what stands next on one side of its occurrences."""


@dataclass(frozen=True, slots=True)
class _Neighbours:
    """The numbers and dates, or the names, before and after each word."""

    before: _Sides
    after: _Sides

    @classmethod
    def of(cls, parts: Sequence[_Part], kind: str) -> _Neighbours:
        return cls(_last(parts, kind), _last(parts[::-1], kind))

    @classmethod
    def joined(cls, several: Sequence[_Neighbours]) -> _Neighbours:
        return cls(
            _joined(each.before for each in several), _joined(each.after for each in several)
        )


@dataclass(frozen=True, slots=True)
class Pairings:
    """The content words, numbers and names of a statement, in order, and which are neighbours."""

    parts: Sequence[_Part]
    quantities: _Neighbours
    names: _Neighbours

    @classmethod
    def of(cls, tokens: Sequence[Token], lower_cased: frozenset[str], *, loose: bool) -> Pairings:
        """The pairings of a statement.

        Args:
            tokens: The statement.
            lower_cased: Words that occur without a capital (`subjects.small_words`).
            loose: Compare words without diacritics.
        """
        parts = list(_parts(tokens, lower_cased, loose=loose))
        words = [part for part in parts if part[0] != _QUANTITY]
        return cls(parts, _Neighbours.of(parts, _QUANTITY), _Neighbours.of(words, _NAME))

    @property
    def words(self) -> list[str]:
        """The content words and names."""
        return [text for kind, text in self.parts if kind != _QUANTITY]


def changed_places(new: Pairings, old: Sequence[Pairings]) -> list[str]:
    """The words of `new` that exchanged what they stand beside in `old`.

    Symmetric for two statements.
    """
    frame = _frame([new, *old])
    found = [
        *_exchanged(new.quantities, _Neighbours.joined([each.quantities for each in old]), frame),
        *_exchanged(new.names, _Neighbours.joined([each.names for each in old]), frame),
    ]
    return list(dict.fromkeys(found))


def rearranged(one: Sequence[str], two: Sequence[str]) -> list[str]:
    """The words of two statements that changed places, except for one phrase that moved."""
    left, right = set(one), set(two)
    code: dict[str, str] = {}
    said, now = (
        "".join(code.setdefault(word, chr(len(code))) for word in words if word in other)
        for words, other in ((one, right), (two, left))
    )
    if sorted(said) != sorted(now):
        return []
    begin = len(_begins([said, now]))
    end = len(_begins([said[begin:][::-1], now[begin:][::-1]]))
    said, now = (each[begin : len(each) - end] for each in (said, now))
    if now in said + said:
        return []
    return [word for word, sign in code.items() if sign in said]


def _exchanged(new: _Neighbours, old: _Neighbours, frame: Set[str]) -> list[str]:
    moved: list[str] = []
    left: set[str] = set()
    taken: set[str] = set()
    for word in dict.fromkeys([*new.before, *new.after]):
        was = [each.get(word, _NONE) for each in (old.before, old.after)]
        now = [each.get(word, _NONE) for each in (new.before, new.after)]
        # All statements may begin with one person's name, which then says nothing of a word.
        stays = any(one & two - frame for one, two in zip(was, now, strict=True))
        if word not in frame and not stays:
            moved.append(word)
            left.update(*was)
            taken.update(*now)
    return moved if len(left & taken) > 1 else []


def _frame(statements: Sequence[Pairings]) -> frozenset[str]:
    """The words with which all the statements begin, or end: they belong to the whole."""
    first = _begins([each.parts for each in statements])
    last = _begins([each.parts[::-1] for each in statements])
    return frozenset(text for _, text in (*first, *last))


def _begins(several: Sequence[Sequence[_Item]]) -> list[_Item]:
    """What all of several sequences begin with."""
    places = zip(*several, strict=False)
    return [place[0] for place in takewhile(lambda place: len(set(place)) == 1, places)]


def _last(parts: Sequence[_Part], kind: str) -> _Sides:
    found: dict[str, set[str]] = {}
    last = None
    for each, text in parts:
        if each == kind:
            last = text
        elif last is not None:
            found.setdefault(text, set()).add(last)
    return found


def _joined(several: Iterable[_Sides]) -> _Sides:
    found: dict[str, set[str]] = {}
    for sides in several:
        for word, beside in sides.items():
            found.setdefault(word, set()).update(beside)
    return found


def _parts(tokens: Sequence[Token], lower_cased: frozenset[str], *, loose: bool) -> Iterator[_Part]:
    apart = list(_divided(without_signs(tokens)))
    quantities = {each.start: each for each in found_in(apart)}
    end = 0
    for at, token in enumerate(apart):
        if at in quantities:
            yield _QUANTITY, quantities[at].value
            end = quantities[at].end
        if at < end or token.text in _SHORT_ANDS:
            continue
        word = word_form(key(token, loose=loose))
        if token.kind != POINT and is_name(token, lower_cased):
            yield _NAME, word
        elif content([token]) or (_is_lone(token) and token.text.translate(JOINING_SIGNS)):
            yield _WORD, word


def _divided(tokens: Sequence[Token]) -> Iterator[Token]:
    """The tokens, with single characters of scripts without spaces, and without a joined "and"."""
    for token in tokens:
        if _is_lone(token):
            yield from (Token(sign, UNCASED) for sign in token.text)
        elif token.text[0] == _ARABIC_AND and len(token.text) >= _SHORTEST_JOINED:
            yield Token(token.text[1:], UNCASED)
        else:
            yield token


def _is_lone(token: Token) -> bool:
    return token.kind == UNCASED and bool(lone_characters(token.text[:1]))
