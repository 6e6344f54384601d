"""What a job reports, summed over its calls (contract `JobResult`, B14)."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from uuid import UUID

import pytest

from hitherto_extraction.pipeline.operations import Plan, Refused
from hitherto_extraction.pipeline.result import MAX_REFUSALS, Result
from hitherto_extraction.prices import Charge

REFUSED = Refused.of("achieved_goals[1]", "refused_unknown")


def chat(calls: int = 1) -> Charge:
    return Charge("extraction", "gpt-4o-mini", calls, 1000, 100, Decimal("0.00021"))


def test_a_result_survives_being_stored() -> None:
    refused = Refused.of("updated_memories[0]", "refused_quote", memory_id=UUID(int=7))
    result = Result(memories_created=2, model="m").with_charges([chat()])
    result = result.with_plan(Plan(refusals=[refused, REFUSED]), 0)
    restored = Result.of(json.loads(json.dumps(result.stored())))
    assert [each["memory_id"] for each in restored.refusals] == [str(UUID(int=7)), ""]
    assert replace(restored, refusals=()) == replace(result, refusals=())
    assert Result.of({}) == Result()


def test_b14_usage_is_summed_over_charges_and_calls() -> None:
    embedding = Charge("embedding", "text-embedding-3-small", 1, 50, 0, Decimal("0.000001"))
    result = Result().with_charges([chat(), embedding]).with_charges([chat(2)])
    assert result.usage == {
        "llm_calls": 3,
        "input_tokens": 2000,
        "output_tokens": 200,
        "embedding_calls": 1,
        "embedding_tokens": 50,
        "cost_usd": pytest.approx(0.000421),
    }


def test_refusals_of_all_calls_are_named_up_to_a_limit_and_all_counted() -> None:
    plan = Plan(refusals=[REFUSED] * 60)
    result = Result().with_plan(plan, 0).with_plan(plan, 0).refusing_profile([REFUSED], 2)
    assert (len(result.refusals), result.counts["refused_unknown"]) == (MAX_REFUSALS, 121)
    assert (result.counts["refused_profile"], result.dropped_items) == (3, 123)


def test_what_stays_forgotten_is_counted_once_and_named_without_any() -> None:
    kept = Refused.of("new_memories[0]", "kept_forgotten")
    for refusals in ([], [kept], [kept, kept]):
        result = Result().with_plan(Plan(refusals=refusals), 0)
        assert result.counts["kept_forgotten"] == result.dropped_items == len(refusals)
