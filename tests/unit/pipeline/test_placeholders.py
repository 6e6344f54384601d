"""What only fills in the form of an answer is no memory (issue: 11 junk items of "Hi there!")."""

from __future__ import annotations

from hitherto_extraction.provider.placeholders import is_placeholder

INSTRUCTIONS = (
    "Each `content` is one statement in the third person. For example: The user is a software\n"
    "engineer at Google. If there is nothing to remember, answer with empty lists."
)


def test_what_nobody_said_and_only_fills_in_is_a_placeholder() -> None:
    for content in [
        "string", "N/A", "n/a.", "None", "null", "...", "…", "-", "???", "TBD", "unknown",
        "<one statement in the third person>", "<string>", "{content}", "[statement]",
        "one statement in the third person", "The user is a software engineer at Google.",
        "nothing to remember",
    ]:  # fmt: skip
        assert is_placeholder(content, INSTRUCTIONS, "Hi there!")


def test_what_may_be_a_statement_is_kept() -> None:
    for content, said in [
        ("Vegetarian", "I'm a vegetarian"),
        ("None", "My answer to all of them is none."),
        ("The user is a software engineer at Google.", "I write software for Google"),
        ("The user lives in Porto", "Vivo no Porto"),
        ("The user likes cats", "Tôi thích mèo"),
        ("ユーザーは東京に住んでいます", "I live in Tokyo"),
        ("用户喜欢绿茶", "Green tea for me"),
        ("ผู้ใช้ชอบชา", "Tea please"),
        ("Người dùng thích cà phê", "I like coffee"),
        ("المستخدم يحب القهوة", "I like coffee"),
        ("Lives at [Rua 5, Porto]", "Rua 5"),
        ("🎉 birthday on 2026-03-01", "It's my birthday"),
    ]:
        assert not is_placeholder(content, INSTRUCTIONS, said)
