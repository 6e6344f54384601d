"""New statements against each other and against existing memories."""

from __future__ import annotations

import pytest

from tests.unit.offline_extractor.talk import answer, contents, profile_of, user


@pytest.mark.parametrize(
    ("old", "said"),
    [
        ("User lives in Lisbon.", "I just moved to Ghent!"),
        ("The user is living in Lisbon, Portugal.", "I live in Ghent now"),
        ("The user currently resides in Lisbon", "We relocated to Ghent last month"),
        ("User moved to Lisbon and lives in Lisbon (2025).", "I'm based in Ghent these days"),
        ("Người dùng sống ở Hà Nội.", "Mình mới chuyển vào Huế tuần trước"),
        ("User lives in Hanoi", "Tôi đang sống ở Huế"),
        ("User's name is Ana.", "My name is Inês."),
        ("User works at Siemens.", "I work at Maersk"),
        ("User works as a nurse.", "I'm a teacher"),
        ("User's favourite band is Blur.", "My favorite band is Pulp"),
        ("User loves coffee.", "I don't like coffee anymore"),
        ("Người dùng thích cà phê.", "Tôi không thích cà phê nữa"),
        ("User prefers detailed answers.", "Please keep your answers short."),
        ("User is vegetarian.", "I'm vegan"),
    ],
)
async def test_another_value_contradicts_and_leaves_the_rest_alone(old: str, said: str) -> None:
    found = await answer(
        user(said), known=[("fact", "User's brother lives in Lisbon."), ("fact", old)]
    )
    (contradiction,) = found["contradicted_memories"]
    assert contradiction["id"] == "e2"
    assert contradiction["by"] == 0
    assert contradiction["reason"]
    assert contradiction["source_message_ids"] == ["m1"]


@pytest.mark.parametrize(
    ("old", "said"),
    [
        ("User lives in Lisbon.", "I live in Lisbon"),
        ("The user is living in Lisbon, Portugal.", "I'm based in Lisbon."),
        ("User lives in Hanoi", "Tôi sống ở Hà Nội"),
        ("User's name is Ana.", "My name is Ana"),
        ("User's goal is to run a marathon.", "My goal is to run a marathon"),
    ],
)
async def test_what_is_known_is_not_learnt_again(old: str, said: str) -> None:
    found = await answer(user(said), known=[("fact", old)])
    assert found["new_memories"] == []
    assert found["contradicted_memories"] == []


async def test_a_restated_preference_confirms_the_known_one() -> None:
    found = await answer(user("I love figs"), known=[("preference", "User likes figs.")])
    assert found["new_memories"] == []
    assert found["updated_memories"] == [
        {
            "id": "e1",
            "content": "User likes figs.",
            "source_message_ids": ["m1"],
            "quote": "I love figs",
        }
    ]


async def test_a_denial_ends_the_old_memory_without_a_new_one() -> None:
    found = await answer(user("I don't live in Graz."), known=[("fact", "User lives in Graz.")])
    assert found["new_memories"] == []
    assert [(item["id"], item["by"]) for item in found["contradicted_memories"]] == [("e1", None)]


async def test_a_denial_of_something_else_changes_nothing() -> None:
    found = await answer(user("I don't live in Graz."), known=[("fact", "User lives in Linz.")])
    assert found["contradicted_memories"] == []


@pytest.mark.parametrize(
    ("said", "old"),
    [
        ("I no longer work at Siemens.", "User works at Siemens."),
        ("Em không còn sống ở Huế nữa", "Người dùng sống ở Huế."),
    ],
)
async def test_what_is_no_longer_so_ends_the_old_memory(said: str, old: str) -> None:
    found = await answer(user(said), known=[("fact", old)])
    assert found["new_memories"] == []
    assert [(item["id"], item["by"]) for item in found["contradicted_memories"]] == [("e1", None)]


async def test_the_later_of_two_statements_counts() -> None:
    found = await answer(user("I live in Lisbon."), user("I just moved to Ghent!"))
    assert contents(found) == ["User moved to Ghent and lives in Ghent."]
    assert found["new_memories"][0]["source_message_ids"] == ["m2"]
    assert profile_of(found) == {"facts.personal.location": "Ghent"}


async def test_one_thing_said_twice_is_one_memory() -> None:
    found = await answer(user("I like figs"), user("I love figs"))
    assert len(found["new_memories"]) == 1
    assert found["new_memories"][0]["source_message_ids"] == ["m1", "m2"]


@pytest.mark.parametrize(
    ("goal", "said"),
    [
        ("User wants to run a marathon in spring.", "I finally ran the marathon yesterday!"),
        ("User wants to pass the driving test.", "I passed my driving test"),
        ("User is planning to move to Tallinn.", "I moved to Tallinn"),
        ("Người dùng muốn thi đậu JLPT N2.", "Hôm qua em đã đậu kỳ thi JLPT N2 rồi"),
        (
            "Mục tiêu của người dùng là hoàn thành luận văn.",
            "Cuối cùng mình cũng hoàn thành luận văn",
        ),
    ],
)
async def test_a_reached_goal_is_found_and_told(goal: str, said: str) -> None:
    found = await answer(
        user(said), known=[("goal", "User wants to learn Basque."), ("goal", goal)]
    )
    assert [(item["id"], item["by"]) for item in found["achieved_goals"]] == [("e2", 0)]
    assert found["new_memories"][0]["type"] in {"fact", "learning"}
    assert "tags" in found["new_memories"][0]


async def test_an_achievement_without_a_goal_achieves_none() -> None:
    found = await answer(
        user("I passed my driving test"), known=[("goal", "User wants to learn Basque.")]
    )
    assert found["achieved_goals"] == []
    assert len(found["new_memories"]) == 1


async def test_small_deeds_matter_only_for_a_goal() -> None:
    assert contents(await answer(user("I bought a camper van"))) == []
    found = await answer(
        user("I bought a camper van"), known=[("goal", "User is saving up for a camper van.")]
    )
    assert found["achieved_goals"][0]["id"] == "e1"


async def test_names_in_existing_memories_are_recognised() -> None:
    found = await answer(
        user("I live in Utrecht", name="Caroline"),
        known=[("fact", "Caroline lives in Ghent."), ("fact", "Melanie lives in Ghent.")],
    )
    assert [item["id"] for item in found["contradicted_memories"]] == ["e1"]
