"""What a merge may not do to what its originals say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitherto_extraction.consolidation.faithfulness import objections

DOCUMENT_002 = [
    "I prefer casual tone",
    "I don't like formal language",
    "keep it conversational",
    "too stiff last time",
    "The user writes the way they talk",
]


def kinds(merged: str, *originals: str, type_: str = "fact") -> set[str]:
    return {each.partition(":")[0] for each in objections(merged, type_, originals)}


@pytest.mark.parametrize(
    "merged",
    [
        "The user prefers a casual, conversational tone and dislikes formal language.",
        "Prefers casual, conversational writing.",
        "Prefers a casual tone; does not like formal language.",
    ],
)
def test_document_002_a_clear_statement_is_let_through(merged: str) -> None:
    assert kinds(merged, *DOCUMENT_002, type_="preference") == set()


@pytest.mark.parametrize(
    ("merged", "originals", "kind"),
    [
        # No arithmetic, and no number of one's own.
        ("The user has 5 cats", ["The user has 2 cats", "The user has 3 cats"], "number"),
        ("User has two cats, Tom and Kim", ["User has a cat Tom", "User has a cat Kim"], "number"),
        ("The user runs at 7 am", ["The user runs early", "The user runs daily"], "number"),
        ("The user runs in May", ["The user runs early", "The user runs daily"], "number"),
        # No number of another thing.
        (
            "The user drinks 3 coffees and 2 teas",
            ["The user drinks 2 coffees and 3 teas", "Drinks two coffees and three teas a day"],
            "number",
        ),
        ("The user has one cat and two dogs",
         ["The user has two cats at home", "The user has one dog"], "number"),
        ("The user has 3 black cats and 2 black dogs",
         ["The user has 2 black cats", "The user has 3 black dogs"], "number"),
        ("The user travels from May 5 to June 3",
         ["The user travels from 3 May on", "The user travels to 5 June"], "number"),
        ("Ana's son is 7 and her daughter is 5",
         ["Ana's son is 5 and her daughter is 7", "Ana has a son and a daughter"], "number"),
        # No words in the place of others.
        ("The user swims 5 km and runs 3 km",
         ["The user runs 5 km and swims 3 km", "The user is a runner"], "exchanged"),
        ("Ana swims 5 km and runs 3 km",
         ["Ana runs 5 km", "Ana swims 3 km", "Ana runs"], "exchanged"),
        ("Ana takes 5 mg of syrup and 10 ml of aspirin",
         ["Ana takes 5 mg of aspirin", "Ana takes 10 ml of syrup"], "exchanged"),
        ("Tom plays tennis well and Ben plays chess badly",
         ["Tom plays chess well", "Ben plays tennis badly"], "exchanged"),
        ("Ana pays 20 EUR for rum and 9 EUR for tea",
         ["Ana pays 20 EUR for tea", "Ana pays 9 EUR for rum"], "exchanged"),
        ("Người dùng bơi 5 km và chạy 3 km",
         ["Người dùng chạy 5 km", "Người dùng bơi 3 km"], "exchanged"),
        ("Ana schwimmt 5 km und läuft 3 km",
         ["Ana läuft 5 km und schwimmt 3 km", "Ana läuft"], "exchanged"),
        ("用户每天游泳5公里，跑3公里", ["用户每天跑5公里", "用户每天游泳3公里"], "exchanged"),
        ("المستخدم يسبح 5 كم ويركض 3 كم",
         ["المستخدم يركض 5 كم", "المستخدم يسبح 3 كم"], "exchanged"),
        ("Tom plays tennis and Ben plays chess",
         ["Tom plays chess", "Ben plays tennis"], "exchanged"),
        ("Ana works with Tom and lives with Ben",
         ["Ana lives with Tom", "Ana works with Ben"], "exchanged"),
        ("Ana loopt 5 km en zwemt 3 km", ["Ana zwemt 5 km", "Ana loopt 3 km"], "exchanged"),
        ("In May Ana visited Rome and in June Paris",
         ["Ana visited Paris in May", "Ana visited Rome in June"], "exchanged"),
        # In doubt, the originals stay.
        ("Anna plays chess with Tom and tennis with Ben",
         ["Tom plays chess with Anna", "Ben plays tennis with Anna"], "exchanged"),
        # No name.
        ("The user works at Acme", ["The user works in sales", "The user works late"], "name"),
        # What was denied.
        ("Eats pasta and meat", ["Does not eat meat", "Loves pasta"], "affirmed"),
        ("Loves pasta", ["Does not eat meat", "Loves pasta"], "lost"),
        ("Does not eat pasta or meat", ["Does not eat meat", "Eats pasta"], "denied"),
        ("Likes long meetings", ["Dislikes long meetings", "Has many meetings"], "affirmed"),
        # Sides of a contrast.
        ("The user drinks tea", ["The user drinks tea", "The user drinks coffee"], "opposite"),
        ("The user runs in the evening",
         ["The user runs in the morning", "The user runs every morning"], "opposite"),
        ("Prefers formal mails", ["Prefers casual mails", "Prefers friendly mails"], "opposite"),
        # What has ended, is meant to be, or holds alone.
        ("The user works at a bank",
         ["The user no longer works at a bank", "The user worked at a bank"], "marker"),
        ("The user learns Rust", ["The user wants to learn Rust", "The user plans to learn Rust"],
         "marker"),
        ("The user only drinks tea", ["The user drinks tea", "The user drinks green tea"],
         "marker"),
        # Nothing in common: a reply that would replace everything by one sentence.
        ("The user is nice", ["Lives in a flat", "Works at night", "Plays chess", "Owns a bike"],
         "unrelated"),
        # Scripts without capitals.
        ("用户喜欢长回答", ["用户不喜欢长回答", "用户喜欢回答"], "lost"),
        ("用户不喜欢回答", ["用户喜欢回答", "用户喜欢短回答"], "denied"),
        ("小红住在上海工作很忙", ["用户喜欢短回答", "用户喜欢回答"], "wording"),
    ],
)  # fmt: skip
def test_harm_is_refused(merged: str, originals: list[str], kind: str) -> None:
    assert kind in kinds(merged, *originals)


@pytest.mark.parametrize(
    ("merged", "originals"),
    [
        ("Loves pasta and does not eat meat", ["Does not eat meat", "Loves pasta"]),
        ("The user drinks tea and coffee", ["The user drinks tea", "The user drinks coffee"]),
        ("The user has cats", ["The user has 2 cats", "The user has cats at home"]),
        ("Lives in Porto near Anna", ["Lives in Porto", "Lives near Anna in Porto"]),
        # A number counts one of the words after it.
        ("The user drinks 2 coffees and 3 teas every day",
         ["The user drinks 2 coffees every day", "The user drinks 3 teas a day"]),
        ("The user runs 5 km and swims 2 km on Mondays",
         ["The user runs 5 km on Mondays", "The user swims 2 km every Monday"]),
        ("Ana has 2 sons and 1 young daughter",
         ["Ana has 2 young sons", "Ana has 1 daughter who is young"]),
        ("Ana has 2 young sons and 1 daughter",
         ["Ana has 2 young sons", "Ana has 1 daughter who is young"]),
        ("The user runs 5 km and swims 2 km daily",
         ["The user runs 5 km daily", "The user swims 2 km every day"]),
        ("The user travels from May 3 to June 5",
         ["The user travels from 3 May on", "The user travels to 5 June"]),
        ("The user has kids aged 5 and 3",
         ["The user has kids aged 3 and 5", "The user has kids"]),
        # Clauses in another order keep their words.
        ("Each day Ana swims 3 km and runs 5 km in the park",
         ["Ana runs 5 km each day in the park", "Ana swims 3 km each day in the park"]),
        ("用户每天游泳3公里，跑5公里", ["用户每天跑5公里", "用户每天游泳3公里"]),
        ("المستخدم يسبح 3 كم ويركض 5 كم",
         ["المستخدم يركض 5 كم", "المستخدم يسبح 3 كم"]),
        ("Anna plays chess with Tom and tennis with Ben",
         ["Anna plays chess with Tom", "Anna plays tennis with Ben"]),
        ("In May Ana visited Paris and in June Rome",
         ["Ana visited Paris in May", "Ana visited Rome in June"]),
        ("The user wants to learn Rust and Go", ["Wants to learn Rust", "Plans to learn Go"]),
        ("用户喜欢短回答，不喜欢长回答", ["用户喜欢短回答", "用户不喜欢长回答"]),
        ("Người dùng thích trả lời ngắn gọn",
         ["Người dùng thích trả lời ngắn", "Người dùng không thích trả lời dài"]),
    ],
)  # fmt: skip
def test_a_faithful_merge_is_let_through(merged: str, originals: list[str]) -> None:
    assert kinds(merged, *originals) == set()


statements = st.lists(
    st.sampled_from(
        [
            "The user likes tea in the morning",
            "The user does not eat meat",
            "The user has 3 cats called Tom",
            "The user no longer works at Acme",
            "Người dùng thích cà phê",
            "用户不喜欢长回答",
            "The user wants to learn Rust 🦀",
        ]
    ),
    min_size=1,
    max_size=3,
    unique=True,
)


@given(statements)
def test_all_the_originals_one_after_another_are_always_faithful(originals: list[str]) -> None:
    assert objections(". ".join(originals), "goal", originals) == []


@given(st.text(max_size=80), st.lists(st.text(max_size=40), min_size=2, max_size=4))
def test_no_text_breaks_the_guards(merged: str, originals: list[str]) -> None:
    assert objections(merged, "fact", originals) == objections(merged, "fact", originals)
