"""What shows that a known goal was reached, and what does not."""

from __future__ import annotations

import pytest

from tests.unit.offline_extractor.talk import answer, contents, user


@pytest.mark.parametrize(
    ("goal", "said"),
    [
        (
            "User wants to swim 2 km in open water.",
            "We did it! I swam 2 km in open water, in June.",
        ),
        ("User wants to drive the coast road to Bergen.", "We drove the coast road to Bergen!"),
        ("User wants to bake a panettone.", "I finally baked a panettone that stands upright."),
        ("User wants to save 3,000 euros by May.", "I saved 3,000 euros in April."),
        ("Người dùng muốn bơi 2 km ở biển.", "Sáng nay mình đã bơi 2 km ở biển luôn."),
        ("Người dùng muốn viết một cuốn tiểu thuyết.", "Hôm qua tớ đã viết xong cuốn tiểu thuyết."),
        ("Người dùng muốn leo núi Bà Đen.", "Cuối cùng mình cũng đã leo núi Bà Đen rồi!"),
    ],
)
async def test_a_deed_reaches_a_goal(goal: str, said: str) -> None:
    found = await answer(
        user(said), known=[("goal", "User wants to learn Basque."), ("goal", goal)]
    )
    assert [(item["id"], item["by"]) for item in found["achieved_goals"]] == [("e2", 0)]
    assert len(found["new_memories"]) == 1


@pytest.mark.parametrize(
    ("goal", "said"),
    [
        # Part of the way, in the same unit.
        ("User wants to swim 2 km in open water.", "I swam 1 km in open water this morning."),
        ("Người dùng muốn bơi 2 km ở biển.", "Sáng nay mình đã bơi 1 km ở biển."),
        # Another matter.
        ("User wants to swim 2 km in open water.", "I did it! The gutter is clean."),
        ("User wants to swim 2 km in open water.", "I achieved my goal and slept like a stone."),
        ("User wants to bake a panettone.", "I baked the tiles of the old oven by mistake."),
        # A question, and somebody else's deed.
        ("User wants to bake a panettone.", "I did it! Shall we bake a panettone next?"),
        ("User wants to bake a panettone.", "My brother baked a panettone."),
        ("Người dùng muốn leo núi Bà Đen.", "Mai mình leo núi Bà Đen."),
    ],
)
async def test_what_only_looks_like_it_reaches_nothing(goal: str, said: str) -> None:
    found = await answer(user(said), known=[("goal", goal)])
    assert found["achieved_goals"] == []


async def test_a_wish_about_one_answer_is_no_preference_but_repeats_one() -> None:
    wish = "I'd like a short answer, please, I am in a hurry."
    assert contents(await answer(user(wish))) == []
    known = [("preference", "User prefers brief answers.")]
    found = await answer(user(wish), known=known)
    assert found["new_memories"] == []
    assert [item["id"] for item in found["updated_memories"]] == ["e1"]
    opposite = await answer(user("I'd like a detailed answer this time"), known=known)
    assert opposite["contradicted_memories"] == []


@pytest.mark.parametrize(
    ("said", "content"),
    [
        (
            "I'm allergic to lupins and most of those rolls hold them.",
            "User is allergic to lupins.",
        ),
        ("My aunt lives in Turku and she sails a lot.", "User's aunt lives in Turku."),
        ("My goal is to learn the oboe, which is hard.", "User's goal is to learn the oboe."),
        ("I have a problem with our Jenkins job.", "User has a problem with their Jenkins job."),
        (
            "Giờ tôi mới biết là pip có bộ nhớ đệm.",
            "Người dùng đã học được rằng pip có bộ nhớ đệm.",
        ),
        (
            "Vậy mình quyết định dùng SQLite cho bản thử.",
            "Người dùng quyết định dùng SQLite cho bản thử.",
        ),
    ],
)
async def test_a_memory_ends_where_its_clause_does(said: str, content: str) -> None:
    assert contents(await answer(user(said))) == [content]


async def test_vietnamese_without_accents_gives_a_summary_in_vietnamese() -> None:
    found = await answer(user("minh dang go khong dau nhe, minh hoi ve Docker voi"))
    assert found["new_memories"] == []
    assert found["conversation_summary"]["summary"].startswith("Người dùng viết:")
