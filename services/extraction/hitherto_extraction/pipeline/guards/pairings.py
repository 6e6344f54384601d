"""Finds words that changed places: "runs 5 km and swims 3 km", "swims 5 km and runs 3 km".

A word belongs to the number, date or name of its clause. Where a clause has several, because no
sign and no known conjunction divides it, the word belongs to the one before it or to the one after
it, and has moved if both are others now. Clauses may therefore stand in any order. What moved
counts if it exchanged two of them; an adverb that moves exchanges nothing. In doubt, the statements
differ: a conjunction that is missing here keeps apart what says the same, and loses nothing.

Without numbers and names, one phrase or clause may move as a whole ("every morning"). Anything else
is an exchange: "her mother is a doctor, her father a lawyer".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeVar

from hitherto_extraction.pipeline.guards.placement import LISTING, word_form
from hitherto_extraction.pipeline.guards.quantities import found_in, without_signs
from hitherto_extraction.pipeline.guards.subjects import is_name
from hitherto_extraction.pipeline.guards.support import JOINING_SIGNS, content
from hitherto_extraction.pipeline.guards.tokens import JOINTS, POINT, UNCASED, Token, key
from hitherto_shared.text.terms import lone_characters

_ENDS = frozenset(".,;:!?…()[]—–。、؟،؛।&和与與及跟")
_SHORT_ANDS = frozenset(("e", "ed", "i"))
"""Italian, Portuguese and Polish. With a capital, they are names or the English pronoun."""
_DIVIDING = LISTING.union(JOINTS)
_ARABIC_AND = "و"
_SHORTEST_JOINED = 4
"""Characters of an Arabic word that may begin with "and"."""
_Item = TypeVar("_Item")
_NONE = frozenset[str]()
_QUANTITY, _NAME, _WORD, _DIVIDER = "quantity", "name", "word", "divider"

_Part = tuple[str, str]
"""What a part of a statement is, and its text."""
_ALONE, _BEFORE, _AFTER = "alone", "before", "after"
_Owners = Mapping[tuple[str, str], Set[str]]
"""By side and word: the numbers and dates, or the names, to which the word may belong. They are the
only one of its clause, the last one before it in any clause, and the next one after it."""


@dataclass(frozen=True, slots=True)
class Pairings:
    """The content words, numbers and names of a statement, in order, and what belongs together."""

    parts: Sequence[_Part]
    quantities: _Owners
    names: _Owners

    @classmethod
    def of(cls, tokens: Sequence[Token], lower_cased: frozenset[str], *, loose: bool) -> Pairings:
        """The pairings of a statement.

        Args:
            tokens: The statement.
            lower_cased: Words that occur without a capital (`subjects.small_words`).
            loose: Compare words without diacritics.
        """
        parts = list(_parts(tokens, lower_cased, loose=loose))
        named = [part for part in parts if part[0] != _QUANTITY]
        said = [part for part in parts if part[0] != _DIVIDER]
        return cls(said, _owners(parts, _QUANTITY), _owners(named, _NAME))

    @property
    def words(self) -> list[str]:
        """The content words and names."""
        return [text for kind, text in self.parts if kind != _QUANTITY]


def changed_places(new: Pairings, old: Sequence[Pairings]) -> list[str]:
    """The words of `new` that exchanged what they belong to in `old`.

    Symmetric for two statements.
    """
    frame = _frame([new, *old])
    found = [
        *_exchanged(new.quantities, _joined(each.quantities for each in old), frame),
        *_exchanged(new.names, _joined(each.names for each in old), frame),
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


def _exchanged(new: _Owners, old: _Owners, frame: Set[str]) -> list[str]:
    moved: list[str] = []
    left: set[str] = set()
    taken: set[str] = set()
    for word in dict.fromkeys(word for _, word in new):
        clauses = (_ALONE, word) in new and (_ALONE, word) in old
        sides = [(side, word) for side in ((_ALONE,) if clauses else (_BEFORE, _AFTER))]
        was, now = ([each.get(side, _NONE) for side in sides] for each in (old, new))
        # All statements may begin with one person's name, which then says nothing of a word.
        stays = any(one & two - frame for one, two in zip(was, now, strict=True))
        if any(was) and not stays:
            moved.append(word)
            left.update(*was)
            taken.update(*now)
    inside = [word for word in moved if word not in frame]
    return moved if inside and len(left & taken) > 1 else []


def _frame(statements: Sequence[Pairings]) -> frozenset[str]:
    """The words with which all the statements begin, or end: they belong to the whole."""
    first = _begins([each.parts for each in statements])
    last = _begins([each.parts[::-1] for each in statements])
    return frozenset(text for _, text in (*first, *last))


def _begins(several: Sequence[Sequence[_Item]]) -> list[_Item]:
    """What all of several sequences begin with."""
    places = zip(*several, strict=False)
    return [place[0] for place in takewhile(lambda place: len(set(place)) == 1, places)]


def _owners(parts: Sequence[_Part], kind: str) -> _Owners:
    found: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for clause in _clauses(parts, kind):
        owners = _owners_in(clause, kind)
        if len(owners) == 1:
            for _, word in clause:
                found[_ALONE, word] |= owners
    for side, order in ((_BEFORE, parts), (_AFTER, reversed(parts))):
        last = None
        for each, word in order:
            if each == kind:
                last = word
            elif each != _DIVIDER and last is not None:
                found[side, word].add(last)
    return found


def _clauses(parts: Sequence[_Part], kind: str) -> Iterator[list[_Part]]:
    """The clauses of a statement; one without an owner belongs to the one before it.

    "Tom, a doctor, and Ben, a lawyer"
    """
    clause: list[_Part] = []
    rest: list[_Part] = []
    for part in [*parts, (_DIVIDER, "")]:
        if part[0] != _DIVIDER:
            rest.append(part)
            continue
        if _owners_in(rest, kind) and _owners_in(clause, kind):
            yield clause
            clause = []
        clause += rest
        rest = []
    yield clause


def _owners_in(clause: Sequence[_Part], kind: str) -> set[str]:
    return {text for each, text in clause if each == kind}


def _joined(several: Iterable[_Owners]) -> _Owners:
    found: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for owners in several:
        for side, beside in owners.items():
            found[side] |= beside
    return found


def _parts(tokens: Sequence[Token], lower_cased: frozenset[str], *, loose: bool) -> Iterator[_Part]:
    apart = list(_divided(without_signs(tokens)))
    quantities = {each.start: each for each in found_in(apart)}
    end = 0
    for at, token in enumerate(apart):
        if at in quantities:
            yield _QUANTITY, quantities[at].value
            end = quantities[at].end
        if at < end:
            continue
        if token.text in _ENDS or token.text in _SHORT_ANDS or token.lower in _DIVIDING:
            yield _DIVIDER, ""
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
            yield from (Token(_ARABIC_AND, UNCASED), Token(token.text[1:], UNCASED))
        else:
            yield token


def _is_lone(token: Token) -> bool:
    return token.kind == UNCASED and bool(lone_characters(token.text[:1]))
