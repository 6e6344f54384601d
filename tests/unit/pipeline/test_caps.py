"""How much one job and one day may change (faults.md row 29)."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitherto_extraction.pipeline.caps import ChangeAllowance, Changes, allowed_changes
from hitherto_extraction.pipeline.model_call import split
from hitherto_extraction.pipeline.operations import Plan, Refused
from hitherto_extraction.pipeline.result import MAX_REFUSALS, Result
from hitherto_extraction.prices import Charge
from hitherto_extraction.provider.placeholders import is_placeholder
from hitherto_extraction.storage.conversations import StoredMessage
from hitherto_shared.model_api import estimate_tokens


def test_a_quarter_of_the_active_between_five_and_twenty() -> None:
    for active, allowed in [(0, 5), (23, 5), (24, 6), (79, 19), (80, 20), (1_000, 20)]:
        assert allowed_changes(active) == allowed


def test_what_a_job_and_a_day_may_change() -> None:
    for wanted, job, day, why in [
        (0, 99, 99, None), (5, 0, 0, None), (6, 0, 0, "refused_over_cap"), (3, 2, 2, None),
        (4, 2, 2, "refused_over_cap"), (5, 0, 15, None), (5, 0, 16, "refused_over_daily_cap"),
    ]:  # fmt: skip
        room = ChangeAllowance(10, job=Changes(closed=job), day=Changes(updated=day))
        assert room.refuses(wanted) == why, (wanted, job, day)


def test_endings_and_updates_have_a_limit_each() -> None:
    """A move with a new job and a goal reached is many true changes at once."""
    room = ChangeAllowance(10)
    assert room.refuses(5, 5) is None
    assert room.refuses(6, 0) == room.refuses(0, 6) == "refused_over_cap"
    assert ChangeAllowance(10, job=Changes(updated=3)).refuses(5, 2) is None
    assert ChangeAllowance(10, job=Changes(updated=3)).refuses(5, 3) == "refused_over_cap"
    # What the job has ended already was active before it.
    assert ChangeAllowance(23, job=Changes(closed=1)).refuses(5) is None
    assert ChangeAllowance(22, job=Changes(closed=1)).refuses(5) == "refused_over_cap"


def test_many_memories_allow_more_a_day() -> None:
    room = ChangeAllowance(400, day=Changes(closed=60, updated=40))
    assert room.refuses(15) is None
    assert room.refuses(16) == "refused_over_daily_cap"


# A range of messages becomes model calls at message borders, in order (B6).


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def said(*contents: str) -> list[StoredMessage]:
    return [StoredMessage(n, f"m{n}", "user", "", c, NOON) for n, c in enumerate(contents, 1)]


def test_a_message_above_the_budget_stands_alone() -> None:
    short, long, last = said("a", "x" * 9000, "b")
    assert split([short, long, last], 200) == [[short], [long], [last]]


def test_tokens_are_estimated_from_bytes() -> None:
    for text, tokens in [("", 0), ("abc", 1), ("abcd", 2), ("Hà Nội", 3)]:
        assert estimate_tokens(text) == tokens


@given(st.lists(st.text(max_size=400), max_size=30), st.integers(30, 400))
def test_every_message_once_in_order_within_the_budget(contents: list[str], budget: int) -> None:
    contents = [c.encode("utf-8", "ignore").decode() for c in contents]
    messages = said(*contents)
    batches = split(messages, budget)
    assert [message for batch in batches for message in batch] == messages
    for batch in batches:
        assert batch
        assert len(batch) == 1 or sum(estimate_tokens(m.content) for m in batch) <= budget


# What a job reports, summed over its calls (contract `JobResult`, B14).


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
    assert len(result.refusals) == MAX_REFUSALS
    assert result.counts["refused_unknown"] == 121
    assert (result.counts["refused_profile"], result.dropped_items) == (3, 123)


# What only fills in the form of an answer is no memory (issue: 11 junk items of "Hi there!").


INSTRUCTIONS = (
    "Each `content` is one statement in the third person. For example: The user is a software\n"
    "engineer at Google. If there is nothing to remember, answer with empty lists."
)


def test_what_nobody_said_and_only_fills_in_is_a_placeholder() -> None:
    for content in [
        "string", "N/A", "n/a.", "None", "null", "...", "…", "-", "???", "TBD", "unknown",
        "<one statement in the third person>", "<string>", "{content}", "[statement]",
        "one statement in the third person", "The user is a software engineer at Google.",
        "nothing to remember",
    ]:  # fmt: skip
        assert is_placeholder(content, INSTRUCTIONS, "Hi there!")


def test_what_may_be_a_statement_is_kept() -> None:
    for content, said in [
        ("Vegetarian", "I'm a vegetarian"),
        ("None", "My answer to all of them is none."),
        ("The user is a software engineer at Google.", "I write software for Google"),
        ("The user lives in Porto", "Vivo no Porto"),
        ("The user likes cats", "Tôi thích mèo"),
        ("ユーザーは東京に住んでいます", "I live in Tokyo"),
        ("用户喜欢绿茶", "Green tea for me"),
        ("ผู้ใช้ชอบชา", "Tea please"),
        ("Người dùng thích cà phê", "I like coffee"),
        ("المستخدم يحب القهوة", "I like coffee"),
        ("Lives at [Rua 5, Porto]", "Rua 5"),
        ("🎉 birthday on 2026-03-01", "It's my birthday"),
    ]:
        assert not is_placeholder(content, INSTRUCTIONS, said)
