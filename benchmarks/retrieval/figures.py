"""What one run found: rows of figures, and how they compare with the floor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
        requests: How many were answered.
        p50: Milliseconds from the request to the reply, as the caller sees it.
        p95: Likewise.
        p99: Likewise.
        per_second: Requests per second.
        cpu_ms: CPU milliseconds per request of the `service` (or floor), of `postgres`, of the
            `embedder` and of the `caller`.
        caller_share: How much of one core the calling process used; near 1 it was the bottleneck.
        embedding_calls: Calls of the embeddings endpoint per request.
        resident_mib: Resident memory of the service (or floor) at the end.
        looked_at: Replies that were looked at.
        faults: How many of these were not what they should be, by what was wrong.
    """

    subject: str
    place: MeasurementConditions
    requests: int
    p50: float
    p95: float
    p99: float
    per_second: float
    cpu_ms: Mapping[str, float]
    caller_share: float
    embedding_calls: float
    resident_mib: float
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
        size: Memories of each user.
        walled: With authentication and row-level security.
        open: Without both.
    """

    size: int
    walled: float
    open: float


@dataclass(frozen=True, slots=True)
class RetrievalReport:
    """All figures of one run.

    Attributes:
        rows: In the order in which they were measured.
        limit: Results that a search wants.
        start: None where it was not measured.
        recall: By size; empty where it was not measured.
        machine: Where this was, and how busy that was before and after.
        walls: None where it was not measured.
    """

    rows: Sequence[LatencyFigures]
    limit: int
    start: Start | None
    recall: Sequence[Recall]
    machine: Mapping[str, Any]
    walls: IsolationCost | None = None

    def find(self, subject: str, **wanted: int) -> LatencyFigures | None:
        """The row of a subject in such a place; of several, that of the fewest users."""
        found = [
            row
            for row in self.rows
            if row.subject == subject
            and all(getattr(row.place, name) == value for name, value in wanted.items())
        ]
        return min(found, key=lambda row: row.place.spread, default=None)

    def floor_of(self, row: LatencyFigures) -> LatencyFigures | None:
        """The row of the floor that was measured in the same place, if there is one."""
        subject = FLOOR_OF.get(row.subject)
        if subject is None:
            return None
        return next(
            (each for each in self.rows if (each.subject, each.place) == (subject, row.place)),
            None,
        )

    def times_the_floor(self, row: LatencyFigures) -> float | None:
        """How many times as long the median call takes as that of the floor."""
        floor = self.floor_of(row)
        return None if floor is None else row.p50 / floor.p50
