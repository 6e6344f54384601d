"""Decides whether a new statement is a duplicate of a known one.

Two conditions must both hold: the embedder finds the texts near, and no guard finds a difference
(`guards`). Texts that are equal except for case, missing diacritics and punctuation need no vector,
so that an embedder outage duplicates nothing that is repeated word for word.

Duplicates have the same type. Even `fact` and `personal`, which models confuse, stay apart:
`personal` may be sealed, so joining them would leave sealed wording in clear or the reverse; and a
memory joined to `context` would decay with it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from hitherto_extraction.pipeline.guards import same_statement
from hitherto_extraction.pipeline.guards.slots import merged_words
from hitherto_extraction.pipeline.guards.tokens import kept_for_a_while
from hitherto_shared.models import CURRENT_STATUSES
from hitherto_shared.text.normalise import fold

CANDIDATE_STATUSES = (*CURRENT_STATUSES, "quarantined", "forgotten")
"""Statuses that a duplicate may have. A forgotten memory stays forgotten, and restating one that
waits for review does not duplicate it."""

MOST_COMPARED = 32
"""Maximum number of candidates that the guards compare with one statement."""
_MOST_READ = 300_000
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


@dataclass(slots=True)
class Reading:
    """How many characters the guards may still read for the statements of one reply.

    A reply may hold hundreds of long statements, each near all others. Once this is used up, only
    equal texts are duplicates: a second memory can be merged later, while a commit that exceeds its
    time limit would be repeated without end.
    """

    left: int = _MOST_READ

    def may_read(self, *texts: str) -> bool:
        """Whether so much is left."""
        return sum(map(len, texts)) <= self.left


def find_duplicate(
    new_type: str,
    new_content: str,
    neighbours: Sequence[Neighbour],
    threshold: float,
    reading: Reading | None = None,
) -> Neighbour | None:
    """The known memory that already states the new statement, or None.

    If there are several, a current one precedes a quarantined one, and that a forgotten one
    (otherwise a forgotten copy would hide that the statement is known); then an exact copy, the
    highest cosine, the latest change, the id.

    Args:
        new_type: Type of the new statement.
        new_content: Its text.
        neighbours: The candidates, of one user, in any order. Statuses other than
            `CANDIDATE_STATUSES` are skipped.
        threshold: Minimum cosine of near texts, which depends on the embedder.
        reading: Shared by the statements of one reply; unset: the statement is the only one.

    Returns:
        The duplicate; what follows from its status and origin is the caller's decision.
    """
    plain, reading = _plain(new_content), reading or Reading()
    near: list[_Near] = []
    for known in neighbours:
        if known.type != new_type or known.status not in CANDIDATE_STATUSES:
            continue
        exact = _plain(known.content) == plain
        # Written so that NaN, the cosine of a zero vector, is not near.
        cosine = known.cosine if known.cosine is not None and known.cosine >= threshold else None
        if exact or (cosine is not None and reading.may_read(new_content, known.content)):
            near.append(_Near(known, exact, cosine or 0.0))
    found = [
        each
        for each in _readable(new_content, _likeliest(new_content, near), reading)
        if same_statement(new_content, each.known.content)
    ]
    return max(found, key=lambda each: each.rank).known if found else None


@dataclass(frozen=True, slots=True)
class _Near:
    """A candidate, and how it is near: by its words, its vector, or both."""

    known: Neighbour
    exact: bool
    cosine: float

    @property
    def rank(self) -> tuple[int, bool, float, datetime, int]:
        """Its order among candidates that say the same."""
        known = self.known
        return (
            _STANDING.get(known.status, 2),
            self.exact,
            self.cosine,
            known.updated_at,
            known.memory_id.int,
        )


def _likeliest(content: str, near: Sequence[_Near]) -> Sequence[_Near]:
    """The candidates that the guards compare, if there are very many.

    An embedder may map hundreds of statements to one point. A paraphrase is one of the nearest, or
    of those that share the most words with the statement, whatever their number.
    """
    if len(near) <= MOST_COMPARED:
        return near
    words = merged_words(content)

    def shared(each: _Near) -> float:
        other = merged_words(each.known.content)
        return len(words & other) / max(1, len(words | other))

    half = MOST_COMPARED // 2
    by_words = sorted(near, key=lambda each: (each.exact, shared(each)), reverse=True)[:half]
    by_vector = sorted(near, key=lambda each: each.cosine, reverse=True)
    chosen = {id(each) for each in by_words}
    return [*by_words, *[each for each in by_vector if id(each) not in chosen][:half]]


def _readable(content: str, near: Sequence[_Near], reading: Reading) -> Iterator[_Near]:
    """The candidates that may still be read, the nearest first."""
    for each in sorted(near, key=lambda each: (each.exact, each.cosine), reverse=True):
        if each.exact or reading.may_read(content, each.known.content):
            reading.left -= len(content) + len(each.known.content)
            yield each


@kept_for_a_while(1_024)
def _plain(text: str) -> str:
    """The text folded and without punctuation."""
    kept = (" " if unicodedata.category(ch)[0] == "P" else ch for ch in text)
    return fold("".join(kept))
