"""The lists of a user's memories that need no question, from orders made once with the snapshot.

A list takes the beginning of an order. Usage, which changes with every answer, decides only among
equally important memories, and is looked up for those alone.
"""

from __future__ import annotations

from bisect import bisect_right
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from hitherto_retrieval.storage.cached_vectors import since_epoch
from hitherto_retrieval.storage.uses import UseOf

FRESH = timedelta(days=7)
"""As in `memories.top`."""


class CachedLists:
    """The places of memories, in the orders of their lists; immutable.

    Args:
        importance: The importance of each.
        created: When each was created, in microseconds.
        expires: When each expires, in microseconds.
    """

    def __init__(
        self,
        importance: NDArray[np.float64],
        created: NDArray[np.int64],
        expires: NDArray[np.int64],
    ) -> None:
        self._importance: list[float] = importance.tolist()
        self._created: list[int] = created.tolist()
        self._expires: list[int] = expires.tolist()
        self._by_age: list[int] = np.lexsort((created,))[::-1].tolist()
        self._by_importance: list[int] = np.argsort(-importance).tolist()
        ages = created + round(FRESH / timedelta(microseconds=1))
        self._changes: list[int] = np.unique(np.concatenate([expires, ages])).tolist()

    def interval(self, at: datetime) -> int:
        """The number of a time: at two times of one number, the lists of equal usage are equal."""
        return bisect_right(self._changes, since_epoch(at))

    def top(self, use: UseOf, at: datetime, *, limit: int, fresh: int) -> list[int]:
        """As `memories.top`.

        Args:
            use: The use of the memory at a place; None if it was never used.
            at: The database's clock.
            limit: Number of places.
            fresh: How many of them go to the newest memories.
        """
        moment, importance, expires = since_epoch(at), self._importance, self._expires
        listed = self.newest(at, fresh, since_epoch(at - FRESH))
        recent = set(listed)
        others: list[int] = []
        wanted = limit - len(recent)
        for place in self._by_importance:
            # Those as important as the last of the wanted ones compete for its place.
            if len(others) >= wanted and (
                not wanted or importance[place] < importance[others[wanted - 1]]
            ):
                break
            if expires[place] > moment and place not in recent:
                others.append(place)

        ranks: dict[int, tuple[float, int, int]] = {}
        for place in (*listed, *others):
            used = use(place)
            last = self._created[place] if used is None else used[1]
            ranks[place] = importance[place], last, place
        if len(others) > wanted:
            others = sorted(others, key=ranks.__getitem__, reverse=True)[:wanted]
        listed += others
        return sorted(listed, key=ranks.__getitem__, reverse=True)

    def newest(self, at: datetime, limit: int, created_after: int | None = None) -> list[int]:
        """As `memories.newest`: the newest that have not expired by `at`."""
        moment, expires, created = since_epoch(at), self._expires, self._created
        found: list[int] = []
        for place in self._by_age:
            if len(found) == limit or (
                created_after is not None and created[place] <= created_after
            ):
                break
            if expires[place] > moment:
                found.append(place)
        return found
