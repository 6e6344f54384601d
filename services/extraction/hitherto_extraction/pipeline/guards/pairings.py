"""Finds words that changed places: "runs 5 km and swims 3 km", "swims 5 km and runs 3 km".

A word belongs to the number, date or name of its clause. Where a clause has several, because no
sign and no known conjunction divides it, the word belongs to the one before it or to the one after
it, and has moved if both are others now. Clauses may therefore stand in any order. What moved
counts if it exchanged two of them; an adverb that moves exchanges nothing. In doubt, the statements
differ: a conjunction that is missing here keeps apart what says the same, and loses nothing.

Where at most one number or date is not common to the beginning or the end, one phrase may move as a
whole ("every morning"), and one list may have another order. Anything else is an exchange: "her
mother is a doctor, her father a lawyer", or "likes tea but not coffee".
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import groupby, takewhile
from typing import TypeVar

from hitherto_extraction.pipeline.guards.placement import LISTING, word_form
from hitherto_extraction.pipeline.guards.quantities import found_in, without_signs
from hitherto_extraction.pipeline.guards.subjects import ADVERBS, is_name
from hitherto_extraction.pipeline.guards.support import JOINING_SIGNS, content
from hitherto_extraction.pipeline.guards.tokens import JOINTS, POINT, UNCASED, Token, key
from hitherto_shared.text.terms import lone_characters
from hitherto_shared.vocabulary.opposites import markers

_ENDS = frozenset(".,;:!?…()[]—–。、؟،؛।&和与與及跟")
_SHORT_ANDS = frozenset(("e", "ed", "i"))
"""Italian, Portuguese and Polish. With a capital, they are names or the English pronoun."""
_DIVIDING = LISTING.union(JOINTS)
_AUXILIARIES = frozenset(
    "is are was were used has have had will would can could may might should "
    "es son está est sont è ha ist sind hat là có".split()
)
"""With the word behind each: "was a teacher and is a nurse", "was a nurse and is a teacher"."""
_ONE_AND = re.compile("[^&]*&word(?:,[^&]*)?")
"""The only conjunction of a statement, before a clause of one word."""
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
    divided: Sequence[_Part]
    marked: Set[tuple[str, str]]
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
        marked = frozenset(_marked(tokens, loose=loose))
        return cls(said, parts, marked, _owners(parts, _QUANTITY), _owners(named, _NAME))

    @property
    def words(self) -> list[str]:
        """The content words and names, and as one what stands together of numbers and dates."""
        found: list[str] = []
        for together, run in groupby(self.parts, lambda part: part[0] == _QUANTITY):
            texts = [text for _, text in run]
            found += [" ".join(sorted(texts))] if together else texts
        return found


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


def rearranged(new: Pairings, old: Pairings) -> list[str]:
    """The words of two statements that changed places, unless a phrase moved or a list is turned.

    Symmetric. Clauses with a number each may stand in any order (`changed_places`).
    """
    if any(_runs(each) > 1 for each in _middles(new.parts, old.parts)):
        return changed_places(new, [old])
    common = set(new.words) & set(old.words)
    gained, lost = (
        {mark: word for mark, word in sorted(one.marked - other.marked) if word in common}
        for one, other in ((new, old), (old, new))
    )
    if moved := gained.keys() & lost.keys():
        return [word for each in (gained, lost) for mark, word in each.items() if mark in moved]
    now, said = ([word for word in each.words if word in common] for each in (new, old))
    if Counter(now) != Counter(said):
        now, said = list(dict.fromkeys(now)), list(dict.fromkeys(said))
    now, said = _middles(now, said)
    if not now or _is_turned(now, said) or _one_list(new, old):
        return []
    return list(dict.fromkeys(said))


def _is_turned(now: Sequence[str], said: Sequence[str]) -> bool:
    """Whether one phrase moved: what stood behind it stands before it."""
    places = (at for at, word in enumerate(said) if word == now[0])
    return any(now == [*said[at:], *said[:at]] for at in places)


def _one_list(*statements: Pairings) -> bool:
    """Whether only the order of a list differs: "tea, milk and rum", "rum, milk and tea"."""
    said = [each.divided for each in statements]
    return all(_ONE_AND.fullmatch(_outline(each)) for each in said) and all(
        _has_one_word_items(_outline(each)) for each in _middles(*said)
    )


def _has_one_word_items(outline: str) -> bool:
    """Whether this is a list of words, with a conjunction before the last."""
    items, _, last = outline.partition("&")
    listed = items.removesuffix(_WORD)
    return last == _WORD and bool(listed) and not listed.replace(f"{_WORD},", "")


def _outline(parts: Sequence[_Part]) -> str:
    return "".join(text if kind == _DIVIDER else kind for kind, text in parts)


def _middles(one: Sequence[_Item], two: Sequence[_Item]) -> tuple[list[_Item], list[_Item]]:
    """Two sequences without what both begin and end with."""
    begin = len(_begins([one, two]))
    one, two = one[begin:], two[begin:]
    end = len(_begins([one[::-1], two[::-1]]))
    return list(one[: len(one) - end]), list(two[: len(two) - end])


def _runs(parts: Sequence[_Part]) -> int:
    """How many numbers and dates there are; those that stand together are one ("3 May 2024")."""
    return sum(together for together, _ in groupby(kind == _QUANTITY for kind, _ in parts))


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
        # A letter at the end of a clause joins nothing: the Vietnamese "y" is medicine.
        ends = len(token.text) == 1 and token.text.isalpha() and not _goes_on(apart[at + 1 :])
        if _divides(token) and not ends:
            yield _DIVIDER, "," if token.text in _ENDS else "&"
            continue
        word = word_form(key(token, loose=loose))
        if token.kind != POINT and is_name(token, lower_cased):
            yield _NAME, word
        elif ends or content([token]) or (_is_lone(token) and token.text.translate(JOINING_SIGNS)):
            yield _WORD, word


def _divides(token: Token) -> bool:
    return token.text in _ENDS or token.text in _SHORT_ANDS or token.lower in _DIVIDING


def _goes_on(rest: Sequence[Token]) -> bool:
    return bool(rest) and not _divides(rest[0])


def _marked(tokens: Sequence[Token], *, loose: bool) -> Iterator[tuple[str, str]]:
    """The denials, other markers and auxiliary verbs, each with the content word behind it."""
    mark = ""
    for token in tokens:
        if found := [*markers([token.lower]), *_AUXILIARIES.intersection([token.lower])]:
            mark = found[0]
        elif mark in _AUXILIARIES and token.lower in ADVERBS:
            continue  # "has recently moved"; but "not always" is not "always not"
        elif mark and content([token]):
            yield mark, word_form(key(token, loose=loose))
            mark = ""


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
