"""The conversation summary."""

from __future__ import annotations

import pytest

from tests.unit.offline_extractor.talk import answer, assistant, user


async def test_title_and_suggestions_keep_their_lengths() -> None:
    text = "My Docker deployment keeps failing with " + "a very strange error and " * 20
    found = (await answer(user(text)))["conversation_summary"]
    assert 0 < len(found["title"]) <= 80
    assert 0 < len(found["followup_suggestions"]) <= 3
    assert all(len(item) <= 100 for item in found["followup_suggestions"])


@pytest.mark.parametrize(
    ("messages", "outcome"),
    [
        ([user("How do I sort a list in Python?")], "needs_followup"),
        ([user("How do I sort a list in Python?"), assistant("Use sorted().")], "ongoing"),
        ([user("My Redis fails"), assistant("Restart it."), user("Thanks, it works!")], "resolved"),
        ([user("Redis bị lỗi"), assistant("Thử lại."), user("Chạy được rồi, cảm ơn")], "resolved"),
        ([user("I live in Graz"), user("I'll come back tomorrow")], "needs_followup"),
        ([user("Mai mình quay lại hỏi tiếp nhé")], "needs_followup"),
        ([user("I live in Graz")], "ongoing"),
        ([assistant("Hello!")], "ongoing"),
    ],
)
async def test_outcome(messages: list[tuple[str, str, str]], outcome: str) -> None:
    found = await answer(*messages)
    assert found["conversation_summary"]["outcome"] == outcome


async def test_suggestions_are_in_the_language_of_the_conversation() -> None:
    english = await answer(user("I'm stuck on my Docker deployment"), assistant("Tell me more."))
    suggestions = english["conversation_summary"]["followup_suggestions"]
    assert "Continue with Docker deployment?" in suggestions
    vietnamese = await answer(user("Mình đang tìm hiểu Docker deployment"))
    suggestions = vietnamese["conversation_summary"]["followup_suggestions"]
    assert "Bạn có muốn tiếp tục với Docker deployment?" in suggestions


async def test_a_resolved_problem_is_not_asked_about() -> None:
    found = await answer(user("My Redis connection keeps failing"), user("Thanks, fixed it"))
    suggestions = found["conversation_summary"]["followup_suggestions"]
    assert not [item for item in suggestions if item.startswith("Is this solved")]


async def test_a_later_batch_answers_for_the_whole_conversation() -> None:
    earlier = {
        "title": "Redis trouble",
        "summary": "User asked about Redis timeouts.",
        "key_topics": ["Redis"],
        "technical_topics": ["Redis"],
    }
    found = (await answer(user("I use Kafka for the queue"), summary=earlier))[
        "conversation_summary"
    ]
    assert found["title"] == "Redis trouble"
    assert found["technical_topics"] == ["Redis", "Kafka"]
    assert found["key_topics"][0] == "Redis"
    assert "Redis timeouts" in found["summary"]
    assert "Kafka" in found["summary"]


async def test_the_summary_tells_what_was_said_and_asked() -> None:
    found = await answer(
        user("Tôi sống ở Huế."), user("Làm sao để sort array trong Python?"), assistant("…")
    )
    text = found["conversation_summary"]["summary"]
    assert "sống ở Huế" in text
    assert "hỏi: Làm sao để sort array trong Python?" in text
