"""What a known memory becomes when it is said again (B11, contract "Identity" and "Trust")."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hitherto_extraction.pipeline.answer import MAX_LABELS
from hitherto_extraction.pipeline.merge import MergeableMemory, merge_update

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
EARLIER, LATER = NOON - timedelta(days=1), NOON + timedelta(days=1)


def known(**changes: Any) -> MergeableMemory:
    fields: dict[str, Any] = {
        "content": "User prefers short answers", "importance": 0.5, "confidence": "medium",
        "origin": "user", "said_at": NOON, "tags": ("style",), **changes,
    }  # fmt: skip
    return MergeableMemory(**fields)


def again(**changes: Any) -> MergeableMemory:
    said: dict[str, Any] = {"content": "user prefers short answers!", "said_at": LATER, "tags": ()}
    return known(**said | changes)


def test_repetition_never_weakens() -> None:
    update = merge_update(
        known(importance=0.8, confidence="medium"),
        again(importance=0.3, confidence="high", said_at=EARLIER),
    )
    assert (update.after.importance, update.after.confidence) == (0.8, "high")
    assert update.changed == ("confidence",)
    # Later words win, but what was known for sure stays so.
    for said_at in (EARLIER, NOON, LATER):
        update = merge_update(
            known(importance=0.8, confidence="high"),
            again(importance=0.3, confidence="low", said_at=said_at),
        )
        assert (update.after.importance, update.after.confidence) == (0.8, "high")


def test_labels_unite_in_the_old_order_and_spelling() -> None:
    update = merge_update(
        known(tags=("style", "answers"), keywords=("Short",)),
        again(tags=("tone", "style"), keywords=("short", "brief")),
    )
    assert update.after.tags == ("style", "answers", "tone")
    assert (update.after.keywords, update.changed) == (("Short", "brief"), ("tags", "keywords"))


def test_labels_are_bounded_and_the_old_ones_stay() -> None:
    old = tuple(f"t{number}" for number in range(MAX_LABELS - 1))
    update = merge_update(known(tags=old), again(tags=("new_a", "new_b")))
    assert update.after.tags == (*old, "new_a")


def test_a_detail_stays_and_is_taken_where_there_is_none() -> None:
    assert merge_update(known(detail="long"), again()).after.detail == "long"
    assert merge_update(known(detail="long"), again(detail="longer")).after.detail == "long"
    assert merge_update(known(), again(detail="first", said_at=EARLIER)).after.detail == "first"


def test_higher_trust_takes_lower_over_entirely() -> None:
    for said_at in [EARLIER, LATER]:
        claimed = known(origin="assistant", importance=1.0, confidence="high", detail="claimed")
        update = merge_update(claimed, again(said_at=said_at, tags=("tone",)))
        assert update.after == again(said_at=said_at, tags=("tone",))
        assert "origin" in update.changed, said_at
