"""Whether filtered searches return all there is, and the nearest of it (bar Q2).

The semantic leg alone is asked, with the caller's own vector, so that what is nearest can be told
by brute force over the very vectors that were stored.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.retrieval.caller import SEMANTIC_ALONE
from benchmarks.retrieval.person import TYPES, Person
from benchmarks.retrieval.report import Recall
from benchmarks.retrieval.stage import Stage
from benchmarks.retrieval.wording import Questions, vector
from benchmarks.serving import in_turns
from hitherto_client import AsyncHitherto

LIMITS = (5, 20, 60)
_AT_A_TIME = 4
_AS_NEAR = 1e-4
"""Cosines that differ by less are equal in half precision."""

RecallQuery = tuple[bool, bool, float]
"""One search: whether it had a filter, was complete, and the share of the nearest it found."""


async def measure_recall(stage: Stage) -> list[Recall]:
    """Let each person search as often as is wanted, one time in five without a filter.

    Raises:
        HithertoCallError: A search was answered with an error.
    """
    by_size: defaultdict[int, list[list[RecallQuery]]] = defaultdict(list)
    async with AsyncHitherto(stage.service.address, api_key=stage.key) as client:
        for person in stage.people:
            by_size[person.size].append(await _searches(client, person, stage.options.recall))
    return [
        Recall(
            size=size,
            users=len(of_users),
            searches=sum(map(len, of_users)),
            complete=sum(complete for asked in of_users for _, complete, _ in asked),
            recall=min(map(_lowest, of_users)),
        )
        for size, of_users in sorted(by_size.items())
    ]


def _lowest(asked: Sequence[RecallQuery]) -> float:
    """The mean share of a user's searches with a filter or of those without, the lower one."""
    means = [
        np.mean([share for with_filter, _, share in asked if with_filter == filtered])
        for filtered in (True, False)
    ]
    return round(float(min(means)), 4)


async def _searches(client: AsyncHitherto, person: Person, repeats: int) -> list[RecallQuery]:
    rng = random.Random(f"filters {person.user_id}")
    questions = Questions(f"recall {person.user_id}")
    vectors = person.vectors.astype(np.float32)
    places = {str(memory.row["memory_id"]): place for place, memory in enumerate(person.learnt)}

    async def search(number: int) -> RecallQuery:
        kind, tag = rng.choice(TYPES), rng.choice(rng.choice(person.learnt).row["tags"])
        by_kind, by_tag = {"types": [kind]}, {"tags": [tag]}
        wanted: dict[str, Any] = ({}, by_kind, by_tag, by_kind | by_tag, by_tag)[number % 5]
        limit = LIMITS[number % len(LIMITS)]
        asked = vector(questions.ask(person.user_id)).astype(np.float16).astype(np.float32)
        reply = await client.search(
            person.user_id,
            query_embedding=asked.tolist(),
            limit=limit,
            min_relevance=0.0,
            weights=SEMANTIC_ALONE,
            **wanted,
        )
        allowed = np.array(
            [
                ("types" not in wanted or memory.row["type"] == kind)
                and ("tags" not in wanted or tag in memory.row["tags"])
                for memory in person.learnt
            ]
        )
        found = [places[result.memory.id] for result in reply if result.memory is not None]
        complete = len(set(found)) == min(limit, int(allowed.sum()))
        share = share_of_nearest(vectors @ asked, allowed, found, limit)
        return bool(wanted), complete and all(allowed[place] for place in found), share

    phase = f"recall of {person.user_id}"
    return await in_turns(range(repeats), search, at_once=_AT_A_TIME, phase=phase)


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
