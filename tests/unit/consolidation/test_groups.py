"""Which memories are put before the model together (C1: never across subjects)."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitherto_extraction.consolidation.groups import (
    MAX_ORIGINALS,
    fingerprint,
    mark_of,
    plan_groups,
    subject_of,
)
from hitherto_extraction.storage.consolidation import Member
from tests.unit.consolidation.rows import member

USER = ("user",)


def shown(
    members: list[Member], *, names: tuple[str, ...] = (), taken: frozenset[UUID] = frozenset()
) -> list[list[int]]:
    found = plan_groups(members, taken=taken, names=names)
    return [[each.memory_id.int for each in group.members] for group in found]


@pytest.mark.parametrize(
    ("content", "type_"),
    [
        ("I prefer casual tone", "preference"),
        ("I don't like formal language", "preference"),
        ("keep it conversational", "preference"),
        ("too stiff last time", "feedback"),
        ("The user lives in Porto", "fact"),
        ("Prefers short answers", "preference"),
        ("Answers should be short", "preference"),
        ("Short answers are preferred", "preference"),
        ("User's tone is casual", "preference"),
        ("Người dùng thích trả lời ngắn", "preference"),
        ("用户喜欢简短的回答", "preference"),
        ("ユーザーは短い回答を好む", "preference"),
    ],
)
def test_what_is_about_the_user(content: str, type_: str) -> None:
    assert subject_of(content, type_) == USER


@pytest.mark.parametrize(
    ("content", "type_"),
    [
        ("Lan likes coffee", "fact"),
        ("Anna prefers short answers", "preference"),
        ("The user's sister lives in Berlin", "fact"),
        ("Mother has 2 cats", "fact"),
        ("Em gái của người dùng sống ở Huế", "fact"),
        ("小明喜欢咖啡", "fact"),
        ("Caroline's kids", "fact"),
    ],
)
def test_what_is_about_somebody_else(content: str, type_: str) -> None:
    assert subject_of(content, type_) != USER


def test_a_user_is_also_who_has_their_name() -> None:
    assert subject_of("Lan likes coffee", "fact", ["Lan Nguyễn"]) == USER
    assert subject_of("Minh likes coffee", "fact", ["Lan Nguyễn"]) != USER


def test_memories_of_one_subject_are_a_group_and_a_single_one_is_none() -> None:
    members = [
        member(1, "The user likes tea", type="fact"),
        member(2, "Lan likes tea", type="fact"),
        member(3, "The user likes green tea", type="fact"),
        member(4, "Minh likes tea", type="fact"),
        member(5, "Lan likes green tea", type="fact"),
    ]
    assert shown(members) == [[1, 3], [2, 5]]


def test_types_with_rules_of_their_own_stay_among_themselves() -> None:
    """A merge makes no decision fade and no personal detail common."""
    types = ["preference", "feedback", "fact", "decision", "context", "context", "personal"]
    members = [member(n, "The user likes tea", type=type_) for n, type_ in enumerate(types, 1)]
    assert shown(members) == [[1, 2, 3], [5, 6]]


def test_row_67_a_group_has_one_origin() -> None:
    origins = ["user", "assistant", "operator", "tool", "assistant", "user"]
    members = [member(n, "The user likes tea", origin=each) for n, each in enumerate(origins, 1)]
    assert shown(members) == [[1, 6], [2, 5]]


def test_at_most_20_a_call_the_oldest_first_and_nobody_twice() -> None:
    members = [member(n, "The user likes tea") for n in range(1, 43)]
    groups = shown(members, taken=frozenset([UUID(int=1)]))
    assert [len(group) for group in groups] == [MAX_ORIGINALS, MAX_ORIGINALS]
    assert groups[0][0] == 2


@given(st.permutations(range(8)))
def test_a_fingerprint_is_of_the_set(order: list[int]) -> None:
    pairs = [(UUID(int=n), f"content {n}") for n in order]
    assert fingerprint(pairs) == fingerprint(sorted(pairs))
    assert fingerprint(pairs) != fingerprint(pairs[1:])
    changed = [(pairs[0][0], "other"), *pairs[1:]]
    assert fingerprint(pairs) != fingerprint(changed)


def test_a_mark_counts_the_memories_of_its_tag_only() -> None:
    members = [member(1, "a", tags=["x"]), member(2, "b", tags=["x", "y"]), member(3, "c", tags=[])]
    assert mark_of("x", members).members == 2
    assert mark_of("y", members).members == 1
