"""Whether filtered searches return all there is, and the nearest of it (bar Q2).

The semantic leg alone is asked, with the caller's own vector, so that what is nearest can be told
by brute force over the very vectors that were stored.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.retrieval.figures import Recall
from benchmarks.retrieval.person import TYPES, Person, SyntheticMemory
from benchmarks.retrieval.requests import SEMANTIC_ALONE
from benchmarks.retrieval.stage import Stage
from benchmarks.retrieval.wording import Questions, vector
from benchmarks.serving import in_turns
from hitherto.v1 import memory_pb2, retrieval_service_pb2

LIMITS = (5, 20, 60)
_AT_A_TIME = 4
_AS_NEAR = 1e-4
"""Cosines that differ by less are equal in half precision."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Lets memories through by type and tag; None: any."""

    type: str | None = None
    tag: str | None = None

    def lets(self, memory: SyntheticMemory) -> bool:
        """Whether a memory passes."""
        return self.type in {None, memory.type} and (self.tag is None or self.tag in memory.tags)


@dataclass(frozen=True, slots=True)
class _RecallQuery:
    """One search: whether it was complete, and the share of the nearest that it found."""

    user_id: str
    complete: bool
    filtered: bool
    recall: float


async def measure_recall(
    stage: Stage,
    people: Sequence[Person],
    *,
    repeats: int,
    searched: Callable[[int], None],
) -> list[Recall]:
    """Let each person search so often with a filter, and a fifth as often without one.

    Args:
        stage: What runs.
        people: Who searches; their memories are what the database holds.
        repeats: How often each.
        searched: Is told how many people are done.

    Raises:
        BenchmarkFailed: A search was answered with an error.
    """
    asked: list[_RecallQuery] = []
    for done, person in enumerate(people, start=1):
        searches = _Searches(stage, person)
        asked += await in_turns(range(repeats), searches.one, at_once=_AT_A_TIME)
        searched(done)
    return [
        _recall(size, [person for person in people if person.size == size], asked)
        for size in sorted({person.size for person in people})
    ]


class _Searches:
    """Searches of one person."""

    def __init__(self, stage: Stage, person: Person) -> None:
        self._stage = stage
        self._person = person
        self._rng = random.Random(f"filters {person.user_id}")
        self._questions = Questions(f"recall {person.user_id}")
        self._vectors = person.vectors.astype(np.float32)
        self._places = {str(memory.memory_id): place for place, memory in enumerate(person.learnt)}

    async def one(self, number: int) -> _RecallQuery:
        person = self._person
        wanted = _filter(self._rng, person, number)
        limit = LIMITS[number % len(LIMITS)]
        asked = vector(self._questions.ask(person.user_id)).astype(np.float16).astype(np.float32)
        request = retrieval_service_pb2.SearchMemoriesRequest(
            user_id=person.user_id,
            query_embedding=asked.tolist(),
            limit=limit,
            tags=[wanted.tag] if wanted.tag else [],
            types=[memory_pb2.MemoryType.Value(f"MEMORY_TYPE_{wanted.type.upper()}")]
            if wanted.type
            else [],
            weights=SEMANTIC_ALONE,
        )
        reply = await self._stage.search(request)
        allowed = np.array([wanted.lets(memory) for memory in person.learnt])
        found = [self._places[result.memory.id] for result in reply.results]
        return _RecallQuery(
            user_id=person.user_id,
            complete=len(set(found)) == min(limit, int(allowed.sum()))
            and all(allowed[place] for place in found),
            filtered=wanted != Filter(),
            recall=share_of_nearest(self._vectors @ asked, allowed, found, limit),
        )


def share_of_nearest(
    cosines: NDArray[np.float32], allowed: NDArray[np.bool_], found: Sequence[int], limit: int
) -> float:
    """The share of the `limit` nearest allowed memories that were found; 1 if there are none.

    Args:
        cosines: Of every memory to the query.
        allowed: Which of them the filter lets through.
        found: Places of those that were returned.
        limit: How many were wanted.
    """
    wanted = min(limit, int(allowed.sum()))
    if wanted == 0:
        return 1.0
    # The ranking takes cosines below 0 for 0: one such memory is as good as another.
    similar = np.maximum(cosines, 0.0)
    last = np.sort(similar[allowed])[-wanted]
    near = sum(bool(allowed[place]) and similar[place] >= last - _AS_NEAR for place in set(found))
    return float(min(near, wanted) / wanted)


def _filter(rng: random.Random, person: Person, number: int) -> Filter:
    """One in five without a filter, the others by type, by tag or by both in turn."""
    kind, tag = rng.choice(TYPES), rng.choice(rng.choice(person.learnt).tags)
    return (
        Filter(),
        Filter(type=kind),
        Filter(tag=tag),
        Filter(type=kind, tag=tag),
        Filter(tag=tag),
    )[number % 5]


def _recall(size: int, people: Sequence[Person], asked: Sequence[_RecallQuery]) -> Recall:
    def lowest(filtered: bool) -> float:
        shares: dict[str, list[float]] = {person.user_id: [] for person in people}
        for one in asked:
            if one.filtered == filtered and one.user_id in shares:
                shares[one.user_id].append(one.recall)
        return min(float(np.mean(each)) for each in shares.values())

    users = {person.user_id for person in people}
    own = [one for one in asked if one.user_id in users]
    return Recall(
        size=size,
        users=len(users),
        searches=len(own),
        complete=sum(one.complete for one in own),
        recall=round(lowest(True), 4),
        unfiltered=round(lowest(False), 4),
    )
