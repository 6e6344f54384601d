"""The most recent items of every kind that was asked for, where one kind has more of them (D5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hitherto_retrieval.search.ranking.ranking import RankedCandidate
from hitherto_retrieval.storage.candidate import Kind

_LEAST = 2


def with_each_kind(
    ranked: Sequence[RankedCandidate], kinds: Sequence[Kind], limit: int
) -> list[RankedCandidate]:
    """The items in their order, those first that `limit` leaves if each kind has its share.

    The newest `limit // kinds` of each kind, and two at least, come before more of another kind.
    """
    share = max(_LEAST, limit // max(1, len(kinds)))
    taken = Counter[Kind]()
    places: list[int] = []
    others: list[int] = []
    for place, item in enumerate(ranked):
        kind = item.candidate.kind
        if item.candidate.most_recent and taken[kind] < share:
            # In rounds, for a limit that has no room for every share.
            taken[kind] += 1
            places.append((taken[kind] - 1) * len(ranked) + place)
        else:
            others.append(place)
    chosen = [place % len(ranked) for place in sorted(places)]
    first = sorted([*chosen, *others][:limit])
    kept = set(first)
    return [ranked[place] for place in (*first, *(p for p in range(len(ranked)) if p not in kept))]
