"""What is measured where: the groups of rows of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.retrieval.figures import NO_SIZE, MeasurementConditions

COUNTS: Mapping[int, int] = {200: 20, 2_000: 3, 10_000: 1}
"""How many users have so many memories: 20,000 memories in all."""
COPIES = 50
"""The large store is so many times the small one."""
LATE_MS = 150
"""How late the embeddings endpoint is in the rows of a late embedder."""

_SUBJECTS = (
    "floor_select",
    "floor_search",
    "search",
    "search_vector",
    "context",
    "context_query",
)
_EXTRA_SUBJECTS = ("search_semantic", "search_repeated")
_EXTRA_CALLERS = (1, 32)
_LATE_SUBJECTS = ("floor_search", "search", "context_query")
_LARGE_SUBJECTS = ("floor_select", "floor_search", "search", "context", "context_query")
_LARGE_CALLERS = (1, 8)
# Neighbouring users' copies then lie far from each other in the large store.
_STRIDE = 7


@dataclass(frozen=True, slots=True)
class RetrievalOptions:
    """How much is measured.

    Attributes:
        sizes: Memories of the users who ask, of `COUNTS`.
        callers: Requests on their way at a time.
        seconds: How long each subject is measured in each place.
        limit: Results that a search wants.
        extras: Whether the rows with a late embedder, repeated queries and the semantic leg alone
            are measured too.
        full: Whether the large store is measured too.
        start: Whether the start is measured.
        walls: Whether searches without authentication and row-level security are measured too.
        recall: How often each user searches when completeness and recall are; 0: not.
        settings: Environment variables of the service.
    """

    sizes: Sequence[int] = tuple(COUNTS)
    callers: Sequence[int] = (1, 8, 32)
    seconds: float = 3.0
    limit: int = 20
    extras: bool = True
    full: bool = False
    start: bool = True
    walls: bool = True
    recall: int = 50
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def store(self) -> int:
        """Memories in the small store."""
        return sum(size * COUNTS[size] for size in self.sizes)


@dataclass(frozen=True, slots=True)
class MeasurementGroup:
    """Rows that are measured in turns: where, who asks, and what."""

    place: MeasurementConditions
    users: Sequence[str]
    subjects: Sequence[str]


def users_of(size: int) -> list[str]:
    """Ids of the users with so many memories."""
    return [f"p{size}-{number}" for number in range(COUNTS[size])]


def in_small_store(
    options: RetrievalOptions, size: int, callers: int, delay_ms: int = 0
) -> MeasurementConditions:
    """Where all users with so many memories ask."""
    return MeasurementConditions(options.store, size, callers, delay_ms, COUNTS[size])


def copy_of(user_id: str, number: int) -> str:
    """The id of a user's copy in the large store."""
    return f"{user_id}~{number}"


def original_of(user_id: str) -> str:
    """The user whose memories this one has."""
    return user_id.partition("~")[0]


def small_store(options: RetrievalOptions) -> Iterator[MeasurementGroup]:
    """What is measured in the small store, the floor that knows no store first."""
    first = options.sizes[0]
    for callers in options.callers:
        place = MeasurementConditions(options.store, NO_SIZE, callers, 0, 1)
        yield MeasurementGroup(place, users_of(first)[:1], ("floor_echo",))
    for size in options.sizes:
        users = users_of(size)
        for callers in options.callers:
            extra = options.extras and size == first and callers in _EXTRA_CALLERS
            subjects = (*_SUBJECTS, *_EXTRA_SUBJECTS) if extra else _SUBJECTS
            yield MeasurementGroup(in_small_store(options, size, callers), users, subjects)
    if options.extras:
        users = users_of(first)
        for callers in options.callers:
            place = in_small_store(options, first, callers, LATE_MS)
            yield MeasurementGroup(place, users, _LATE_SUBJECTS)


def large_store(options: RetrievalOptions) -> Iterator[MeasurementGroup]:
    """What is measured in the large store: by as many users as in the small one, then by all."""
    store = COPIES * options.store
    callers_too = [callers for callers in options.callers if callers in _LARGE_CALLERS]
    for size in options.sizes:
        users = [
            copy_of(user, 1 + _STRIDE * number % (COPIES - 1))
            for number, user in enumerate(users_of(size))
        ]
        for callers in callers_too:
            yield MeasurementGroup(
                MeasurementConditions(store, size, callers, 0, len(users)), users, _LARGE_SUBJECTS
            )
    everybody = [
        copy_of(user, number) for number in range(1, COPIES) for user in users_of(options.sizes[0])
    ]
    for callers in callers_too:
        place = MeasurementConditions(store, options.sizes[0], callers, 0, len(everybody))
        yield MeasurementGroup(place, everybody, _LARGE_SUBJECTS)
