"""Decides whether a new statement is known already: only equal texts are, after folding.

What is near but worded otherwise may be a sibling ("allergic to peanuts", "allergic to cashews") as
well as a repetition, and no program can tell. Types may differ, because models confuse them, unless
one of the two is sensitive: joining those would leave sealed words in clear.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from uuid import UUID

from hitherto_shared.models import CURRENT_STATUSES
from hitherto_shared.text.normalise import fold, normalized

CANDIDATE_STATUSES = (*CURRENT_STATUSES, "quarantined", "forgotten")
"""Statuses that a duplicate may have. A forgotten memory stays forgotten, and restating one that
waits for review does not duplicate it."""

_STANDING = {"forgotten": 0, "quarantined": 1}


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A known memory near a new statement.

    `cosine` is None if either has no vector, or they have vectors of different models. If the
    memory replaces the nearby statement (`original`, by a merge), the content is that of the
    statement, and everything else that of the memory.
    """

    memory_id: UUID
    type: str
    content: str
    status: str
    cosine: float | None
    updated_at: datetime
    original: UUID | None = None
    sensitive: bool = False

    def is_near(self, threshold: float) -> bool:
        """Whether its vector is near; NaN, the cosine of a zero vector, is not."""
        return self.cosine is not None and self.cosine >= threshold


def find_duplicate(
    new_type: str, new_content: str, neighbours: Sequence[Neighbour], *, sensitive: bool = False
) -> Neighbour | None:
    """The known memory of the user that already states the new statement, or None.

    If there are several, a current one precedes a quarantined one, and that a forgotten one
    (otherwise a forgotten copy would hide that the statement is known); then one of the same type,
    the latest change, the id. What follows from its status and origin is the caller's decision.
    """
    found = [
        known
        for known in neighbours
        if known.status in CANDIDATE_STATUSES
        and (known.type == new_type or not (known.sensitive or sensitive))
        and same_words(new_content, known.content)
    ]
    return max(found, key=lambda known: _rank(known, new_type)) if found else None


def find_forgotten(neighbours: Sequence[Neighbour], threshold: float) -> Neighbour | None:
    """The forgotten memory that a statement is nearest to, by its vector; None if none is near."""
    near = [each for each in neighbours if each.status == "forgotten" and each.is_near(threshold)]
    return max(near, key=lambda each: each.cosine or 0.0) if near else None


def _rank(known: Neighbour, new_type: str) -> tuple[int, bool, datetime, int]:
    standing = _STANDING.get(known.status, 2)
    return standing, known.type == new_type, known.updated_at, known.memory_id.int


def same_words(one: str, other: str) -> bool:
    """Whether two texts are equal but for case, punctuation, spaces, and missing diacritics."""
    if one == other:
        return True
    plain_one, folded_one, marked_one = _forms(one)
    plain_other, folded_other, marked_other = _forms(other)
    if plain_one == plain_other:
        return True
    return folded_one == folded_other and not (marked_one and marked_other)


@lru_cache(512)
def _forms(text: str) -> tuple[str, str, bool]:
    """The forms of a text that are compared; each of a reply's many pairs needs them again."""
    plain = _plain(text)
    return plain, fold(plain), is_marked(plain)


def is_marked(text: str) -> bool:
    """Whether a text has any diacritics."""
    lowered = text.casefold()
    return not lowered.isascii() and fold(lowered) != " ".join(lowered.split())


def _plain(text: str) -> str:
    """The text without case, punctuation and the width of its spaces.

    Signs with a meaning stay: C++ is not C#, 20% not 20, and -5 not 5.
    """
    text = _MINUS.sub("\u2212", text)
    if text.isascii():
        words = text.lower().translate(_ASCII_SEPARATORS)
    else:
        folded = normalized("NFKC", normalized("NFKC", text).casefold())
        words = "".join(" " if _separates(ch) else ch for ch in folded)
    return " ".join(words.split())


def _separates(ch: str) -> bool:
    kind = unicodedata.category(ch)
    return (kind[0] in "PZC" and ch not in _SIGNS) or kind == "Sk"


_SIGNS = "#%&@‰"
"""Punctuation that is part of a name or a number."""
_MINUS = re.compile(r"(?<!\S)-(?=\d)")
_ASCII_SEPARATORS = {code: " " for code in range(128) if _separates(chr(code))}
