"""Which known memory already says a new statement (B11; faults.md rows 34 and 75)."""

from __future__ import annotations

import itertools
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from hitherto_extraction.pipeline.dedupe import Neighbour, find_duplicate, find_forgotten

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
_numbers = itertools.count(1)


def known(content: str = "User prefers short answers", **changes: Any) -> Neighbour:
    fields: dict[str, Any] = {
        "memory_id": UUID(int=next(_numbers)), "type": "preference", "content": content,
        "status": "active", "cosine": 0.9, "updated_at": NOON, **changes,
    }  # fmt: skip
    return Neighbour(**fields)


def found(content: str, *neighbours: Neighbour) -> Neighbour | None:
    return find_duplicate("preference", content, neighbours)


def test_equal_words_are_the_same_whatever_the_vectors() -> None:
    cases: list[float | None] = [None, float("nan"), 0.1, 0.99]
    others: list[tuple[str, str]] = [
        ("User prefers short answers", "user  prefers short answers!"),
        ("User lives in Hà Nội", "User lives in Ha Noi"),
        ("Linh bi di ung tom.", "Linh bị dị ứng tôm"),
        ("用户喜欢咖啡", "用户喜欢咖啡。"),
        ("ラテが好き", "ﾗﾃが好き"),
        ("Ana likes “jazz”", "Ana likes jazz"),
        ("Ana codes in C++", "`ana` codes in c++."),
    ]
    for cosine in cases:
        for old, new in others:
            neighbour = known(old, cosine=cosine)
            assert found(new, neighbour) is neighbour, (cosine, old)


def test_row_75_no_vector_joins_other_words() -> None:
    for old, new in [
        ("The user is allergic to peanuts", "The user is allergic to cashews"),
        ("Lan mistrusts Huy", "Huy mistrusts Lan"),
        ("User has 2 kids", "User has 3 kids"),
        ("User likes jazz", "User does not like jazz"),
        ("User codes in C++", "User codes in C#"),
        ("Người dùng thích cá", "Người dùng thích cà"),
        ("The discount is 20%", "The discount is 20"),
        ("It is -5 degrees", "It is 5 degrees"),
        ("Lan's floor is #4", "Lan's floor is 4"),
        # The same in other words: the program joins neither kind.
        ("Ana lives in Berlin", "Ana lives in Berlin now"),
        ("コーヒーが好きです", "コーヒーを好む"),
        ("User prefers short answers", "The user prefers brief answers"),
    ]:
        assert found(new, known(old, cosine=1.0)) is None


def test_equal_words_join_across_types_unless_one_is_sensitive() -> None:
    for other, old, new, joins in [
        ("fact", False, False, True),
        ("fact", True, False, False),
        ("personal", False, True, False),
        ("preference", True, True, True),
    ]:
        neighbour = known(type="preference", sensitive=old)
        found_one = find_duplicate(other, neighbour.content, [neighbour], sensitive=new)
        assert (found_one is neighbour) == joins, (other, old, new)


def test_current_forgotten_and_quarantined_memories_are_candidates() -> None:
    for status in ["active", "achieved", "forgotten", "quarantined"]:
        neighbour = known(status=status)
        assert found("User prefers short answers", neighbour) is neighbour, status


def test_other_statuses_are_no_candidates() -> None:
    for status in ["superseded", "contradicted", "archived"]:
        assert found("User prefers short answers", known(status=status)) is None


def test_the_best_candidate_wins_in_any_order() -> None:
    forgotten, waiting = known(status="forgotten"), known(status="quarantined")
    other_type, same_type = known(type="fact"), known()
    assert found("User prefers short answers", forgotten, waiting) is waiting
    for order in itertools.permutations([forgotten, waiting, other_type]):
        assert found("User prefers short answers", *order) is other_type
    for order in itertools.permutations([forgotten, waiting, other_type, same_type]):
        assert found("User prefers short answers", *order) is same_type


def test_equal_candidates_are_told_apart_by_the_latest_change() -> None:
    old, new = known(), known(updated_at=NOON + timedelta(days=1))
    assert found("User prefers short answers", old, new) is new
    assert found("User prefers short answers", new, old) is new


def test_row_34_what_was_forgotten_is_recognised_by_its_vector() -> None:
    near, far = known(status="forgotten", cosine=0.9), known(status="forgotten", cosine=0.86)
    current, nothing = known(cosine=0.99), known(status="forgotten", cosine=float("nan"))
    assert find_forgotten([far, current, near, nothing], 0.85) is near
    assert find_forgotten([far, current, nothing], 0.87) is None
    assert find_forgotten([known(status="forgotten", cosine=None)], 0.1) is None


def test_row_30_a_reply_of_long_statements_is_judged_in_time() -> None:
    """The commit that asks for it has an end, and would be repeated."""
    for words in ["It is watered in the evening. ", "夜に水をやっています。"]:
        statements = [
            f"{number}: {words * (7_000 // len(words.encode()))}" for number in range(200)
        ]
        began = time.thread_time()
        for number, statement in enumerate(statements):
            assert found(statement, *(known(other) for other in statements[:number])) is None, words
        assert time.thread_time() - began < 4, words
