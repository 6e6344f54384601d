"""The untrusted answer (rows 26, 28, 30): what is taken, what is dropped and counted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitherto_extraction.consolidation.merging import Merge, Merges, read_reply
from hitherto_extraction.provider.reply_text import UnusableAnswer
from tests.refusing import refusing
from tests.scripted_model import CONTENT_FAULTS
from tests.scripted_model.answers import merged
from tests.unit.consolidation.rows import member

SHOWN = ["e1", "e2", "e3", "e4", "e5", "e6"]
GROUP = [member(number, "The user likes tea") for number, _ in enumerate(SHOWN, 1)]


def read(*items: Any) -> Merges:
    return read_reply(json.dumps({"memories": list(items)}), GROUP)


def names(item: Merge) -> tuple[str, ...]:
    return tuple(f"e{each.memory_id.int}" for each in item.originals)


def test_an_item_is_read_with_its_originals() -> None:
    found = read(merged("The user likes tea", ["[e2]", "E1"], importance=0.7))
    (item,) = found.items
    assert (item.type, item.content, item.importance) == ("preference", "The user likes tea", 0.7)
    assert names(item) == ("e2", "e1")
    assert found.dropped == 0


def test_row_26_garbage_is_no_answer() -> None:
    for text in CONTENT_FAULTS.values():
        with pytest.raises(UnusableAnswer), refusing(text):
            read_reply(text, GROUP)


def test_row_26_an_empty_list_is_nothing_to_merge_and_in_a_fence_no_answer() -> None:
    assert read_reply('{"memories": []}', GROUP) == Merges([], 0)
    with pytest.raises(UnusableAnswer):
        read_reply('```json\n{"memories": []}\n```', GROUP)


def test_row_30_text_that_cannot_be_stored_is_cleaned() -> None:
    (item,) = read(merged("te\x00a \ud800now", ["e1", "e2"])).items
    assert item.content == "tea now"


def test_row_28_ids_that_were_not_shown_are_dropped_and_counted() -> None:
    foreign = "0190b3a4-7c1e-7000-8000-000000000001"
    found = read(merged("a", []) | {"merged": ["e1", "e9", foreign, 7, None, "e2"]})
    assert [names(item) for item in found.items] == [("e1", "e2")]
    assert found.dropped == 4


def test_row_28_an_original_in_two_items_counts_for_the_first() -> None:
    found = read(merged("a", ["e1", "e2"]), merged("b", ["e2", "e3"]), merged("c", ["e3", "e4"]))
    assert [names(item) for item in found.items] == [("e1", "e2"), ("e3", "e4")]
    assert found.dropped == 2  # the id and the item that was left with one


def test_what_is_no_merge_is_dropped_and_the_next_item_kept() -> None:
    cases: list[Any] = [
        merged("a", ["e1"]),
        merged("a", ["e1", "e1"]),
        merged("   ", ["e1", "e2"]),
        merged("x" * 8193, ["e1", "e2"]),
        merged("a", ["e1", "e2"], type="prophecy"),
        merged("a", ["e1", "e2"]) | {"content": ["list"]},
        {"content": "a", "merged": ["e1", "e2"]},
        "text", None, 5, [],
    ]  # fmt: skip
    for item in cases:
        found = read(item, merged("good", ["e1", "e2"]))
        assert [each.content for each in found.items] == ["good"], item
        assert found.dropped >= 1, item


def test_row_30_importance_is_clamped_or_not_said() -> None:
    odd: list[Any] = [None, "high", True, float("nan"), float("inf")]
    for importance, told in [
        (0.3, 0.3),
        (7, 1.0),
        (-1, 0.0),
        (10**400, 1.0),
        *((o, None) for o in odd),
    ]:
        (item,) = read(merged("a", ["e1", "e2"], importance=importance)).items
        assert item.importance == told, importance


def test_row_30_ten_thousand_items_cost_nothing() -> None:
    found = read(*(merged(f"item {n}", ["e1", "e2"]) for n in range(10_000)))
    assert len(found.items) == 1
    assert found.dropped >= 9_997


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5) | st.sampled_from(SHOWN),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["memories", "merged", "content", "type"]), inner)
    ),
    max_leaves=20,
)


@given(json_values)
def test_no_answer_breaks_the_reader(value: Any) -> None:
    for text in (json.dumps(value), json.dumps({"memories": value})):
        try:
            found = read_reply(text, GROUP)
        except UnusableAnswer:
            continue
        used = [each for item in found.items for each in names(item)]
        assert len(used) == len(set(used))
        assert set(used) <= set(SHOWN)
