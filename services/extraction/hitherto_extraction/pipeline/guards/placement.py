"""Finds numbers and dates that changed places: "2 coffees and 3 teas", "3 coffees and 2 teas".

Two rules find them. If two statements have the same words in the same order, their numbers must
stand in the same order too. In any other order, a number must belong to the same word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hitherto_extraction.pipeline.guards.quantities import (
    Quantity,
    found_in,
    numeral,
    without_signs,
)
from hitherto_extraction.pipeline.guards.slots import SAME_AS
from hitherto_extraction.pipeline.guards.tokens import NUMBER, POINT, UNCASED, WORD, Token, key
from hitherto_shared.text.terms import count_terms
from hitherto_shared.text.word_forms import forms

_COUNTED_WORDS = 2
LISTING = frozenset("and or plus then và va hoặc hoac rồi roi y o et ou und oder".split())
_ARTICLES = frozenset("the a an".split())
_BETWEEN = _ARTICLES | {"%", "of"}
"""Words between a number and what it counts."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A number and the words after it, of which any may be what it counts."""

    number: str
    words: tuple[str, ...]


def counted(tokens: Sequence[Token]) -> list[Counted]:
    """The numbers of a statement with what they count: 2 and "coffee" in "2 coffees and 3 teas".

    A number counts one of the two words after it, up to a comma or an "and", behind which a list
    may go on in any order. A day may also stand after its month ("May 3").
    """
    words = without_signs(tokens)
    found = list(found_in(words))
    dates = {each.start: each.value for each in found if each.is_date}
    days = {each.end for each in found if not each.is_date}
    # In "3 May 2027" the month belongs to the 3.
    before = {each.end: each.value for each in found if each.is_date and each.start not in days}
    return [
        Counted(
            each.value,
            (
                *_following(words, each.end, dates),
                *([before[each.start]] if each.start in before else []),
            ),
        )
        for each in found
        if not each.is_date
    ]


def miscounted(new: Iterable[Counted], old: Iterable[Counted]) -> list[tuple[str, str]]:
    """The numbers in `new` that belong to another thing in `old`, each with the word for it.

    Which of the words is counted is unknown: "3 teas every day" counts teas. One word that has the
    same number in both is therefore enough. A word that `old` has with several numbers, as "km" or
    "black" in "2 black cats and 3 black dogs", is enough only if no second number moved, because an
    exchange takes two.
    """
    said: dict[str, set[str]] = {}
    for each in old:
        for word in each.words:
            said.setdefault(word, set()).add(each.number)
    certain: list[tuple[str, str]] = []
    moved: list[tuple[str, str]] = []
    for each in new:
        known = [word for word in each.words if word in said]
        others = [(each.number, word) for word in known if each.number not in said[word]]
        if len(others) == len(known):
            certain += others
        if not any(said[word] == {each.number} for word in known):
            moved += others
    return moved if len({number for number, _ in moved}) > 1 else certain


_Lists = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Frame:
    """The words of a statement around its numbers and dates.

    Attributes:
        words: The words in the form in which they are compared, without articles and "and".
        numbers: The numbers; those that only a comma or an "and" separates are one list.
        dates: The dates in the same way.
        lists: Whether the statement lists anything else, so that "Tom and Ben are 3 and 5" may
            mean the first by the first.
    """

    words: list[str]
    numbers: _Lists
    dates: _Lists
    lists: bool

    @classmethod
    def of(cls, tokens: Sequence[Token], *, loose: bool) -> Frame:
        """The frame of a statement; `loose` compares its words without diacritics."""
        words = without_signs(tokens)
        found = list(found_in(words))
        numbers, joints = _lists([each for each in found if not each.is_date], words)
        dates, more = _lists([each for each in found if each.is_date], words)
        taken = {at for each in found for at in range(each.start, each.end)}
        rest = [
            (at, token)
            for at, token in enumerate(words)
            if at not in taken and token.kind in (WORD, UNCASED)
        ]
        return cls(
            [
                word_form(key(token, loose=loose))
                for _, token in rest
                if token.lower not in LISTING and token.lower not in _ARTICLES
            ],
            numbers,
            dates,
            any(token.lower in LISTING and at not in joints | more for at, token in rest),
        )


def reordered(one: Frame, two: Frame) -> list[str]:
    """The numbers, or the dates, of both if only their order differs, as "one / other"."""
    if one.words != two.words:
        return []
    return [
        f"{_joined(before)} / {_joined(after)}"
        for before, after in ((one.numbers, two.numbers), (one.dates, two.dates))
        if _flat(before) != _flat(after)
        and (one.lists or two.lists or _sorted(before) != _sorted(after))
        and sorted(_flat(before)) == sorted(_flat(after))
    ]


def _lists(found: Sequence[Quantity], words: Sequence[Token]) -> tuple[_Lists, set[int]]:
    """The values, divided into lists, and the positions of what joins a list."""
    lists: list[list[str]] = []
    joints: set[int] = set()
    end = 0
    for each in found:
        between = words[end : each.start]
        if lists and between and all(map(_joins, between)):
            lists[-1].append(each.value)
            joints.update(range(end, each.start))
        else:
            lists.append([each.value])
        end = each.end
    return lists, joints


def _joins(token: Token) -> bool:
    return token.text == "," or token.lower in LISTING


def _flat(lists: _Lists) -> list[str]:
    return [value for each in lists for value in each]


def _sorted(lists: _Lists) -> list[list[str]]:
    return [sorted(each) for each in lists]


def _joined(lists: _Lists) -> str:
    return ", ".join(_flat(lists))


def _following(words: Sequence[Token], at: int, dates: Mapping[int, str]) -> Iterator[str]:
    left = _COUNTED_WORDS
    while left and at < len(words):
        word = words[at].lower
        if word in LISTING or (words[at].kind == POINT and word != "%"):
            return
        if word not in _BETWEEN:
            left -= 1
            if at in dates:
                yield dates[at]
            else:
                yield numeral(word) if words[at].kind == NUMBER else word_form(word)
        at += 1


def word_form(word: str) -> str:
    """The form in which a word is compared: "cats" as "cat", "kids" as "child"."""
    term = next(iter(count_terms(SAME_AS.get(word, word))), word)
    return forms(term)[0]
