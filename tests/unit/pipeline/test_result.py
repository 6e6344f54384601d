"""What a job reports, summed over its calls (contract `JobResult`, B14)."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal

from hitherto_extraction.pipeline.operations import Plan
from hitherto_extraction.pipeline.result import Result
from hitherto_extraction.prices import Charge


def chat(calls: int = 1) -> Charge:
    return Charge("extraction", "gpt-4o-mini", calls, 1000, 100, Decimal("0.00021"))


def embedding() -> Charge:
    return Charge("embedding", "text-embedding-3-small", 1, 50, 0, Decimal("0.000001"))


def test_usage_is_summed_over_charges_and_calls() -> None:
    result = Result().with_charges([chat(), embedding()]).with_charges([chat(2)])
    assert result.usage == {
        "llm_calls": 3,
        "input_tokens": 2000,
        "output_tokens": 200,
        "embedding_calls": 1,
        "embedding_tokens": 50,
        "cost_usd": 0.00021 + 0.000001 + 0.00021,
    }


def test_a_result_survives_being_stored() -> None:
    result = Result(memories_created=2, model="m").with_charges([chat()])
    assert Result.of(json.loads(json.dumps(result.stored()))) == result
    assert Result.of({}) == Result()


def test_dropped_items_of_the_reply_and_of_the_plan_are_one_number() -> None:
    result = Result(dropped_items=1).with_plan(Plan(dropped=2, forgotten_again=4), dropped=3)
    assert result.dropped_items == 6
    assert +Counter(result.counts) == {"kept_forgotten": 4}
    assert result.with_plan(Plan(forgotten_again=1), dropped=0).counts["kept_forgotten"] == 5
