"""What an update may add to a memory, and what makes it another statement (faults 71)."""

from __future__ import annotations

import pytest

from hitherto_extraction.pipeline.guards.refinement import Refinement, refinement
from hitherto_extraction.pipeline.guards.support import JoinedWords, TextWords

KEEPS = "The user keeps a sundial"


def refined(old: str, new: str, *messages: str) -> Refinement:
    return refinement(old, new, JoinedWords(map(TextWords, messages)))


TRUE = [
    ("Ana lives in Lisbon", "Ana lives in Alfama, Lisbon", "I live in Alfama now, still Lisbon"),
    (
        "The user plays the cello",
        "The user plays the cello in a string quartet",
        "I play in a string quartet these days",
    ),
    (
        "The user likes coffee",
        "The user enjoys strong black coffee in the morning",
        "I love strong black coffee in the mornings",
    ),
    (
        "User is learning Python",
        "User has been learning Python for three months, focusing on pandas",
        "It has been 3 months. I focus on pandas.",
    ),
    ("Ana takes zolpidem", "Ana takes zolpidem 10 mg", "It is ten milligrams"),
    (
        "The user works at Acme as an engineer",
        "The user works as a senior engineer at Acme in Hanoi",
        "I'm a senior engineer in Hanoi",
    ),
    ("The user's cat is ill", "The user's cat Milo is ill", "Milo is my cat"),
    (
        "Lan has a daughter",
        "Lan has a daughter named Mai, born in 2019",
        "My daughter Mai was born in 2019",
    ),
    (
        "Ana has a peanut allergy",
        "Ana has a severe peanut allergy and carries an EpiPen",
        "My allergy is severe, so I carry an EpiPen. No, I have never had to use it.",
    ),
    ("Ana plays the cello", "Ana plays the cello 🎻 in Porto", "I play in Porto"),
    (
        "Người dùng thích cà phê",
        "Người dùng thích cà phê đen vào buổi sáng",
        "Tôi uống cà phê đen mỗi buổi sáng",
    ),
    (
        "Người dùng sống ở Hà Nội",
        "Người dùng sống ở quận Ba Đình, Hà Nội",
        "nha toi o quan Ba Dinh",
    ),
    ("用户喜欢喝茶", "用户喜欢在早上喝绿茶", "我早上都喝绿茶"),
    ("用户有一只猫", "用户有一只名叫咪咪的猫", "我的猫名叫咪咪"),
    (
        "ユーザーは京都に住んでいる",
        "ユーザーは京都の左京区に住んでいる",
        "京都の左京区に住んでいます",
    ),
    ("사용자는 커피를 마신다", "사용자는 아침에 커피를 마신다", "아침에 커피 마셔요"),
    ("المستخدم يشرب الشاي", "المستخدم يشرب الشاي الأخضر كل صباح", "أشرب الشاي الأخضر كل صباح"),
    ("يعمل المستخدم مهندسا", "يعمل المستخدم مهندسا في شركة أرامكو", "أنا أعمل في شركة أرامكو"),
    (
        "المستخدم يركض 5 كم ويسبح 3 كم",
        "المستخدم يركض 5 كم ويسبح 3 كم كل صباح",
        "أركض وأسبح كل صباح",
    ),
    ("用户跑5公里，游泳3公里", "用户每天跑5公里，游泳3公里", "我每天都跑步游泳"),
    ("Пользователь пьёт чай", "Пользователь пьёт зелёный чай", "я люблю зелёные чаи"),
    ("El usuario vive en Madrid", "El usuario vive en Lavapiés, Madrid", "vivo en Lavapiés"),
]


@pytest.mark.parametrize(("old", "new", "said"), TRUE)
def test_what_the_user_said_more_exactly_is_taken(old: str, new: str, said: str) -> None:
    assert refined(old, new, said).objections == ()


@pytest.mark.parametrize(("old", "new", "said"), TRUE)
def test_row_71_nothing_is_added_that_nobody_said(old: str, new: str, said: str) -> None:
    found = refined(old, new, "hello there", "你好", "مرحبا")
    assert found.objections
    assert all(each.startswith("unsupported: ") for each in found.objections)
    assert not found.supported


@pytest.mark.parametrize(
    ("kind", "old", "new", "said"),
    [
        ("negation", KEEPS, "The user does not keep a sundial", "I do not keep a sundial"),
        ("negation", "Ana lives in Rome", "Ana used to live in Rome", "I used to live there"),
        ("negation", "Ana lives in Rome", "Ana might live in Rome", "I might"),
        ("negation", "用户喜欢喝茶", "用户不喜欢喝茶", "我不喜欢喝茶"),
        ("negation", "Người dùng thích cá", "Người dùng không thích cá", "tôi không thích cá"),
        ("negation", "المستخدم يشرب الشاي", "المستخدم لا يشرب الشاي", "لا أشرب الشاي"),
        ("subject", KEEPS, "The neighbour keeps a sundial", "my neighbour keeps one"),
        ("subject", KEEPS, "The user's neighbour keeps a sundial", "my neighbour keeps one"),
        ("subject", "Ana keeps bees", "Ana and Ben keep bees", "Ben keeps bees"),
        ("subject", "用户喜欢喝茶", "用户的邻居喜欢喝茶", "我的邻居喜欢喝茶"),
        ("subject", "المستخدم يشرب الشاي", "جار المستخدم يشرب الشاي", "جاري يشرب الشاي"),
        ("number", "The user has 2 cats", "The user has 3 cats", "I have 3 cats"),
        ("number", "Ana keeps 10 bees", "Ana keeps 10% bees", "10% of them"),
        ("name", "The user lives with Anna", "The user lives with Berta", "with Berta"),
        ("order", "Anna gave Ben a book", "Ben gave Anna a book", "Ben gave Anna a book"),
        ("order", "Ana runs 5 km, swims 3 km", "Ana swims 5 km, runs 3 km", "I swim and run"),
        (
            "order",
            "المستخدم يركض 5 كم ويسبح 3 كم",
            "المستخدم يسبح 5 كم ويركض 3 كم",
            "أركض وأسبح كل يوم",
        ),
        (
            "order",
            "المستخدم يركض 5 كم ويسبح 3 كم",
            "المستخدم يركض 3 كم ويسبح 5 كم",
            "أركض وأسبح كل يوم",
        ),
        ("order", "用户跑5公里，游泳3公里", "用户跑3公里，游泳5公里", "我跑步也游泳"),
        ("opposite", "Likes short answers", "Likes detailed answers", "detailed answers please"),
        ("spelling", "Người dùng thích cá", "Người dùng thích cà", "cà"),
        ("lost", "Ana is allergic to peanuts", "Ana is allergic to cashews", "to cashews"),
        ("lost", "Ana keeps bees and goats", "Ana keeps bees", "I keep bees"),
        ("lost", "用户喜欢喝绿茶", "用户喜欢喝茶", "我喜欢喝茶"),
        ("unsupported", KEEPS, KEEPS + ", and is bankrupt", "hello there"),
        ("denied", KEEPS, KEEPS + ", and is bankrupt", "I am not bankrupt"),
        ("unsupported", "用户喜欢喝茶", "用户喜欢喝茶而且是骗子", "你好"),
        ("unsupported", "المستخدم يشرب الشاي", "المستخدم يشرب الشاي وهو مفلس", "مرحبا"),
        ("unsupported", "Ana keeps bees", "Ana keeps bees in 5000 hives", "my hives"),
        ("name", "Ana keeps twelve bees", "hijacked", "hijacked"),
    ],
)
def test_row_71_another_statement_is_none_whatever_was_said(
    kind: str, old: str, new: str, said: str
) -> None:
    assert kind in [each.partition(": ")[0] for each in refined(old, new, said).objections]


@pytest.mark.parametrize(
    ("old", "new", "said", "supported"),
    [
        ("The user has 2 cats", "The user has 3 cats", "I have 3 cats", True),
        ("The user has 2 cats", "The user has 3 cats", "hello", False),
        (KEEPS, "The user does not keep a sundial", "I don't keep the sundial any more", True),
        (KEEPS, "The user does not keep a sundial", "hello", False),
        ("用户喜欢喝茶", "用户不喜欢喝茶", "我不喜欢喝茶", True),
        (KEEPS, KEEPS + ", and is bankrupt", "I am not bankrupt", False),
        ("Ana likes tea", "Ana likes tea, jazz, chess and gold", "jazz and chess", True),
        ("Ana likes tea", "Ana likes tea, jazz, chess and gold", "jazz", False),
    ],
)
def test_what_was_half_said_may_be_right(old: str, new: str, said: str, supported: bool) -> None:
    found = refined(old, new, said)
    assert found.objections
    assert found.supported == supported


def test_the_words_of_all_messages_count_together() -> None:
    assert refined("Ana rows", "Ana rows on the Douro in May", "the Douro", "in May") == Refinement(
        (), supported=False
    )
