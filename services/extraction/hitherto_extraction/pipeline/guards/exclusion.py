"""Decides whether two statements exclude each other although no model has compared them.

A roll-back asks this: of a statement, what replaced it, and what replaced that in turn, the one in
the middle is gone. Words that are alike prove nothing then: "allergic to peanuts" and "allergic to
cashews" both hold. Two statements exclude each other only if they give one slot of which a person
has one ("lives in", "works at", "is married to") two values. The lists are deliberately small and
closed; statements that they do not cover coexist.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from hitherto_extraction.pipeline.guards.slots import exchanged
from hitherto_extraction.pipeline.guards.subjects import speaks_of_another, subject
from hitherto_extraction.pipeline.guards.support import content
from hitherto_extraction.pipeline.guards.tokens import (
    UNCASED,
    WORD,
    Token,
    kept_for_a_while,
    tokenise,
)
from hitherto_shared.vocabulary.opposites import index_of, markers

_NAMED = (
    "live_in lives_in living_in reside_in resides_in residing_in based_in sống_ở cư_trú_ở "
    "cư_trú_tại vive_en vivo_en habite_à wohnt_in wohne_in lebt_in mora_em abita живёт_в живу_в",
    "work_at works_at working_at work_for works_for working_for employed_at employed_by "
    "làm_việc_ở làm_việc_tại làm_việc_cho trabaja_en travaille_chez arbeitet_bei работает_в",
    "is_married_to is_engaged_to",
    "name_is is_named is_called tên_là",
)
"""Slots whose values are proper names: "works at night" fills none of them."""
_OPEN = (*_NAMED, "work_as works_as working_as employed_as trabaja_como arbeitet_als")
"""The slots whose values follow these phrases."""
_CLOSED = (
    ("is_single độc_thân", "is_married kết_hôn", "is_divorced ly_hôn ly_dị", "is_widowed"),
    ("is_vegetarian ăn_chay", "is_vegan thuần_chay", "is_pescatarian", "eats_meat eat_meat"),
)
"""The slots whose values are these alternatives."""
_INDEX = index_of([*([phrases] for phrases in _OPEN), *_CLOSED])
_LONGEST_PHRASE = max(map(len, _INDEX))
_LONGEST_STATEMENT = 500
"""Longer texts say more than one thing, and would take long to read."""
_UNCHANGING = frozenset("a an the currently now still".split())


@dataclass(frozen=True, slots=True)
class _FilledSlot:
    """A slot that a statement fills, by its number.

    Attributes:
        whom: The words of the subject.
        alternative: Which of its alternatives.
        value: The words after the phrase, if any follow at once.
    """

    number: int
    whom: frozenset[str]
    alternative: int
    value: tuple[Token, ...]


def exclude(one: str, other: str) -> bool:
    """Whether two statements cannot hold at the same time."""
    return any(
        _differ(left, right) for left in _filled(one) for right in _filled(other)
    ) and not speaks_of_another(one, other)


def _differ(one: _FilledSlot, other: _FilledSlot) -> bool:
    """Whether two slots are the same and hold two values."""
    if one.number != other.number:
        return False
    if one.whom != other.whom and max(len(one.whom), len(other.whom)) > 1:
        # "Ana" and "the user" may be one person, "Ana's company" is neither.
        return False
    return one.alternative != other.alternative or bool(exchanged(one.value, other.value))


@kept_for_a_while(64)
def _filled(statement: str) -> tuple[_FilledSlot, ...]:
    """The slots that a statement fills by its first words after the subject."""
    if len(statement) > _LONGEST_STATEMENT:
        return ()
    tokens = tokenise(statement)
    if markers([token.lower for token in tokens if token.kind in (WORD, UNCASED)]):
        # What is denied, intended or over excludes nothing by itself.
        return ()
    person, _ = subject(tokens, loose=False)
    whom = frozenset(person or ())
    said = [token for token in tokens if token.lower not in _UNCHANGING]
    known = set(content(said))
    for at, token in enumerate(said):
        if found := tuple(_at_the_beginning(said[at:], known, whom)):
            return found
        if token in known and token.lower not in whom:
            break
    return ()


def _at_the_beginning(
    said: Sequence[Token], known: Collection[Token], whom: frozenset[str]
) -> Iterator[_FilledSlot]:
    """The slots whose phrases begin a text; `known` are its content words."""
    for length in range(1, _LONGEST_PHRASE + 1):
        phrase = tuple(token.lower for token in said[:length])
        for number, alternative in _INDEX.get(phrase, ()):
            if number >= len(_OPEN):
                yield _FilledSlot(number, whom, alternative, ())
                continue
            value = tuple(takewhile(lambda token: token in known, said[length:]))
            if value and (number >= len(_NAMED) or value[0].capital):
                yield _FilledSlot(number, whom, 0, value)
