"""What a known memory becomes when it is said again (B11, contract "Identity" and "Trust")."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any

import pytest

from hitherto_extraction.pipeline.answer import MAX_LABELS
from hitherto_extraction.pipeline.merge import (
    MemoryUpdate,
    MergeableMemory,
    merge_update,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
EARLIER, LATER = NOON - timedelta(days=1), NOON + timedelta(days=1)


def known(**changes: Any) -> MergeableMemory:
    fields: dict[str, Any] = {
        "content": "User prefers short answers",
        "importance": 0.5,
        "confidence": "medium",
        "origin": "user",
        "said_at": NOON,
        "tags": ("style",),
        **changes,
    }
    return MergeableMemory(**fields)


def again(**changes: Any) -> MergeableMemory:
    fields: dict[str, Any] = {
        "content": "User prefers brief answers",
        "importance": 0.5,
        "confidence": "medium",
        "origin": "user",
        "said_at": LATER,
        **changes,
    }
    return MergeableMemory(**fields)


def merged(old: MergeableMemory, new: MergeableMemory) -> MemoryUpdate:
    return merge_update(old, new)


def test_newer_words_win() -> None:
    update = merged(known(), again())
    assert update.after.content == "User prefers brief answers"
    assert update.changed == ("content",)
    assert update.changed
    assert update.after.said_at == LATER


@pytest.mark.parametrize("said_at", [EARLIER, NOON])
def test_evidence_that_is_not_newer_only_adds_its_source(said_at: datetime) -> None:
    update = merged(known(), again(said_at=said_at))
    assert update.after.content == "User prefers short answers"
    assert not update.changed
    assert update.after.said_at == NOON


def test_the_newest_words_win_in_any_order_of_arrival() -> None:
    words = {NOON: "short answers", EARLIER: "brief answers", LATER: "concise answers"}
    for order in permutations(words):
        first, *rest = order
        memory = known(content=words[first], said_at=first)
        for said_at in rest:
            update = (
                merged(memory, again(content=words[said_at], said_at=said_at))
                if said_at > memory.said_at
                else None
            )
            if update:
                memory = known(content=update.after.content, said_at=update.after.said_at)
        assert memory.content == "concise answers"


def test_a_full_stop_makes_no_version() -> None:
    update = merged(known(), again(content="user prefers short answers."))
    assert update.after.content == "User prefers short answers"
    assert not update.changed


def test_the_same_again_changes_nothing_at_all() -> None:
    same = again(content="User prefers short answers", said_at=NOON, tags=("style",))
    assert not merged(known(), same).changed


def test_saying_it_again_later_renews_the_age_of_the_evidence() -> None:
    update = merged(known(), again(content="User prefers short answers"))
    assert (update.after.said_at, update.changed) == (LATER, ())


def test_repetition_never_weakens() -> None:
    update = merged(
        known(importance=0.8, confidence="medium"),
        again(importance=0.3, confidence="high", said_at=EARLIER),
    )
    assert (update.after.importance, update.after.confidence) == (0.8, "high")
    assert update.changed == ("confidence",)
    # Later words win, but what was known for sure stays so.
    for said_at in (EARLIER, NOON, LATER):
        update = merged(
            known(importance=0.8, confidence="high"),
            again(importance=0.3, confidence="low", said_at=said_at),
        )
        assert (update.after.importance, update.after.confidence) == (0.8, "high")


def test_labels_unite_in_the_old_order_and_spelling() -> None:
    update = merged(
        known(tags=("style", "answers"), keywords=("Short",)),
        again(tags=("tone", "style"), keywords=("short", "brief")),
    )
    assert update.after.tags == ("style", "answers", "tone")
    assert update.after.keywords == ("Short", "brief")
    assert update.changed == ("content", "tags", "keywords")


def test_labels_are_bounded_and_the_old_ones_stay() -> None:
    old = tuple(f"t{number}" for number in range(MAX_LABELS - 1))
    update = merged(known(tags=old), again(tags=("new_a", "new_b")))
    assert update.after.tags == (*old, "new_a")


def test_detail_is_kept_where_the_newer_statement_has_none() -> None:
    assert merged(known(detail="long"), again()).after.detail == "long"
    assert merged(known(detail="long"), again(detail="longer")).after.detail == "longer"
    assert merged(known(), again(detail="first", said_at=EARLIER)).after.detail == "first"


@pytest.mark.parametrize("origin", ["assistant", "tool", "document"])
def test_lower_trust_only_adds_its_source_to_higher(origin: str) -> None:
    louder = again(origin=origin, importance=1.0, confidence="high", tags=("admin",))
    update = merged(known(), louder)
    assert not update.changed
    assert (update.after.content, update.after.importance) == ("User prefers short answers", 0.5)
    assert (update.after.origin, update.after.tags, update.after.said_at) == (
        "user",
        ("style",),
        NOON,
    )


@pytest.mark.parametrize("said_at", [EARLIER, LATER])
def test_higher_trust_takes_lower_over_entirely(said_at: datetime) -> None:
    claimed = known(origin="assistant", importance=1.0, confidence="high", detail="claimed")
    update = merged(claimed, again(said_at=said_at, tags=("tone",)))
    assert (update.after.content, update.after.importance) == ("User prefers brief answers", 0.5)
    assert (update.after.confidence, update.after.origin, update.after.detail) == (
        "medium",
        "user",
        "",
    )
    assert (update.after.tags, update.after.said_at) == (("tone",), said_at)
    assert "origin" in update.changed
