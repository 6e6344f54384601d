"""A merged statement says nothing that none of its originals says, in whatever words."""

from __future__ import annotations

import pytest

from hitherto_extraction.consolidation.faithful import objections

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
