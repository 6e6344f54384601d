"""What is suggested next, from the summaries of the last conversations (D15)."""

from __future__ import annotations

from dataclasses import replace

from hitherto_retrieval.suggestions import recent_topics, suggest
from hitherto_shared.models import Summary
from tests.unit.render_samples import summary as said


def summary(
    outcome: str, *suggestions: str, topics: tuple[str, ...] = (), technical: tuple[str, ...] = ()
) -> Summary:
    return replace(
        said("c", "t", ""),
        outcome=outcome,
        key_topics=topics,
        technical_topics=technical,
        followup_suggestions=suggestions,
    )


def test_what_needs_a_follow_up_comes_first_then_the_newest() -> None:
    found = suggest(
        [
            summary("resolved", "new but settled"),
            summary("ongoing", "goes on"),
            summary("needs_followup", "newer need"),
            summary("needs_followup", "older need"),
        ],
        10,
    )
    assert found == ["newer need", "older need", "goes on", "new but settled"]


def test_three_of_the_last_five_conversations_each_once() -> None:
    many = [summary("ongoing", f"ask about {n}", "Ask about 0") for n in range(9)]
    assert suggest(many, 3) == ["ask about 0", "ask about 1", "ask about 2"]
    assert len(suggest(many, 50)) == 5
    assert suggest([summary("ongoing", "x" * 101, "é" * 100, "")], 3) == ["é" * 100]
    told = [
        summary("ongoing", topics=("Bánh mì", "travel"), technical=("Docker",)),
        summary("ongoing", topics=("banh mi", "docker")),
    ]
    assert recent_topics(told) == ["Bánh mì", "travel", "Docker"]
