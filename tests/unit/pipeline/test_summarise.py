"""A conversation's summary after one more batch (F1)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hitherto_extraction.pipeline.summarise import FIELDS, merge_summary
from hitherto_shared.models import Summary

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
FAMILY = "👩\u200d👩\u200d👧\u200d👦"
"""What readers see as one character: 7 of them."""
HELD = Summary(
    conversation_id="c1", user_id="u1", title="Docker on a laptop",
    summary="The user set up Docker.", outcome="resolved", message_count=4, created_at=NOON,
    updated_at=NOON, key_topics=("docker",), technical_topics=("containers",),
    followup_suggestions=("Try compose",),
)  # fmt: skip


def test_what_says_nothing_keeps_what_is_held() -> None:
    empty: list[Any] = [None, "", "  ", [], {}, 7, [None, "", 3], "\ud800"]
    for nothing in empty:
        patch = dict.fromkeys(FIELDS, nothing)
        merged = merge_summary(HELD, patch, first_user_words="hi")
        assert (merged.title, merged.summary) == (HELD.title, HELD.summary), nothing
        assert (merged.outcome, merged.key_topics) == ("resolved", HELD.key_topics), nothing
        assert merged.technical_topics == HELD.technical_topics, nothing
        assert merged.followup_suggestions == HELD.followup_suggestions, nothing


def test_the_bounds_hold() -> None:
    patch = {
        "title": "t" * 1_000,
        "summary": "s" * 1_000_000,
        "key_topics": [f"topic {number} " + "x" * 200 for number in range(50)],
        "followup_suggestions": [f"try {number} " + "x" * 200 for number in range(50)],
    }
    merged = merge_summary(None, patch, first_user_words="")
    assert (len(merged.title), len(merged.summary), len(merged.key_topics)) == (255, 8_000, 20)
    assert len(merged.followup_suggestions) == 10
    assert {len(item) for item in merged.key_topics + merged.followup_suggestions} == {100}
    drawn = merge_summary(None, {"followup_suggestions": [FAMILY * 20]}, first_user_words="")
    assert drawn.followup_suggestions == (FAMILY * 14 + "…",)


def test_a_title_is_made_of_the_first_words_of_the_user() -> None:
    for words, title in [
        ("Còn trong Node.js thì sao?", "Còn trong Node.js thì sao?"),
        (
            "one two three four five six seven eight nine ten eleven",
            "one two three four five six seven eight nine ten…",
        ),
        ("字" * 200, "字" * 80 + "…"),
        (FAMILY * 50, FAMILY * 11 + "…"),
        ("", "Conversation"),
        (" \n ", "Conversation"),
        ("a\x00b \ud800", "a b"),
    ]:
        assert merge_summary(None, {"title": ""}, first_user_words=words).title == title
