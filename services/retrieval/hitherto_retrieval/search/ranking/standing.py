"""Ranks what is uncertain lower, and the newer of two memories first.

    score = 0.8 of its ranking's, for a memory that is in doubt (the component `doubt`)

A memory that may replace another one, although nothing confirms it yet, comes before it: if it
ranks lower, it moves up to its place.
"""

from __future__ import annotations

from collections.abc import Hashable

from hitherto_retrieval.pairs import newer_first
from hitherto_retrieval.search.ranking.ranking import RankedCandidate
from hitherto_retrieval.storage.standing import Standing

DOUBTFUL = 0.8
"""What the score of a memory in doubt counts."""
COMPONENT = "doubt"


def as_they_stand(ranked: list[RankedCandidate], standing: Standing) -> list[RankedCandidate]:
    """Ranked candidates, with those in doubt lower, and newer ones before the older."""
    doubtful, newer = standing.doubtful, standing.newer
    if doubtful:
        found = [_doubted(each) if _memory_of(each) in doubtful else each for each in ranked]
        # Among equals, what is certain first.
        found.sort(key=lambda each: (-each.score, _memory_of(each) in doubtful))
        ranked = found
    return newer_first(ranked, newer, _memory_of) if newer else ranked


def _memory_of(item: RankedCandidate) -> Hashable:
    return item.candidate.key if item.candidate.kind == "memory" else None


def _doubted(item: RankedCandidate) -> RankedCandidate:
    lost = (DOUBTFUL - 1) * item.score
    return RankedCandidate(
        item.candidate,
        item.score + lost,
        (*item.names, COMPONENT),
        (*item.parts, lost * item.scale),
        item.timely,
        item.scale,
    )
