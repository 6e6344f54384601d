"""Which changes a reconciliation is asked about."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from hitherto_extraction.pipeline.plan import make_plan
from hitherto_extraction.reconciliation.open_questions import open_questions
from tests.unit.pipeline.situations import closed, known, new, situation

HOME = UUID(int=1)


def test_only_what_others_may_rest_on() -> None:
    cases: list[Any] = [
        ({}, [], True),
        ({"type": "personal", "importance": 0.9}, [0.7, 0.8], True),
        ({"importance": 0.6}, [0.7, 0.8, 0.9], True),
        ({"importance": 0.4}, [0.3, 0.4], True),
        ({"importance": 0.5}, [0.7, 0.8, 0.9], False),
        ({"type": "context", "importance": 0.9}, [], False),
        ({"type": "preference", "importance": 0.9}, [], False),
    ]
    for home, others, asked in cases:
        beside = [known(n, f"Ana has {n} cats", importance=i) for n, i in enumerate(others, 2)]
        found = situation(known(**home), *beside, new=[new()], contradicted=[closed()])
        plan = make_plan(found)
        assert [each.before.memory_id for each in plan.closures] == [HOME], home
        (made,) = plan.creations
        expected = {made.memory_id} if asked else set()
        assert open_questions(plan, found) == expected, (home, others)
