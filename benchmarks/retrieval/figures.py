"""What one run measured: rows of figures, and how they compare with the floor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SUBJECTS: Mapping[str, str] = {
    "floor_echo": "floor: echo",
    "floor_select": "floor: SELECT 1",
    "floor_search": "floor: embedding call + one SQL",
    "search": "SearchMemories",
    "search_semantic": "SearchMemories, semantic leg alone",
    "search_vector": "SearchMemories, caller's own vector",
    "search_repeated": "SearchMemories, repeated queries",
    "context": "GetContext without a query",
    "context_query": "GetContext with a query",
}
"""What is measured, and what it is called."""
FLOOR_OF: Mapping[str, str] = {
    "search": "floor_search",
    "search_semantic": "floor_search",
    "search_vector": "floor_search",
    "search_repeated": "floor_search",
    "context": "floor_select",
    "context_query": "floor_search",
}
"""The floor that each is compared with."""
NO_SIZE = 0
"""The size of rows in which the number of memories plays no part."""


@dataclass(frozen=True, slots=True)
class MeasurementConditions:
    """Where a row was measured.

    Attributes:
        store: Memories in the whole store.
        size: Memories of each user who asks; `NO_SIZE` where that plays no part.
        callers: Requests on their way at a time.
        delay_ms: How long the embeddings endpoint takes.
        spread: Over how many users the requests go.
    """

    store: int
    size: int
    callers: int
    delay_ms: int
    spread: int


@dataclass(frozen=True, slots=True)
class LatencyFigures:
    """The figures of one subject in one place.

    Attributes:
        subject: One of `SUBJECTS`.
        place: Where.
        p50: Milliseconds from the request to the reply, as the caller sees it.
        p95: Likewise.
        p99: Likewise.
        per_second: Requests per second.
        cpu_ms: CPU milliseconds per request of the `service` (or floor), of `postgres`, of the
            `embedder` and of the `caller`.
        caller_share: How much of one core the calling process used; near 1 it was the bottleneck.
        looked_at: Replies that were looked at.
        faults: How many of these were not what they should be, by what was wrong.
    """

    subject: str
    place: MeasurementConditions
    p50: float
    p95: float
    p99: float
    per_second: float
    cpu_ms: Mapping[str, float]
    caller_share: float
    looked_at: int
    faults: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds from the start of the process to its first answer."""

    cold: float
    warm: float


@dataclass(frozen=True, slots=True)
class Recall:
    """What filtered searches returned to users of one size.

    Attributes:
        size: Memories of each user.
        users: How many users asked.
        searches: How many times all of them asked together.
        complete: How many replies had as many results as there were, or as were wanted.
        recall: Share of the nearest memories, by brute force, that were found; the lowest of any
            user.
        unfiltered: The same without a filter.
    """

    size: int
    users: int
    searches: int
    complete: int
    recall: float
    unfiltered: float


@dataclass(frozen=True, slots=True)
class IsolationCost:
    """Milliseconds of the median search of one caller.

    Attributes:
        walled: With authentication and row-level security.
        open: Without both.
    """

    walled: float
    open: float


@dataclass(frozen=True, slots=True)
class RetrievalMeasurements:
    """What one run measured.

    Attributes:
        rows: In the order in which they were measured.
        start: None where it was not measured.
        recall: By size; empty where it was not measured.
        walls: None where it was not measured.
    """

    rows: Sequence[LatencyFigures]
    start: Start | None = None
    recall: Sequence[Recall] = ()
    walls: IsolationCost | None = None

    def single(
        self, subject: str, size: int, *, large: bool = False, everybody: bool = False
    ) -> LatencyFigures | None:
        """The row of a single caller and an embedder without delay.

        Args:
            subject: One of `SUBJECTS`.
            size: Memories of each user.
            large: Whether in the large store or in the small one.
            everybody: Whether by the most users or by the fewest.
        """
        stores = sorted({row.place.store for row in self.rows})
        if large and len(stores) < 2:
            return None
        found = [
            row
            for row in self.rows
            if (row.subject, row.place.size, row.place.store)
            == (subject, size, stores[-1 if large else 0])
            and (row.place.callers, row.place.delay_ms) == (1, 0)
        ]
        found.sort(key=lambda row: row.place.spread)
        return found[-1 if everybody else 0] if found else None

    def times_select(self, row: LatencyFigures | None) -> float | None:
        """How many times as long the median call takes as gRPC and `SELECT 1` in the same place.

        Unlike the other floor's, its work does not depend on the user or the store.
        """
        return None if row is None else self._times(row, "floor_select")

    def times_the_floor(self, row: LatencyFigures | None) -> float | None:
        """How many times as long the median call takes as that of the floor in the same place."""
        return None if row is None else self._times(row, FLOOR_OF.get(row.subject))

    def _times(self, row: LatencyFigures, subject: str | None) -> float | None:
        wanted = (subject, row.place)
        floor = next((each for each in self.rows if (each.subject, each.place) == wanted), None)
        return None if floor is None else row.p50 / floor.p50
