"""Does a new wording still speak of what the old one said?"""

from __future__ import annotations

from hitherto_shared.text.terms import query_terms

_KEPT = 0.25
"""The part of the old statement's terms that a more precise one still has."""


def refines(old: str, new: str) -> bool:
    """Whether `new` can be `old` made more precise, as opposed to another statement in its place.

    A model that confuses ids writes a text that has little or nothing to do with the memory it
    names. Names alone do not make two texts one statement, hence a part of all terms.
    """
    before = query_terms(old)
    kept = len(set(before).intersection(query_terms(new)))
    return kept > 0 and kept >= _KEPT * len(before)
