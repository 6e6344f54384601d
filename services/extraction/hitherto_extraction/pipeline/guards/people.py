"""Decides whether two statements are certainly about two different people.

What one person does does not contradict what another one does. The guard answers only if it is
certain: two names, or a person and that person's relative. "Ana" and "the user" prove nothing,
because they may be one person.
"""

from __future__ import annotations

from collections.abc import Sequence

from hitherto_extraction.pipeline.guards.subjects import USER, names, small_words, subject
from hitherto_extraction.pipeline.guards.tokens import Token, tokenise

_RELATIVES = frozenset(
    "sister sisters brother brothers mother mom mum father dad parent parents wife husband partner "
    "girlfriend boyfriend fiancé fiancée son sons daughter daughters child children kid kids baby "
    "friend friends colleague colleagues coworker boss manager neighbour neighbor roommate aunt "
    "uncle cousin nephew niece grandmother grandma grandfather grandpa dog cat pet "
    "chị anh em vợ chồng mẹ bố cha ba má bà ông cô chú dì cậu bác bạn sếp chó mèo "
    "hermana hermano madre padre esposa esposo marido hija hijo amiga amigo novia novio jefe jefa "
    "sœur frère mère père femme mari fille fils ami amie schwester bruder mutter vater frau mann "
    "tochter sohn freund freundin".split()
)


def speaks_of_another(one: str, other: str) -> bool:
    """Whether the subjects of two statements are certainly two people."""
    left, right = tokenise(one), tokenise(other)
    a, b = _subject(left), _subject(right)
    if a is None or b is None:
        return False
    kin_a, kin_b = _RELATIVES & a, _RELATIVES & b
    if kin_a or kin_b:
        # "User's sister" and "Anna" may be one person, "user's sister" and "user" are not.
        plain = b if kin_a and not kin_b else a
        return (bool(kin_a) != bool(kin_b) and USER in plain) or (
            bool(kin_a) and bool(kin_b) and kin_a.isdisjoint(kin_b)
        )
    if len(a) > 1 or len(b) > 1 or a == b:
        return False
    lower_cased = small_words(left, right)
    return _is_name(left, lower_cased, a) and _is_name(right, lower_cased, b)


def _subject(tokens: Sequence[Token]) -> frozenset[str] | None:
    words, _ = subject(tokens, loose=False)
    return frozenset(words) if words else None


def _is_name(tokens: Sequence[Token], lower_cased: frozenset[str], wanted: frozenset[str]) -> bool:
    return any(wanted == frozenset(group) for group in names(tokens, lower_cased, loose=False))
