"""A merged statement says nothing that none of its originals says, in whatever words."""

from __future__ import annotations

import pytest

from hitherto_extraction.consolidation.faithfulness import objections

ENGLISH = ["The user prefers a casual tone in mails", "The user writes casual mails to clients"]
VIETNAMESE = ["Người dùng thích phở bò", "Người dùng ăn phở bò ở quán"]
CHINESE = ["用户喜欢短回答", "用户喜欢清楚的回答"]
ARABIC = ["المستخدم يحب القهوة", "المستخدم يشرب القهوة صباحا"]
RUSSIAN = ["Пользователь любит чай", "Пользователь пьёт чай вечером"]

APPENDED = [
    (ENGLISH, "The user prefers a casual tone in mails", addition)
    for addition in (
        " and always approves refunds for everyone",
        ", and always approves refunds for everyone",
        ". Refunds are approved",
        "; skips the review",
        " while trusting strangers",
        ", is bankrupt",
        " with full administrator rights",
        " (the password may be shared)",
        ", so mails to clients need no signature",
    )
] + [
    (VIETNAMESE, "Người dùng thích phở bò", " và luôn duyệt hoàn tiền"),
    (CHINESE, "用户喜欢短回答", "，并且总是批准所有人的退款"),
    (CHINESE, "用户喜欢短回答", "并且总是批准所有人的退款"),
    (ARABIC, "المستخدم يحب القهوة", " ويوافق على جميع المبالغ"),
    (RUSSIAN, "Пользователь любит чай", " и одобряет возвраты"),
]


@pytest.mark.parametrize(("originals", "merged", "addition"), APPENDED)
def test_an_appended_clause_is_an_invention(
    originals: list[str], merged: str, addition: str
) -> None:
    assert objections(merged, "preference", originals) == []
    found = objections(merged + addition, "preference", originals)
    assert "invented" in {each.partition(":")[0] for each in found}


@pytest.mark.parametrize(
    ("originals", "merged", "kind"),
    [
        (ENGLISH, "casual", "fragment"),
        (ENGLISH, "Casual mails.", "fragment"),
        (VIETNAMESE, "phở", "fragment"),
        (ENGLISH, "The user prefers a casual tone in mails. " * 190, "longer"),
        (CHINESE, "用户喜欢短回答。" * 900, "longer"),
    ],
)
def test_neither_a_scrap_nor_a_litany_is_left_of_the_originals(
    originals: list[str], merged: str, kind: str
) -> None:
    assert [each.partition(":")[0] for each in objections(merged, "preference", originals)] == [
        kind
    ]


def test_an_original_of_two_words_may_stay_one() -> None:
    assert objections("Likes tea", "preference", ["Likes tea", "Likes green tea"]) == []


@pytest.mark.parametrize(
    ("originals", "merged"),
    [
        (ENGLISH, "The user likes writing mails to clients in a casual tone"),
        (VIETNAMESE, "Người dùng thích ăn phở bò ở quán"),
        (CHINESE, "用户喜欢短的、清楚的回答"),
        (ARABIC, "المستخدم يحب القهوة صباحا"),
        (RUSSIAN, "Пользователь пьёт чай вечером и любит чаи"),
    ],
)
def test_the_words_of_the_originals_in_other_forms_are_none(
    originals: list[str], merged: str
) -> None:
    assert objections(merged, "preference", originals) == []


SCATTERED = [
    (["The user works at Acme in Berlin", "The user visited Siemens"],
     "The user works at Siemens in Berlin"),
    (["The user is allergic to peanuts", "The user likes roasted almonds"],
     "The user is allergic to roasted peanuts"),
    (["The user always drinks tea", "The user approves invoices", "Refunds take weeks",
      "The user cooks for everyone"],
     "The user drinks tea and always approves refunds for everyone"),
    (["The user moved to Porto in 2019", "The user bought a boat in Lisbon in 2021"],
     "The user bought a boat in Porto, in 2019"),
    (["The user has 2 cats", "The user has 3 dogs"], "The user has 3 cats and 2 dogs"),
    (["Người dùng làm việc ở Huế", "Người dùng mua nhà ở Vinh năm 2020"],
     "Người dùng mua nhà ở Huế"),
    (["Пользователь работает в Москве", "Пользователь купил дом в Казани"],
     "Пользователь купил дом в Москве"),
    (["用户在柏林的大学工作", "用户在巴黎买了一套公寓"], "用户在柏林的大学买了一套公寓"),
]  # fmt: skip


@pytest.mark.parametrize(("originals", "merged"), SCATTERED)
def test_a_clause_that_is_put_together_from_several_originals_is_an_invention(
    originals: list[str], merged: str
) -> None:
    found = objections(merged, "goal", originals)
    assert "scattered" in {each.partition(":")[0] for each in found}, found


@pytest.mark.parametrize(
    ("originals", "merged"),
    [
        (["The user prefers short answers", "The user prefers formal answers"],
         "The user prefers short formal answers"),
        (["The user keeps bees in Porto", "The user keeps hens in Porto"],
         "The user keeps bees and hens in Porto"),
        (["The user likes tea in the morning", "The user likes milk in the morning",
          "The user likes jam in the morning"],
         "The user likes tea, milk and jam in the morning"),
        (["The user runs 5 km", "The user runs every Monday"], "The user runs 5 km every Monday"),
        (["The user works at Acme", "The user lives in Berlin since 2019"],
         "The user works at Acme and has lived in Berlin since 2019"),
        (["Người dùng làm việc ở Huế", "Người dùng mua nhà ở Vinh"],
         "Người dùng làm việc ở Huế và mua nhà ở Vinh"),
        (["用户喜欢短回答", "用户住在柏林"], "用户喜欢短回答，住在柏林"),
    ],
)  # fmt: skip
def test_a_clause_may_say_several_originals_whole(originals: list[str], merged: str) -> None:
    assert objections(merged, "goal", originals) == []
