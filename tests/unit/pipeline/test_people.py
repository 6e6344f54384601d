"""A contradiction needs one subject (B12); an update needs one statement (R2, row 28)."""

from __future__ import annotations

import pytest

from hitherto_extraction.pipeline.guards.subjects import speaks_of_another
from tests.unit.pipeline.situations import closed, known, new, planned


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Minh likes tea", "Lan does not like tea"),
        ("User lives in Lisbon", "User's sister lives in Berlin"),
        ("The user's brother works at Acme", "The user works at Globex"),
        ("User's mother is a doctor", "User's father is a teacher"),
        ("Người dùng sống ở Huế", "Chị gái của người dùng sống ở Hà Nội"),
        ("My wife is called Eva", "I am called Adam"),
    ],
)
def test_b12_two_people_do_not_contradict_each_other(one: str, other: str) -> None:
    assert speaks_of_another(one, other)
    assert speaks_of_another(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("User lives in Lisbon", "The user moved to Berlin"),
        ("Ana lives in Lisbon", "Ana lives in Berlin"),
        ("Ana lives in Lisbon", "The user lives in Berlin"),
        ("User's sister Anna lives in Rome", "Anna lives in Berlin"),
        ("User's sister lives in Rome", "User's sister moved to Berlin"),
        ("User's favourite colour is red", "The user likes blue"),
        ("The deadline is Friday", "The launch is on Monday"),
        ("Prefers tea", "User prefers coffee"),
        ("用户住在上海", "用户住在北京"),
        ("ユーザーは東京に住んでいます", "ユーザーは大阪に住んでいます"),
        ("Everything before this was wrong", "Ana likes tea"),
    ],
)
def test_b12_one_person_or_perhaps_one_may_be_contradicted(one: str, other: str) -> None:
    assert not speaks_of_another(one, other)
    assert not speaks_of_another(other, one)


def test_b12_what_another_person_does_closes_nothing() -> None:
    plan = planned(
        known(content="User lives in Lisbon"),
        new=[new(content="User's sister lives in Berlin")],
        contradicted=[closed()],
    )
    assert (plan.closures, plan.dropped) == ([], 1)
    assert plan.creations[0].status == "active"
