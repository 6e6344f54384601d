"""The ranking `balanced` (D4): parts that add up, on a scale of 0..1, in a settled order."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from recollect_retrieval.search.dates.window import Window
from recollect_retrieval.search.ranking import BALANCED, rank
from recollect_retrieval.storage.memories import Candidate

NOW = datetime(2025, 6, 1, tzinfo=UTC)
MAY = Window(datetime(2025, 5, 1, tzinfo=UTC), datetime(2025, 6, 1, tzinfo=UTC), "in May")


def candidate(
    number: int = 1,
    *,
    importance: float = 0.5,
    created_at: datetime = NOW,
    valid_from: datetime = NOW,
    bm25: float = 0.0,
    cosine: float | None = None,
    source_cosine: float | None = None,
) -> Candidate:
    return Candidate(
        UUID(int=number), importance, created_at, valid_from, None, bm25, cosine, source_cosine
    )


def test_the_parts_add_up_to_a_score_between_0_and_1() -> None:
    numbers = random.Random(4)
    candidates = [
        candidate(
            n,
            bm25=numbers.choice([0.0, numbers.uniform(0, 60)]),
            cosine=numbers.choice([None, numbers.uniform(-1, 1)]),
            source_cosine=numbers.choice([None, numbers.uniform(-1, 1)]),
            valid_from=NOW - timedelta(days=numbers.uniform(0, 900)),
        )
        for n in range(300)
    ]
    for weights in ({}, {"date": 0.0}, {"semantic": 100.0, "keyword": 0.0}):
        for item in rank(candidates, MAY, weights):
            assert math.isclose(item.score, sum(item.breakdown.values()), abs_tol=1e-9)
            assert 0.0 <= item.score <= 1.0
            assert set(item.breakdown) == set(BALANCED)


def test_a_perfect_memory_scores_nearly_1_and_a_stranger_0() -> None:
    perfect = candidate(
        1, bm25=1e9, cosine=1.0, source_cosine=1.0, valid_from=MAY.start + timedelta(days=3)
    )
    stranger = candidate(2, cosine=-0.9, source_cosine=-0.2, valid_from=MAY.start)
    best, worst = rank([stranger, perfect], MAY, {})
    assert best.candidate is perfect
    assert best.score == pytest.approx(1.0)
    assert rank([stranger], None, {})[0].score == 0.0
    assert worst.breakdown["semantic"] == 0.0


def test_the_formula_is_the_documented_one() -> None:
    (item,) = rank([candidate(bm25=8.0, cosine=0.6, source_cosine=0.4)], None, {})
    assert item.score == pytest.approx((0.6 + 0.5 * 0.4 + 0.5) / 2.9)


def test_a_weight_of_0_silences_a_component_and_others_share_the_scale() -> None:
    (item,) = rank(
        [candidate(bm25=5.0, cosine=0.5)], None, {"keyword": 0.0, "source": 0.0, "date": 0.0}
    )
    assert item.breakdown["keyword"] == 0.0
    assert item.score == pytest.approx(0.5)


def test_without_a_window_the_scale_stays_so_that_scores_compare() -> None:
    one = candidate(cosine=0.5)
    inside = rank([one], MAY, {})[0]
    outside = rank([one], None, {})[0]
    assert inside.breakdown["semantic"] == outside.breakdown["semantic"]


def test_equal_scores_go_by_importance_then_newest() -> None:
    """D3."""
    light = candidate(1, importance=0.2)
    old = candidate(2, importance=0.9, created_at=NOW - timedelta(days=2))
    new = candidate(3, importance=0.9)
    assert [item.candidate for item in rank([light, old, new], None, {})] == [new, old, light]


def test_only_memories_in_or_near_the_window_were_found_by_their_time() -> None:
    inside, near, far = rank(
        [
            candidate(1, valid_from=MAY.start),
            candidate(2, valid_from=MAY.end + timedelta(days=5)),
            candidate(3, valid_from=MAY.end + timedelta(days=400)),
        ],
        MAY,
        {},
    )
    assert (inside.timely, near.timely, far.timely) == (True, True, False)
    assert inside.score > near.score > far.score
