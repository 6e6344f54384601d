"""What is measured where: the options, and the groups of rows of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

COUNTS: Mapping[int, int] = {200: 20, 2_000: 3, 10_000: 1}
"""How many users have so many memories: 20,000 memories in all."""
COPIES = 50
"""The large store is so many times the small one."""
LATE_MS = 150
"""How late the embeddings endpoint is in the rows of a late embedder."""
NO_SIZE = 0
"""The size of rows in which the number of memories plays no part."""

SUBJECTS: Mapping[str, str] = {
    "floor_echo": "floor: echo",
    "floor_select": "floor: SELECT 1",
    "floor_search": "floor: embedding call + one SQL",
    "search": "SearchMemories",
    "search_semantic": "SearchMemories, semantic leg alone",
    "search_everything": "SearchMemories, all scopes",
    "search_vector": "SearchMemories, caller's own vector",
    "context": "GetContext without a query",
    "context_query": "GetContext with a query",
}
"""What is measured, and what it is called."""
FLOORS = [subject for subject in SUBJECTS if subject.startswith("floor_")]
_ALWAYS = ("floor_select", "floor_search", "search", "search_vector", "context", "context_query")
_EXTRA_SUBJECTS = ("search_semantic", "search_everything")
_EXTRA_CALLERS = (1, 32)
_LATE_SUBJECTS = ("floor_search", "search", "context_query")
_LARGE_SUBJECTS = ("floor_select", "floor_search", "search", "context", "context_query")
_LARGE_CALLERS = (1, 8)
# Neighbouring users' copies then lie far from each other in the large store.
_STRIDE = 7


@dataclass(frozen=True, slots=True)
class RetrievalOptions:
    """How much is measured."""

    sizes: Sequence[int] = tuple(COUNTS)  # memories of the users who ask, of `COUNTS`
    callers: Sequence[int] = (1, 8, 32)  # requests on their way at a time
    seconds: float = 3.0  # how long each subject is measured in each place
    limit: int = 20  # results that a search wants
    # Whether the rows with a late embedder, the semantic leg alone and all scopes are measured too.
    extras: bool = True
    full: bool = False  # whether the large store is measured too
    start: bool = True  # whether the start is measured
    # Whether searches without authentication and row-level security are measured too.
    walls: bool = True
    recall: int = 50  # how often each user searches when completeness and recall are; 0: not
    # Environment variables of the service.
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def store(self) -> int:
        """Memories in the small store."""
        return sum(size * COUNTS[size] for size in self.sizes)


@dataclass(frozen=True, slots=True)
class MeasurementConditions:
    """Where a row is measured."""

    store: int  # memories in the whole store
    size: int  # memories of each user who asks; `NO_SIZE` where that plays no part
    callers: int  # requests on their way at a time
    delay_ms: int  # how long the embeddings endpoint takes
    spread: int  # over how many users the requests go


@dataclass(frozen=True, slots=True)
class MeasurementGroup:
    """Rows that are measured in turns: where, who asks, and what."""

    place: MeasurementConditions
    users: Sequence[str]
    subjects: Sequence[str]


def users_of(size: int) -> list[str]:
    """Ids of the users with so many memories."""
    return [f"p{size}-{number}" for number in range(COUNTS[size])]


def copy_of(user_id: str, number: int) -> str:
    """The id of a user's copy in the large store."""
    return f"{user_id}~{number}"


def original_of(user_id: str) -> str:
    """The user whose memories this one has."""
    return user_id.partition("~")[0]


def group_of(
    store: int, size: int, callers: int, subjects: Sequence[str], users: Sequence[str]
) -> MeasurementGroup:
    """What so many callers ask for these users, of an embeddings endpoint without delay."""
    return MeasurementGroup(
        MeasurementConditions(store, size, callers, 0, len(users)), users, subjects
    )


def small_store(options: RetrievalOptions) -> Iterator[MeasurementGroup]:
    """What is measured in the small store, the floor that knows no store first."""
    first, store = options.sizes[0], options.store
    for callers in options.callers:
        yield group_of(store, NO_SIZE, callers, ("floor_echo",), users_of(first)[:1])
    for size in options.sizes:
        for callers in options.callers:
            extra = options.extras and size == first and callers in _EXTRA_CALLERS
            subjects = (*_ALWAYS, *_EXTRA_SUBJECTS) if extra else _ALWAYS
            yield group_of(store, size, callers, subjects, users_of(size))
    for callers in options.callers if options.extras else ():
        place = MeasurementConditions(store, first, callers, LATE_MS, COUNTS[first])
        yield MeasurementGroup(place, users_of(first), _LATE_SUBJECTS)


def large_store(options: RetrievalOptions) -> Iterator[MeasurementGroup]:
    """What is measured in the large store: by as many users as in the small one, then by all."""
    first = options.sizes[0]
    asking = [
        (
            size,
            [
                copy_of(user, 1 + _STRIDE * number % (COPIES - 1))
                for number, user in enumerate(users_of(size))
            ],
        )
        for size in options.sizes
    ]
    everybody = [copy_of(user, number) for number in range(1, COPIES) for user in users_of(first)]
    for size, users in (*asking, (first, everybody)):
        for callers in options.callers:
            if callers in _LARGE_CALLERS:
                yield group_of(COPIES * options.store, size, callers, _LARGE_SUBJECTS, users)
