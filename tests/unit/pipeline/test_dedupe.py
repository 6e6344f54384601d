"""Which known memory already says a new statement (B11, faults 34)."""

from __future__ import annotations

import itertools
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from hitherto_extraction.pipeline.dedupe import Neighbour, Reading, find_duplicate

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
_numbers = itertools.count(1)


def known(content: str = "User prefers short answers", **changes: Any) -> Neighbour:
    fields: dict[str, Any] = {
        "memory_id": UUID(int=next(_numbers)),
        "type": "preference",
        "content": content,
        "status": "active",
        "cosine": 0.9,
        "updated_at": NOON,
        **changes,
    }
    return Neighbour(**fields)


def found(content: str, *neighbours: Neighbour, threshold: float = 0.85) -> Neighbour | None:
    return find_duplicate("preference", content, neighbours, threshold)


def test_a_near_paraphrase_is_a_duplicate() -> None:
    neighbour = known(cosine=0.85)
    assert found("The user prefers brief answers.", neighbour) is neighbour


@pytest.mark.parametrize("cosine", [0.84, float("nan"), None, -1.0])
def test_a_paraphrase_needs_a_cosine_of_the_threshold(cosine: float | None) -> None:
    assert found("The user prefers brief answers.", known(cosine=cosine)) is None


@pytest.mark.parametrize("cosine", [None, float("nan"), 0.1])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("User prefers short answers", "user prefers short answers!"),
        ("User lives in Hà Nội", "User lives in Ha Noi"),
        ("用户喜欢咖啡", "用户喜欢咖啡。"),
    ],
)
def test_the_same_words_need_no_vector(cosine: float | None, old: str, new: str) -> None:
    neighbour = known(old, cosine=cosine)
    assert found(new, neighbour) is neighbour


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("User has 2 kids", "User has 3 kids"),
        ("Lan likes coffee", "Minh likes coffee"),
        ("User likes jazz", "User does not like jazz"),
        ("User codes in C++", "User codes in C#"),
        ("Người dùng thích cá", "Người dùng thích cà"),
        ("The discount is 20%", "The discount is 20"),
    ],
)
def test_no_cosine_is_high_enough_for_another_statement(old: str, new: str) -> None:
    assert found(new, known(old, cosine=1.0)) is None


def test_memories_of_another_type_are_no_candidates() -> None:
    assert found("User prefers short answers", known(type="fact")) is None


@pytest.mark.parametrize("status", ["active", "achieved", "forgotten", "quarantined"])
def test_current_forgotten_and_quarantined_memories_are_candidates(status: str) -> None:
    neighbour = known(status=status)
    assert found("User prefers short answers", neighbour) is neighbour


@pytest.mark.parametrize("status", ["superseded", "contradicted", "archived"])
def test_other_statuses_are_no_candidates(status: str) -> None:
    assert found("User prefers short answers", known(status=status)) is None


def test_the_best_candidate_wins_in_any_order() -> None:
    forgotten = known(status="forgotten", cosine=0.99)
    far = known("User prefers concise answers", cosine=0.86)
    near = known("User prefers brief answers", cosine=0.95)
    exact = known(cosine=None)
    waiting = known(status="quarantined", cosine=0.97)
    assert found("User prefers short answers", forgotten, waiting) is waiting
    for order in itertools.permutations([forgotten, far, near, waiting]):
        assert found("User prefers short answers", *order) is near
    for order in itertools.permutations([forgotten, far, near, exact]):
        assert found("User prefers short answers", *order) is exact


def test_equal_candidates_are_told_apart_by_the_latest_change() -> None:
    old, new = known(), known(updated_at=NOON + timedelta(days=1))
    assert found("User prefers short answers", old, new) is new
    assert found("User prefers short answers", new, old) is new


def test_without_neighbours_nothing_is_known() -> None:
    assert found("User prefers short answers") is None


@pytest.mark.parametrize("count", [100, 3000])
@pytest.mark.parametrize(
    ("twin", "again", "frame"),
    [
        ("The user is allergic to peanuts", "The user has a peanut allergy",
         "The user is allergic to thing{n}"),
        ("The user prefers short answers", "The user prefers brief answers",
         "The user prefers thing{n} answers"),
        ("Người dùng thích ăn phở bò", "Người dùng rất thích phở bò",
         "Người dùng thích ăn phở thing{n}"),
        ("用户对花生过敏", "用户对花生很过敏", "用户对坚果{n}过敏"),
    ],
)  # fmt: skip
def test_a_twin_is_found_among_very_many_that_are_as_near(
    twin: str, again: str, frame: str, count: int
) -> None:
    """Equal vectors: words alone say which of them to read, wherever the twin stands."""
    others = [known(frame.format(n=n), cosine=1.0) for n in range(count)]
    neighbour = known(twin, cosine=1.0)
    for place in (0, count // 2, count):
        assert found(again, *others[:place], neighbour, *others[place:]) is neighbour
    assert found(again, *others) is None


def test_what_is_not_read_any_more_is_no_duplicate_unless_the_words_are_the_same() -> None:
    near, same = known(cosine=0.99), known(cosine=0.9)
    words = "The user prefers brief answers."
    reading = Reading(left=80)

    def judged(*neighbours: Neighbour) -> Neighbour | None:
        return find_duplicate("preference", words, neighbours, 0.85, reading)

    assert judged(near) is near
    assert judged(near) is None, "the second one is beyond what may be read"
    assert judged(near, known(words.upper())) is not None
    assert found(words, same) is same, "a statement of its own is read"


def test_row_30_a_reply_of_long_statements_near_each_other_is_judged_in_time() -> None:
    """The commit that asks for it ends after 30 seconds, and would be repeated."""
    text = "The user keeps a garden with {} roses. " + "It is watered in the evening. " * 260
    statements = [text.format(number) for number in range(200)]
    reading = Reading()
    began = time.thread_time()
    for number, statement in enumerate(statements):
        neighbours = [known(other, cosine=0.99) for other in statements[:number]]
        assert find_duplicate("preference", statement, neighbours, 0.85, reading) is None
    assert time.thread_time() - began < 20
